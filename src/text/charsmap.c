/* charsmap.c: SentencePiece's precompiled table of replacements. */
#include "text/charsmap.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define KEY "tokenizer.ggml.precompiled_charsmap"

static enum mr_status fill(struct charsmap *c, const struct gguf_value *v, struct mr_error *err)
{
    unsigned char size[4];
    for (size_t i = 0; i < 4; i++)
        size[i] = (unsigned char)gguf_as_u64(v, i);
    const size_t trie = (size_t)size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 | (size_t)size[3] << 24;
    if (trie % 4 != 0 || trie == 0 || trie > v->n - 4 || v->n - 4 - trie == 0)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': a trie of %zu bytes in %zu", KEY, trie, v->n);
    c->n_unit = trie / 4;
    c->n_text = v->n - 4 - trie;
    c->unit = mem_zero_array(c->n_unit, sizeof *c->unit);
    c->text = mem_array(c->n_text, 1);
    if (c->unit == NULL || c->text == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", KEY);
    for (size_t i = 0; i < trie; i++)
        c->unit[i / 4] |= (uint32_t)(gguf_as_u64(v, 4 + i) & 0xff) << i % 4 * 8;
    for (size_t i = 0; i < c->n_text; i++)
        c->text[i] = (char)gguf_as_u64(v, 4 + trie + i);
    if (c->text[c->n_text - 1] != '\0')
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': the last replacement has no end", KEY);
    return MR_OK;
}

enum mr_status charsmap_init(struct charsmap *c, const struct gguf *g, struct mr_error *err)
{
    *c = (struct charsmap){0};
    const struct gguf_value *v = gguf_value_find(g, KEY);
    if (v == NULL)
        return MR_OK;
    if (!v->is_array || (v->type != GGUF_U8 && v->type != GGUF_I8) || v->n < 5)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is not an array of bytes", KEY);
    const enum mr_status status = fill(c, v, err);
    if (status != MR_OK)
        charsmap_release(c);
    return status;
}

void charsmap_release(struct charsmap *c)
{
    free(c->unit);
    free(c->text);
    *c = (struct charsmap){0};
}

/* A unit: bits 0 to 7 the byte that leads here, 8 whether a string ends here (its value is the unit at the offset), 9
 * whether the offset is scaled by 256, 10 to 30 the offset; a value has 31 bits and bit 31 set. */
static uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

size_t charsmap_match(const struct charsmap *c, const char *s, size_t n, const char **with)
{
    size_t longest = 0;
    if (c->unit == NULL)
        return 0;
    uint32_t at = offset_of(c->unit[0]);
    for (size_t i = 0; i < n; i++) {
        const uint32_t byte = (unsigned char)s[i];
        at ^= byte;
        if (at >= c->n_unit || (c->unit[at] & 0x800000ffu) != byte)
            break;
        const uint32_t unit = c->unit[at];
        at ^= offset_of(unit);
        if ((unit >> 8 & 1) == 0 || at >= c->n_unit)
            continue;
        const uint32_t value = c->unit[at] & 0x7fffffffu;
        if (value < c->n_text) {
            longest = i + 1;
            *with = c->text + value;
        }
    }
    return longest;
}
