/* constraint_store.c: compiled constraints by content. */
#include "engine/constraint_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/constraint_worker.h"

bool constraint_store_init(struct constraint_store *store, const struct tokenizer *tokenizer)
{
    *store = (struct constraint_store){0};
    if (!constraint_worker_init(store))
        return false;
    store->tokenizer = tokenizer;
    return true;
}

static void free_entry(struct stored_constraint *c)
{
    mask_cache_free(c->masks);
    constraint_free(c->constraint);
    word_ban_free(c->ban);
    free(c->prefix);
    free(c->text);
    free(c);
}

void constraint_store_release(struct constraint_store *store)
{
    if (store->tokenizer == NULL)
        return;
    constraint_worker_release(store);
    while (store->first != NULL) {
        struct stored_constraint *c = store->first;
        store->first = c->next;
        free_entry(c);
    }
    token_trie_free(store->trie);
    token_trie_free(store->call_trie);
    pthread_cond_destroy(&store->done);
    pthread_cond_destroy(&store->work);
    pthread_mutex_destroy(&store->lock);
    *store = (struct constraint_store){0};
}

static bool is_for(const struct stored_constraint *c, const struct stored_key *key)
{
    return c->key.role == key->role && c->key.kind == key->kind && c->key.n_text == key->n_text &&
           memcmp(c->text, key->text, key->n_text) == 0;
}

static struct stored_constraint *find(const struct constraint_store *store, const struct stored_key *key)
{
    for (struct stored_constraint *c = store->first; c != NULL; c = c->next)
        if (stored_constraint_state(c) != STORED_FAILED && is_for(c, key))
            return c;
    return NULL;
}

static void drop(struct constraint_store *store, struct stored_constraint *c)
{
    struct stored_constraint **at = &store->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free_entry(c);
}

/* Drop the entry without users that was used the longest ago, where there are too many. */
static void make_room(struct constraint_store *store)
{
    struct stored_constraint *oldest = NULL;
    int n_unused = 0;
    for (struct stored_constraint *c = store->first; c != NULL; c = c->next) {
        if (c->n_user > 0 || stored_constraint_state(c) < STORED_READY)
            continue;
        n_unused++;
        if (oldest == NULL || c->used < oldest->used)
            oldest = c;
    }
    if (n_unused > STORED_CONSTRAINTS_MAX)
        drop(store, oldest);
}

static enum mr_status add(struct constraint_store *store, struct stored_constraint **out, const struct stored_key *key,
                          struct mr_error *err)
{
    struct stored_constraint *c = mem_zero_array(1, sizeof *c);
    if (c == NULL || (c->text = mem_string(key->text, key->n_text)) == NULL) {
        free(c);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a constraint of %zu bytes", key->n_text);
    }
    c->key = *key;
    c->key.text = c->text;
    const enum mr_status status = constraint_worker_add(store, c, err);
    if (status != MR_OK) {
        free_entry(c);
        return status;
    }
    c->next = store->first;
    *out = store->first = c;
    return MR_OK;
}

enum mr_status constraint_store_take(struct constraint_store *store, struct stored_constraint **out,
                                     const struct stored_key *key, struct mr_error *err)
{
    *out = find(store, key);
    if (*out == NULL)
        MR_TRY(add(store, out, key, err));
    (*out)->n_user++;
    (*out)->used = ++store->time;
    return MR_OK;
}

/* What failed is not kept: memory may be there the next time. */
void constraint_store_leave(struct constraint_store *store, struct stored_constraint *c)
{
    if (c == NULL || --c->n_user > 0)
        return;
    if (stored_constraint_state(c) == STORED_FAILED || constraint_worker_remove(store, c))
        drop(store, c);
    else
        make_room(store);
}
