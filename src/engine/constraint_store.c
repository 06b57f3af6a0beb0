/* constraint_store.c: compiled constraints by content. */
#include "engine/constraint_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void constraint_store_init(struct constraint_store *store, const struct tokenizer *tokenizer)
{
    *store = (struct constraint_store){.tokenizer = tokenizer};
}

static void free_entry(struct stored_constraint *c)
{
    mask_cache_free(c->masks);
    constraint_free(c->constraint);
    free(c->text);
    free(c);
}

void constraint_store_release(struct constraint_store *store)
{
    while (store->first != NULL) {
        struct stored_constraint *c = store->first;
        store->first = c->next;
        free_entry(c);
    }
    token_trie_free(store->trie);
    store->trie = NULL;
}

static enum mr_status make_trie(struct constraint_store *store, struct mr_error *err)
{
    const int n = tokenizer_n_vocab(store->tokenizer);
    struct token_piece *piece = mem_array((size_t)n, sizeof *piece);
    if (piece == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the pieces of %d tokens", n);
    for (int i = 0; i < n; i++) {
        const struct gguf_string s = tokenizer_piece(store->tokenizer, i, false);
        piece[i] = (struct token_piece){.s = s.s,
                                        .n = s.n,
                                        .is_control = tokenizer_is_control(store->tokenizer, i),
                                        .is_end = tokenizer_is_end(store->tokenizer, i)};
    }
    const enum mr_status status = token_trie_create(&store->trie, piece, n, err);
    free(piece);
    return status;
}

static enum mr_status compile(const struct constraint_store *store, struct stored_constraint *c, struct mr_error *err)
{
    const struct constraint_source source = {.kind = c->kind, .text = {c->text, c->n_text}};
    MR_TRY(constraint_create(&c->constraint, &source, err));
    MR_TRY(mask_cache_create(&c->masks, c->constraint, store->trie, err));
    return mask_cache_warm(c->masks, MASK_CACHE_WARM_WORK, err);
}

static struct stored_constraint *find(const struct constraint_store *store, enum constraint_kind kind, const char *text,
                                      size_t n)
{
    for (struct stored_constraint *c = store->first; c != NULL; c = c->next)
        if (c->kind == kind && c->n_text == n && memcmp(c->text, text, n) == 0)
            return c;
    return NULL;
}

/* Free the entry without users that was used the longest ago, where there are too many. */
static void make_room(struct constraint_store *store)
{
    struct stored_constraint **oldest = NULL;
    int n_unused = 0;
    for (struct stored_constraint **c = &store->first; *c != NULL; c = &(*c)->next) {
        if ((*c)->n_user > 0)
            continue;
        n_unused++;
        if (oldest == NULL || (*c)->used < (*oldest)->used)
            oldest = c;
    }
    if (n_unused <= STORED_CONSTRAINTS_MAX)
        return;
    struct stored_constraint *c = *oldest;
    *oldest = c->next;
    free_entry(c);
}

enum mr_status constraint_store_take(struct constraint_store *store, struct stored_constraint **out, enum constraint_kind kind,
                                     const char *text, size_t n, struct mr_error *err)
{
    struct stored_constraint *c = find(store, kind, text, n);
    *out = NULL;
    if (c == NULL) {
        if (store->trie == NULL)
            MR_TRY(make_trie(store, err));
        c = mem_zero_array(1, sizeof *c);
        if (c == NULL || (c->text = mem_string(text, n)) == NULL) {
            free(c);
            return mr_fail(err, MR_NO_MEMORY, "no memory for a constraint of %zu bytes", n);
        }
        c->kind = kind;
        c->n_text = n;
        const enum mr_status status = compile(store, c, err);
        if (status != MR_OK) {
            free_entry(c);
            return status;
        }
        c->next = store->first;
        store->first = c;
    }
    c->n_user++;
    c->used = ++store->time;
    *out = c;
    return MR_OK;
}

void constraint_store_leave(struct constraint_store *store, struct stored_constraint *c)
{
    if (c == NULL)
        return;
    c->n_user--;
    make_room(store);
}
