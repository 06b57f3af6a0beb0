/* fuzz_constraint.c: any bytes as a constraint. The first byte picks the kind, the second how a walk through the masks chooses;
 * what compiles is walked, every choice of a mask must be accepted, and a place that is not the end must have one. */
#include <stdlib.h>
#include <string.h>

#include "sample/constraint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    N_TOKEN = 262,
    STEPS = 40
};

static struct token_trie *vocabulary(void)
{
    static const char *const words[] = {"\"}", "12", "\xe6\x97", "ab", "\": "};
    static char bytes[256];
    struct token_piece piece[N_TOKEN];
    struct token_trie *t;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        piece[i] = (struct token_piece){.s = &bytes[i], .n = 1};
    }
    piece[256] = (struct token_piece){.s = "<end>", .n = 5, .is_end = true};
    for (int i = 257; i < N_TOKEN; i++)
        piece[i] = (struct token_piece){.s = words[i - 257], .n = strlen(words[i - 257])};
    return token_trie_create(&t, piece, N_TOKEN, NULL) == MR_OK ? t : NULL;
}

static void walk(struct mask_cache *m, struct constraint_state *s, uint32_t random)
{
    char forced[8];
    for (int i = 0; i < STEPS; i++) {
        const uint64_t *mask;
        struct mr_error err;
        const enum mr_status status = constraint_mask(&mask, s, &err);
        if (status == MR_FULL)
            return;
        if (status != MR_OK)
            abort();
        int32_t chosen = -1;
        uint32_t n = 0;
        for (int32_t t = 0; t < N_TOKEN; t++) {
            random = random * 1664525u + 1013904223u;
            if (mask_has(mask, t) && (random >> 8) % ++n == 0)
                chosen = t;
        }
        if (chosen == 256)
            return;
        const size_t n_forced = constraint_forced(s, forced, sizeof forced);
        const enum mr_status accepted = constraint_accept(s, chosen, &err);
        if (accepted == MR_FULL)
            return;
        if (accepted != MR_OK || (n_forced > 0 && chosen < 256 && (char)chosen != forced[0]))
            abort();
    }
    if (mask_cache_bytes(m) > (size_t)256 << 20)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum constraint_kind kinds[] = {CONSTRAINT_REGEX, CONSTRAINT_GRAMMAR, CONSTRAINT_JSON_SCHEMA};
    static struct token_trie *trie;
    struct constraint *c;
    struct mask_cache *m;
    struct constraint_state *s;
    struct mr_error err;
    if (trie == NULL)
        trie = vocabulary();
    if (size < 2 || trie == NULL)
        return 0;
    char *text = malloc(size - 1); /* exactly as long as the source, so that reading past it shows */
    if (text == NULL)
        return 0;
    memcpy(text, data + 2, size - 2);
    const struct constraint_source source = {.kind = kinds[data[0] % 3], .text = {text, size - 2}};
    if (constraint_create(&c, &source, &err) == MR_OK) {
        if (mask_cache_create(&m, c, trie, &err) == MR_OK && constraint_state_create(&s, m, &err) == MR_OK) {
            walk(m, s, data[1]);
            constraint_state_free(s);
        }
        mask_cache_free(m);
        constraint_free(c);
    }
    free(text);
    return 0;
}
