/* constraint_store.h: what the answers of an engine obey, compiled for its vocabulary, by content: constraints with their
 * masks, sets of bad words, the texts that healed prompts lost.
 * They are compiled on a thread of the store's own, which begins with the first constraint, so that no step waits for one. A
 * constraint that several requests use is compiled once; what nobody uses is kept until its place is needed, and what nobody
 * wants any more before its turn has come is not compiled.
 * Threads: the functions belong to the engine's. An entry is the store's thread's until it is ready or has failed. */
#ifndef ENGINE_CONSTRAINT_STORE_H
#define ENGINE_CONSTRAINT_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "sample/constraint.h"
#include "sample/word_ban.h"
#include "text/tokenizer.h"

enum {
    STORED_CONSTRAINTS_MAX = 16 /* that nobody uses */
};

enum stored_state {
    STORED_WAITING, /* in the queue */
    STORED_RUNNING,
    STORED_READY,
    STORED_FAILED
};

enum stored_role {
    STORED_CONSTRAINT,
    STORED_BAN,    /* text: bad words, each with its NUL */
    STORED_PREFIX, /* text: that the first token begins with */
    N_STORED_ROLES
};

struct stored_key {
    enum stored_role role;
    enum constraint_kind kind; /* of a constraint */
    const char *text;
    size_t n_text;
};

struct stored_constraint {
    struct stored_constraint *next;   /* in the store */
    struct stored_constraint *behind; /* in the queue */
    struct stored_key key;
    char *text; /* the key's */
    int n_user;
    uint64_t used; /* time of last use */
    _Atomic int state;
    /* once it is ready, by its role: */
    struct constraint *constraint;
    struct mask_cache *masks;
    struct word_ban *ban;
    uint64_t *prefix; /* mask of the tokens that begin with the text */
    /* once it has failed: */
    enum mr_status status;
    struct mr_error error;
};

struct constraint_store {
    const struct tokenizer *tokenizer;
    struct token_trie *trie;      /* made for the first constraint; there once one is ready */
    struct token_trie *call_trie; /* the same for calls, with control tokens that stand in markers */
    struct stored_constraint *first;
    uint64_t time;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    /* under the lock: */
    struct stored_constraint *queue;
    bool stop;
    int n_open; /* entries that wait or run */
    bool news;  /* one has ended since the last constraint_store_wait */
};

/* false: no memory. */
bool constraint_store_init(struct constraint_store *store, const struct tokenizer *tokenizer);
/* Waits for what is being compiled. Takes a store of zeros; nobody uses an entry any more. */
void constraint_store_release(struct constraint_store *store);

/* What the key names, which is queued if it is not there; the text is copied. The caller becomes its user. NO_MEMORY. */
enum mr_status constraint_store_take(struct constraint_store *store, struct stored_constraint **out,
                                     const struct stored_key *key, struct mr_error *err);
void constraint_store_leave(struct constraint_store *store, struct stored_constraint *c); /* takes NULL */

/* The vocabulary of a constraint that is ready. */
static inline const struct token_trie *constraint_store_trie(const struct constraint_store *store,
                                                             const struct stored_constraint *c)
{
    return c->key.kind == CONSTRAINT_CALLS ? store->call_trie : store->trie;
}

static inline enum stored_state stored_constraint_state(const struct stored_constraint *c)
{
    return (enum stored_state)atomic_load_explicit(&c->state, memory_order_acquire);
}

/* Sleep until an entry is ready or has failed since the last call, for timeout_us at most; not at all where none is under way.
 */
void constraint_store_wait(struct constraint_store *store, int timeout_us);

#endif
