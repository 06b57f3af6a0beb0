/* char_bpe.c: what the byte pair encodings over characters share. */
#include "text/char_bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

struct char_bpe_scratch {
    struct merger merger;
    char *spaced; /* a segment with a blank in front */
    size_t spaced_capacity;
};

void *char_bpe_scratch_create(const void *model)
{
    (void)model;
    return calloc(1, sizeof(struct char_bpe_scratch));
}

void char_bpe_scratch_free(void *scratch)
{
    struct char_bpe_scratch *s = scratch;
    if (s == NULL)
        return;
    merger_release(&s->merger);
    free(s->spaced);
    free(s);
}

bool char_bpe_init(struct char_bpe *b, const struct vocabulary *v)
{
    *b = (struct char_bpe){.v = v, .crosses = mem_zero_array(256, sizeof *b->crosses)};
    if (b->crosses == NULL || !string_index_init(&b->by_piece, &v->piece, (size_t)v->n))
        return false;
    for (int32_t id = 0; id < v->n; id++) {
        const struct gguf_string p = vocabulary_piece(v, id);
        if (!vocabulary_is_text(v, id) || p.n == 0)
            continue;
        string_index_add(&b->by_piece, id);
        for (size_t i = 1; i < p.n; i++) {
            const unsigned char left = (unsigned char)p.s[i - 1], right = (unsigned char)p.s[i];
            b->crosses[left][right / 8] |= (uint8_t)(1u << right % 8);
        }
    }
    return true;
}

void char_bpe_release(struct char_bpe *b)
{
    string_index_release(&b->by_piece);
    free(b->crosses);
    *b = (struct char_bpe){0};
}

static bool crosses(const struct char_bpe *b, char left, char right)
{
    const unsigned char row = (unsigned char)left, column = (unsigned char)right;
    return (b->crosses[row][column / 8] >> column % 8 & 1) != 0;
}

/* Characters, or single ill-formed bytes, from s to the first place that no token crosses. */
static bool add_piece(const struct char_bpe *b, struct merger *m, const char *s, size_t n, size_t *used)
{
    size_t at = 0;
    m->n = 0;
    do {
        uint32_t code;
        const int len = utf8_decode(&code, s + at, n - at);
        const size_t step = len > 0 ? (size_t)len : 1;
        const int32_t id = string_index_find(&b->by_piece, s + at, step);
        if (!merger_add(m, id, (uint32_t)at, (uint32_t)step))
            return false;
        at += step;
    } while (at < n && crosses(b, s[at - 1], s[at]));
    *used = at;
    return true;
}

/* A character without a token: its bytes' tokens, or one unknown token for a run of them. */
static bool emit_bytes(const struct char_bpe *b, const char *s, size_t n, bool *unknown_before, struct token_list *list)
{
    for (size_t i = 0; i < n; i++) {
        const int32_t byte = b->v->byte_token[(unsigned char)s[i]];
        const int32_t id = byte >= 0 || *unknown_before ? byte : b->v->special[SPECIAL_UNKNOWN];
        if (id >= 0 && !token_list_add(list, id))
            return false;
        *unknown_before = byte < 0;
    }
    return true;
}

static bool emit(const struct char_bpe *b, const struct merger *m, const char *s, bool *unknown_before, struct token_list *list)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct symbol *symbol = &m->symbol[i];
        if (symbol->id < 0) {
            if (!emit_bytes(b, s + symbol->start, symbol->n, unknown_before, list))
                return false;
            continue;
        }
        *unknown_before = false;
        if (!token_list_add(list, symbol->id))
            return false;
    }
    return true;
}

static bool put_space(struct char_bpe_scratch *s, struct text_segment *segment)
{
    if (!mem_grow(&s->spaced, &s->spaced_capacity, segment->n + 1, 1))
        return false;
    s->spaced[0] = ' ';
    memcpy(s->spaced + 1, segment->s, segment->n);
    segment->s = s->spaced;
    segment->n++;
    return true;
}

bool char_bpe_encode(const struct char_bpe *b, void *scratch, const struct text_segment *segment, char_bpe_merge_fn *merge,
                     const void *model, struct token_list *list)
{
    struct char_bpe_scratch *c = scratch;
    struct text_segment text = *segment;
    bool unknown_before = false;
    if (text.add_space && !put_space(c, &text))
        return false;
    for (size_t at = 0, used; at < text.n; at += used) {
        const char *s = text.s + at;
        if (!add_piece(b, &c->merger, s, text.n - at, &used) || !merge(model, &c->merger, s) ||
            !emit(b, &c->merger, s, &unknown_before, list))
            return false;
    }
    return true;
}
