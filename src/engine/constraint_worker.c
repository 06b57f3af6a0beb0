/* constraint_worker.c: compiles what is queued, one entry after the other. */
#include "engine/constraint_worker.h"

#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/thread_start.h"
#include "text/call_format.h"

/* with_markers: control tokens that models write to call functions are text like any other. */
static enum mr_status make_trie(const struct constraint_store *store, struct token_trie **out, bool with_markers,
                                struct mr_error *err)
{
    const int n = tokenizer_n_vocab(store->tokenizer);
    struct token_piece *piece = mem_array((size_t)n, sizeof *piece);
    if (piece == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the pieces of %d tokens", n);
    for (int i = 0; i < n; i++) {
        const struct gguf_string s = tokenizer_piece(store->tokenizer, i, with_markers);
        piece[i] = (struct token_piece){.s = s.s,
                                        .n = s.n,
                                        .is_control = tokenizer_is_control(store->tokenizer, i) &&
                                                      !(with_markers && call_format_has_piece(s.s, s.n)),
                                        .is_end = tokenizer_is_end(store->tokenizer, i)};
    }
    const enum mr_status status = token_trie_create(out, piece, n, err);
    free(piece);
    return status;
}

static enum mr_status make_prefix(const struct token_trie *t, struct stored_constraint *c, struct mr_error *err)
{
    c->prefix = mem_zero_array(t->n_word, sizeof *c->prefix);
    if (c->prefix == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a mask of %d tokens", (int)t->n_token);
    const struct token_stretch s = token_trie_stretch(t, c->text, c->key.n_text);
    for (uint32_t i = s.begin; i < s.end; i++)
        for (int32_t id = t->node[i].token; id >= 0; id = t->next_token[id])
            mask_add(c->prefix, id);
    return MR_OK;
}

static enum mr_status make_masks(const struct token_trie *t, struct stored_constraint *c, struct mr_error *err)
{
    MR_TRY(mask_cache_create(&c->masks, c->constraint, t, err));
    return mask_cache_warm(c->masks, MASK_CACHE_WARM_WORK, err);
}

static enum mr_status compile(struct constraint_store *store, struct stored_constraint *c, struct mr_error *err)
{
    const struct constraint_source source = {.kind = c->key.kind, .text = {c->text, c->key.n_text}};
    if (c->key.role == STORED_CONSTRAINT)
        MR_TRY(constraint_create(&c->constraint, &source, err)); /* what is wrong is told without a trie */
    const bool is_calls = c->key.role == STORED_CONSTRAINT && c->key.kind == CONSTRAINT_CALLS;
    struct token_trie **trie = is_calls ? &store->call_trie : &store->trie;
    if (*trie == NULL)
        MR_TRY(make_trie(store, trie, is_calls, err));
    switch (c->key.role) {
    case STORED_CONSTRAINT:
        return make_masks(*trie, c, err);
    case STORED_BAN:
        return word_ban_create(&c->ban, *trie, c->text, c->key.n_text, err);
    case STORED_PREFIX:
        return make_prefix(*trie, c, err);
    case N_STORED_ROLES:
        break;
    }
    return mr_fail(err, MR_BAD_INPUT, "nothing to compile");
}

/* The next entry, or NULL: the store is about to end. */
static struct stored_constraint *next(struct constraint_store *store)
{
    pthread_mutex_lock(&store->lock);
    while (store->queue == NULL && !store->stop)
        pthread_cond_wait(&store->work, &store->lock);
    struct stored_constraint *c = store->stop ? NULL : store->queue;
    if (c != NULL) {
        store->queue = c->behind;
        atomic_store_explicit(&c->state, STORED_RUNNING, memory_order_relaxed);
    }
    pthread_mutex_unlock(&store->lock);
    return c;
}

static void *run(void *context)
{
    struct constraint_store *store = context;
    for (struct stored_constraint *c; (c = next(store)) != NULL;) {
        c->status = compile(store, c, &c->error);
        pthread_mutex_lock(&store->lock);
        atomic_store_explicit(&c->state, c->status == MR_OK ? STORED_READY : STORED_FAILED, memory_order_release);
        store->n_open--;
        store->news = true;
        pthread_cond_signal(&store->done);
        pthread_mutex_unlock(&store->lock);
    }
    return NULL;
}

bool constraint_worker_init(struct constraint_store *store)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    bool ok = pthread_mutex_init(&store->lock, NULL) == 0;
    ok = ok && pthread_cond_init(&store->work, NULL) == 0;
    ok = ok && pthread_cond_init(&store->done, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    return ok;
}

enum mr_status constraint_worker_add(struct constraint_store *store, struct stored_constraint *c, struct mr_error *err)
{
    if (!store->has_thread)
        store->has_thread = thread_start(&store->thread, run, store);
    if (!store->has_thread)
        return mr_fail(err, MR_NO_MEMORY, "no thread could be started to compile constraints");
    pthread_mutex_lock(&store->lock);
    struct stored_constraint **last = &store->queue;
    while (*last != NULL)
        last = &(*last)->behind;
    *last = c;
    store->n_open++;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
    return MR_OK;
}

bool constraint_worker_remove(struct constraint_store *store, struct stored_constraint *c)
{
    pthread_mutex_lock(&store->lock);
    struct stored_constraint **at = &store->queue;
    while (*at != NULL && *at != c)
        at = &(*at)->behind;
    const bool found = *at != NULL;
    if (found) {
        *at = c->behind;
        store->n_open--;
    }
    pthread_mutex_unlock(&store->lock);
    return found;
}

void constraint_worker_release(struct constraint_store *store)
{
    if (!store->has_thread)
        return;
    pthread_mutex_lock(&store->lock);
    store->stop = true;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
    pthread_join(store->thread, NULL);
    store->has_thread = false;
}

void constraint_store_wait(struct constraint_store *store, int timeout_us)
{
    if (!store->has_thread)
        return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)timeout_us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&store->lock);
    int status = 0;
    while (store->n_open > 0 && !store->news && status == 0)
        status = pthread_cond_timedwait(&store->done, &store->lock, &until);
    store->news = false;
    pthread_mutex_unlock(&store->lock);
}
