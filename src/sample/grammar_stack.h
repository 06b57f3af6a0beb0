/* grammar_stack.h: where an automaton may be.
 * An ambiguous grammar may be in several places at once: each is a node on top of a stack of frames. Stacks are lists that
 * share their lower parts; frame 0 is the bottom of all. */
#ifndef SAMPLE_GRAMMAR_STACK_H
#define SAMPLE_GRAMMAR_STACK_H

#include "sample/grammar.h"

enum {
    STACK_TOPS_MAX = 1024,   /* places at once */
    STACK_ENTERED_MAX = 4096 /* rules entered and left while one byte is read */
};

/* A node to come back to. Indices of frames grow from the bottom up. */
struct stack_frame {
    uint32_t node, count, parent;
    uint32_t depth; /* frames from the bottom; that of frame 0 is 0 */
};

struct stack_top {
    uint32_t node, count; /* count: calls that a counted node has made */
    uint32_t parent;      /* frame */
};

/* What one byte has been tried on: a rule from its start (node), or what stands below a finished one (frame). */
struct stack_entered {
    uint32_t node, frame;
};

/* Frames and tops are appended, and dropped from the end by whoever walks. */
struct stacks {
    const struct grammar *g;
    struct stack_frame *frame;
    size_t n_frame, frame_capacity;
    struct stack_top *top;
    size_t n_top, top_capacity;
    size_t frame_mark, top_mark; /* from here on equals are found again instead of appended */
    struct stack_entered *entered;
    size_t n_entered, entered_capacity;
    uint32_t reach;        /* the most frames that any place met so far holds or will need */
    enum mr_status status; /* NO_MEMORY; FULL: more than the limits above */
};

void stacks_init(struct stacks *s, const struct grammar *g); /* the bottom alone */
void stacks_release(struct stacks *s);

/* What is appended from here on are the places after one more byte. */
static inline void stacks_mark(struct stacks *s)
{
    s->frame_mark = s->n_frame;
    s->top_mark = s->n_top;
    s->n_entered = 0;
}

/* Append the places that `byte` leads to from `from`. Those that could not come to an end within GRAMMAR_STACK_MAX frames
 * are left out, so that every place has a way to the end. */
void stacks_step(struct stacks *s, struct stack_top from, unsigned byte);

/* Whether the text may end here: every rule on the stack may. */
bool stacks_can_end(const struct stacks *s, struct stack_top top);

static inline bool top_is_final(const struct grammar_node *n, uint32_t count)
{
    return n->final && (!n->counted || count >= n->min);
}

/* Bytes that may come next. */
struct byte_set stacks_next_bytes(const struct stacks *s, struct stack_top top);

#endif
