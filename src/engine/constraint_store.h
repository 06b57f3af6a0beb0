/* constraint_store.h: the compiled constraints of an engine, by content, with their masks.
 * A constraint that several requests use is compiled once; what nobody uses is kept until its place is needed. */
#ifndef ENGINE_CONSTRAINT_STORE_H
#define ENGINE_CONSTRAINT_STORE_H

#include "sample/constraint.h"
#include "text/tokenizer.h"

enum {
    STORED_CONSTRAINTS_MAX = 16 /* that nobody uses */
};

struct constraint_store {
    const struct tokenizer *tokenizer;
    struct token_trie *trie; /* made for the first constraint */
    struct stored_constraint *first;
    uint64_t time;
};

struct stored_constraint {
    struct stored_constraint *next;
    enum constraint_kind kind;
    char *text;
    size_t n_text;
    struct constraint *constraint;
    struct mask_cache *masks;
    int n_user;
    uint64_t used; /* time of last use */
};

void constraint_store_init(struct constraint_store *store, const struct tokenizer *tokenizer);
void constraint_store_release(struct constraint_store *store); /* no entry has users */

/* The constraint of this text, compiled now if it is not there. The caller becomes its user. */
enum mr_status constraint_store_take(struct constraint_store *store, struct stored_constraint **out, enum constraint_kind kind,
                                     const char *text, size_t n, struct mr_error *err);
void constraint_store_leave(struct constraint_store *store, struct stored_constraint *c); /* takes NULL */

#endif
