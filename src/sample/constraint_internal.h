/* constraint_internal.h: what the files behind constraint.h share. */
#ifndef SAMPLE_CONSTRAINT_INTERNAL_H
#define SAMPLE_CONSTRAINT_INTERNAL_H

#include "sample/constraint.h"
#include "sample/grammar_stack.h"

struct constraint {
    struct grammar *grammar;
};

/* Where an automaton is: the tops and the frames below them, numbered from the bottom in a fixed way, so that equal places
 * are equal bytes. */
struct position {
    struct stack_frame *frame;
    size_t n_frame, frame_capacity;
    struct stack_top *top;
    size_t n_top, top_capacity;
    bool ended;         /* an end token was accepted */
    uint32_t *renumber; /* scratch of position_from_stacks */
    size_t renumber_capacity;
};

void position_release(struct position *p);
bool position_copy(struct position *to, const struct position *from); /* false: no memory */
bool position_equal(const struct position *a, const struct position *b);

/* The tops of `s` with the frames that they stand on. false: no memory. */
bool position_from_stacks(struct position *to, const struct stacks *s);
bool stacks_from_position(struct stacks *s, const struct position *p);

const struct constraint *mask_cache_constraint(const struct mask_cache *m);
const struct token_trie *mask_cache_trie(const struct mask_cache *m);

/* The mask of the place, owned by the cache. */
enum mr_status mask_cache_find(const uint64_t **mask, struct mask_cache *m, const struct position *p, struct mr_error *err);

/* Scratch for stepping, owned by the cache. */
struct stacks *mask_cache_stacks(struct mask_cache *m);

/* Where the automaton may be after the bytes down to one depth of a trie: tops first to end - 1. */
struct walk_level {
    size_t first, end;
    size_t n_frame;
};

/* One walk over a trie. */
struct mask_walk {
    struct stacks *stacks;
    const struct token_trie *trie; /* chains of equal tokens, bytes */
    const struct token_node *node; /* the nodes to walk over: the trie's own, or those of endings */
    uint32_t n_node;
    bool skip_text;           /* ordinary text is known to be allowed */
    uint64_t *mask;           /* tokens that can be read whole are added */
    struct endings *endings;  /* NULL: none are collected */
    struct walk_level *level; /* [longest token + 2] */
    uint32_t *state;          /* [longest token + 2]: nodes along a run of bytes within one rule */
    size_t work;              /* nodes looked at so far */
    uint32_t deepest;         /* most bytes of a token that were read */
};

/* Where a token left the rule that the walk began in: the rest of it is for whatever comes after the rule. */
struct endings {
    const struct byte_set *follow; /* bytes that can begin a rest */
    struct token_entry *entry;     /* rests one by one */
    size_t n_entry, entry_capacity;
    uint32_t *branch; /* nodes of the trie: all tokens there and below, read from that node's byte on */
    size_t n_branch, branch_capacity;
    bool too_many;
    bool no_memory;
};

/* Begin at the tops from stacks->top_mark on. */
void mask_walk_run(struct mask_walk *w);

/* The same from within the trie: what is read are the bytes of node i and of those below it. */
void mask_walk_branch(struct mask_walk *w, uint32_t i);

#endif
