/* grammar_stack.c: one byte further. */
#include "sample/grammar_stack.h"

#include <stdlib.h>

#include "base/memory.h"

void stacks_init(struct stacks *s, const struct grammar *g)
{
    *s = (struct stacks){.g = g};
    if (mem_grow(&s->frame, &s->frame_capacity, 1, sizeof *s->frame))
        s->frame[s->n_frame++] = (struct stack_frame){.node = NODE_NONE};
    else
        s->status = MR_NO_MEMORY;
}

void stacks_release(struct stacks *s)
{
    free(s->frame);
    free(s->top);
    free(s->entered);
    *s = (struct stacks){0};
}

/* Whether the place has room for what it needs to come to the end of its rule. */
static bool fits(struct stacks *s, uint32_t node, uint32_t count, uint32_t parent)
{
    const struct grammar_node *n = &s->g->node[node];
    const uint32_t need = n->counted && count < n->min ? n->need_more : n->need;
    const uint32_t frames = s->frame[parent].depth + 1 + need;
    if (frames > s->reach)
        s->reach = frames;
    return frames <= GRAMMAR_STACK_MAX;
}

static bool nothing_leads_on(const struct grammar_node *n, uint32_t count)
{
    return n->last || (n->counted && count >= n->max);
}

static void add_top(struct stacks *s, uint32_t node, uint32_t count, uint32_t parent)
{
    if (!fits(s, node, count, parent))
        return;
    while (parent != 0 && nothing_leads_on(&s->g->node[node], count)) {
        node = s->frame[parent].node;
        count = s->frame[parent].count;
        parent = s->frame[parent].parent;
    }
    for (size_t i = s->top_mark; i < s->n_top; i++)
        if (s->top[i].node == node && s->top[i].count == count && s->top[i].parent == parent)
            return;
    if (s->n_top - s->top_mark >= STACK_TOPS_MAX)
        s->status = MR_FULL;
    else if (!mem_grow(&s->top, &s->top_capacity, s->n_top + 1, sizeof *s->top))
        s->status = MR_NO_MEMORY;
    else
        s->top[s->n_top++] = (struct stack_top){node, count, parent};
}

/* The frame to come back to after a call; 0 with a status where there is no memory. */
static uint32_t push(struct stacks *s, uint32_t node, uint32_t count, uint32_t parent)
{
    if (nothing_leads_on(&s->g->node[node], count))
        return parent;
    for (size_t i = s->frame_mark; i < s->n_frame; i++)
        if (s->frame[i].node == node && s->frame[i].count == count && s->frame[i].parent == parent)
            return (uint32_t)i;
    if (!mem_grow(&s->frame, &s->frame_capacity, s->n_frame + 1, sizeof *s->frame)) {
        s->status = MR_NO_MEMORY;
        return 0;
    }
    s->frame[s->n_frame] = (struct stack_frame){node, count, parent, s->frame[parent].depth + 1};
    return (uint32_t)s->n_frame++;
}

static uint32_t next_count(const struct grammar_node *n, uint32_t count)
{
    if (!n->counted)
        return 0;
    return n->max == UINT32_MAX && count >= n->min ? count : count + 1;
}

/* false: this byte has been tried there already, or a limit is met. */
static bool enter(struct stacks *s, uint32_t node, uint32_t frame)
{
    for (size_t i = 0; i < s->n_entered; i++)
        if (s->entered[i].node == node && s->entered[i].frame == frame)
            return false;
    if (s->n_entered >= STACK_ENTERED_MAX)
        s->status = MR_FULL;
    else if (!mem_grow(&s->entered, &s->entered_capacity, s->n_entered + 1, sizeof *s->entered))
        s->status = MR_NO_MEMORY;
    else
        s->entered[s->n_entered++] = (struct stack_entered){node, frame};
    return s->status == MR_OK;
}

static void step(struct stacks *s, struct stack_top at, unsigned byte, bool entered);

static void step_call(struct stacks *s, struct stack_top at, struct grammar_call call, unsigned byte)
{
    const struct grammar *g = s->g;
    const uint32_t count = next_count(&g->node[at.node], at.count), start = g->rule[call.rule].start;
    if (!byte_set_has(&g->rule[call.rule].first, byte) || !fits(s, call.to, count, at.parent))
        return;
    const uint32_t parent = push(s, call.to, count, at.parent);
    if (enter(s, start, parent))
        step(s, (struct stack_top){start, 0, parent}, byte, true);
}

/* Calls are of texts of at least one byte: `entered` says that this rule has read nothing yet and may not end. The depth
 * of the recursion is bounded by GRAMMAR_CHAIN_MAX. */
static void step(struct stacks *s, struct stack_top at, unsigned byte, bool entered)
{
    for (;;) {
        const struct grammar_node *n = &s->g->node[at.node];
        const uint32_t to = grammar_next(s->g, at.node, byte);
        if (to != NODE_NONE)
            add_top(s, to, 0, at.parent);
        for (uint32_t c = 0; c < n->n_call && !(n->counted && at.count >= n->max); c++)
            step_call(s, at, s->g->call[n->call + c], byte);
        if (entered || !top_is_final(n, at.count) || at.parent == 0 || !enter(s, NODE_NONE, at.parent))
            return;
        const struct stack_frame *below = &s->frame[at.parent];
        at = (struct stack_top){below->node, below->count, below->parent};
    }
}

void stacks_step(struct stacks *s, struct stack_top from, unsigned byte) { step(s, from, byte, false); }

bool stacks_can_end(const struct stacks *s, struct stack_top at)
{
    while (top_is_final(&s->g->node[at.node], at.count)) {
        if (at.parent == 0)
            return true;
        const struct stack_frame *below = &s->frame[at.parent];
        at = (struct stack_top){below->node, below->count, below->parent};
    }
    return false;
}

struct byte_set stacks_next_bytes(const struct stacks *s, struct stack_top at)
{
    struct byte_set set = {{0}};
    for (;;) {
        const struct grammar_node *n = &s->g->node[at.node];
        if (!n->counted || at.count < n->max) {
            const struct byte_set here = grammar_node_first(s->g, at.node);
            for (int i = 0; i < 4; i++)
                set.word[i] |= here.word[i];
        }
        if (!top_is_final(n, at.count) || at.parent == 0)
            return set;
        const struct stack_frame *below = &s->frame[at.parent];
        at = (struct stack_top){below->node, below->count, below->parent};
    }
}
