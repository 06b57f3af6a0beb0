/* mask_cache_internal.h: what the files of the mask cache share. */
#ifndef SAMPLE_MASK_CACHE_INTERNAL_H
#define SAMPLE_MASK_CACHE_INTERNAL_H

#include "sample/constraint_internal.h"

enum {
    COSTLY_MAX = 4,             /* node masks tried for likeness */
    RECENT_MAX = 16,            /* whole masks kept */
    CACHE_BYTES_MAX = 128 << 20 /* of node masks; past it all are dropped */
};

/* What a node allows by itself. */
struct node_mask {
    uint32_t node, low, high; /* key: see count_class */
    uint64_t *bits;           /* NULL: the tokens are listed */
    int32_t *token;
    size_t n_token;
    struct token_node *ending; /* rests of tokens that leave the rule */
    uint32_t n_ending;
    uint32_t *branch; /* the same where many begin alike: nodes of the vocabulary's trie */
    size_t n_branch;
    uint32_t reach;   /* frames that the walk needed, the node's own included */
    uint32_t deepest; /* bytes of tokens that could be read at most */
    bool borrowed;    /* the arrays belong to another node's mask */
    bool direct;      /* too many rests: walk over the whole trie instead */
};

struct recent_mask {
    struct position position;
    uint64_t *mask;
    uint64_t used; /* time of last use; 0: free */
};

struct mask_cache {
    const struct constraint *constraint;
    const struct token_trie *trie;
    struct node_mask **slot; /* hash table */
    size_t n_slot, n_node_mask;
    size_t bytes;
    const struct node_mask *costly[COSTLY_MAX]; /* the last that took long to find: others may be like them */
    uint64_t n_costly;
    struct stacks inner;      /* scratch: within a rule */
    struct stacks outer;      /* scratch: with the real stack */
    struct stacks states;     /* scratch of constraint_state.c */
    struct walk_level *level; /* [longest token + 2], for walks */
    uint32_t *state;          /* the same */
    uint64_t *scratch;        /* [n_word] */
    struct recent_mask recent[RECENT_MAX];
    uint64_t time;
};

/* A walk over the whole vocabulary from where s stands. */
struct mask_walk mask_cache_walk(struct mask_cache *m, struct stacks *s, uint64_t *mask);

/* Put `s` at one place above its first n_frame frames. */
bool mask_cache_stand(struct stacks *s, size_t n_frame, struct stack_top top);

/* The mask of the node, found now if it is not there; valid until the next call. *work grows by the trie nodes looked at. */
enum mr_status node_mask_find(const struct node_mask **out, struct mask_cache *m, uint32_t node, uint32_t count, size_t *work);
void node_masks_drop(struct mask_cache *m); /* all of them */

#endif
