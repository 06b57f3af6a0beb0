/* mask_walk.c: which tokens of a trie can be read from where an automaton is. */
#include "base/memory.h"
#include "sample/constraint_internal.h"

enum {
    ENDINGS_MAX = 1 << 16 /* rests of tokens kept for one node */
};

static void add_tokens(struct mask_walk *w, int32_t token)
{
    for (; token >= 0; token = w->trie->next_token[token])
        mask_add(w->mask, token);
}

static void add_ending(struct endings *e, const struct token_trie *t, int32_t token, uint32_t depth)
{
    if (e->n_entry >= ENDINGS_MAX) {
        e->too_many = true;
        return;
    }
    if (!mem_grow(&e->entry, &e->capacity, e->n_entry + 1, sizeof *e->entry)) {
        e->no_memory = true;
        return;
    }
    const size_t n = t->offset[token + 1] - t->offset[token];
    e->entry[e->n_entry++] = (struct trie_entry){t->bytes + t->offset[token] + depth, (uint32_t)(n - depth), token};
}

/* The rule can end at trie node i: keep the rests of the tokens below that something after the rule may read. */
static void collect_endings(struct mask_walk *w, uint32_t i)
{
    const struct trie_node *at = &w->node[i];
    for (uint32_t child = i + 1; child < at->end && !w->endings->too_many; child = w->node[child].end) {
        if (!byte_set_has(w->endings->follow, w->node[child].byte))
            continue;
        for (uint32_t k = child; k < w->node[child].end; k++) {
            w->work++;
            if (w->node[k].token >= 0)
                add_ending(w->endings, w->trie, w->node[k].token, at->depth);
        }
    }
}

/* A level of one place whose node only reads bytes and does not end: by far the most. */
static bool step_simple(struct stacks *s, struct stack_top at, unsigned byte)
{
    const struct grammar *g = s->g;
    const struct grammar_node *n = &g->node[at.node];
    if (n->n_call > 0 || n->final || s->status != MR_OK)
        return false;
    const uint32_t to = grammar_next(g, at.node, byte);
    if (to == NODE_NONE)
        return true;
    if (g->node[to].last || s->n_top == s->top_capacity)
        return false;
    const uint32_t frames = s->frame[at.parent].depth + 1 + g->node[to].need;
    if (frames > s->reach)
        s->reach = frames;
    if (frames <= GRAMMAR_STACK_MAX)
        s->top[s->n_top++] = (struct stack_top){to, 0, at.parent};
    return true;
}

/* The places after the node's byte; their number. */
static size_t step_level(struct mask_walk *w, const struct trie_node *node, size_t first)
{
    struct stacks *s = w->stacks;
    const size_t end = w->level_top[node->depth - 1];
    s->n_top = end;
    s->n_frame = w->level_frame[node->depth - 1];
    stacks_mark(s);
    if (!(end - first == 1 && step_simple(s, s->top[first], node->byte)))
        for (size_t k = first; k < end; k++)
            stacks_step(s, s->top[k], node->byte);
    w->level_top[node->depth] = (uint32_t)s->n_top;
    w->level_frame[node->depth] = (uint32_t)s->n_frame;
    return s->n_top - end;
}

static void check_endings(struct mask_walk *w, uint32_t i, size_t first)
{
    const struct stacks *s = w->stacks;
    if (w->node[i].end == i + 1)
        return;
    for (size_t k = first; k < s->n_top; k++) {
        if (stacks_can_end(s, s->top[k])) {
            collect_endings(w, i);
            return;
        }
    }
}

void mask_walk_run(struct mask_walk *w)
{
    struct stacks *s = w->stacks;
    const size_t base = s->top_mark;
    w->level_top[0] = (uint32_t)s->n_top;
    w->level_frame[0] = (uint32_t)s->n_frame;
    for (uint32_t i = 1; i < w->n_node && s->status == MR_OK; w->work++) {
        const struct trie_node *node = &w->node[i];
        if (w->skip_text && node->text) {
            i = node->end;
            continue;
        }
        const size_t first = node->depth > 1 ? w->level_top[node->depth - 2] : base;
        if (step_level(w, node, first) == 0) {
            i = node->end;
            continue;
        }
        if (node->token >= 0)
            add_tokens(w, node->token);
        if (w->endings != NULL)
            check_endings(w, i, w->level_top[node->depth - 1]);
        i++;
    }
}
