/* merge_table.c: the merges of a byte pair encoding. */
#include "text/merge_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define KEY_MERGES "tokenizer.ggml.merges"

static struct merge_entry *probe(const struct merge_table *t, int32_t left, int32_t right)
{
    const uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    uint64_t at = hash >> 32 & t->mask;
    while (t->entry[at].left >= 0 && (t->entry[at].left != left || t->entry[at].right != right))
        at = (at + 1) & t->mask;
    return &t->entry[at];
}

struct merge merge_table_find(const void *table, const struct symbol *left, const struct symbol *right)
{
    const struct merge_entry *e = probe(table, left->id, right->id);
    return e->left >= 0 ? e->merge : (struct merge){MERGE_RANK_NONE, MERGE_NONE};
}

static bool allocate(struct merge_table *t, size_t n)
{
    size_t slots = 16;
    while (slots / 4 * 3 < n)
        slots *= 2;
    t->mask = slots - 1;
    t->entry = mem_array(slots, sizeof *t->entry);
    if (t->entry != NULL)
        memset(t->entry, 0xff, slots * sizeof *t->entry);
    return t->entry != NULL;
}

/* The merge s of rank i: two tokens with a blank between them, whose texts joined are a token. */
static enum mr_status read_merge(struct merge_entry *out, const struct vocabulary *v, struct gguf_string s, size_t i,
                                 struct mr_error *err)
{
    char joined[2 * TOKEN_BYTES_MAX];
    const int shown = s.n < 200 ? (int)s.n : 200;
    const char *blank = s.n > 2 && s.n <= sizeof joined ? memchr(s.s + 1, ' ', s.n - 2) : NULL;
    if (blank == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': merge %zu, '%.*s', is not two tokens with a blank between them",
                       KEY_MERGES, i, shown, s.s);
    const size_t n_left = (size_t)(blank - s.s), n_right = s.n - n_left - 1;
    const int32_t left = string_index_find(&v->by_spelling, s.s, n_left);
    const int32_t right = string_index_find(&v->by_spelling, blank + 1, n_right);
    if (left < 0 || right < 0)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': merge %zu, '%.*s', names a token that is not in the vocabulary",
                       KEY_MERGES, i, shown, s.s);
    memcpy(joined, s.s, n_left);
    memcpy(joined + n_left, blank + 1, n_right);
    const int32_t id = string_index_find(&v->by_spelling, joined, n_left + n_right);
    if (id < 0)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': merge %zu, '%.*s', gives no token of the vocabulary", KEY_MERGES, i,
                       shown, s.s);
    *out = (struct merge_entry){left, right, {(uint32_t)i, id}};
    return MR_OK;
}

enum mr_status merge_table_init(struct merge_table *t, const struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    const struct gguf_value *merges;
    *t = (struct merge_table){0};
    MR_TRY(gguf_get_array(g, KEY_MERGES, &merges, err));
    if (merges->type != GGUF_STRING || merges->n >= MERGE_RANK_NONE)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is not an array of strings", KEY_MERGES);
    if (!allocate(t, merges->n))
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu merges", merges->n);
    for (size_t i = 0; i < merges->n; i++) {
        struct merge_entry e;
        const enum mr_status status = read_merge(&e, v, gguf_as_string(merges, i), i, err);
        if (status != MR_OK) {
            merge_table_release(t);
            return status;
        }
        struct merge_entry *place = probe(t, e.left, e.right);
        if (place->left < 0) /* a merge listed twice counts where it stands first */
            *place = e;
    }
    return MR_OK;
}

void merge_table_release(struct merge_table *t)
{
    free(t->entry);
    *t = (struct merge_table){0};
}
