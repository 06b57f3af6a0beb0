/* mask_walk.c: which tokens of a trie can be read from where an automaton is. */
#include "base/memory.h"
#include "sample/constraint_internal.h"

enum {
    ENDINGS_MAX = 1 << 16, /* rests of tokens kept for one node */
    BRANCH_MIN = 128       /* nodes of a branch that is kept as one */
};

static void add_tokens(struct mask_walk *w, const struct token_node *node)
{
    if (node->token < 0)
        return;
    mask_add(w->mask, node->token);
    for (int32_t t = node->token; node->chained && (t = w->trie->next_token[t]) >= 0;)
        mask_add(w->mask, t);
}

static void add_ending(struct endings *e, const struct token_trie *t, int32_t token, uint32_t depth)
{
    if (e->n_entry >= ENDINGS_MAX) {
        e->too_many = true;
        return;
    }
    if (!mem_grow(&e->entry, &e->entry_capacity, e->n_entry + 1, sizeof *e->entry)) {
        e->no_memory = true;
        return;
    }
    const size_t n = t->offset[token + 1] - t->offset[token];
    e->entry[e->n_entry++] = token_entry(t->bytes + t->offset[token] + depth, n - depth, token);
}

static void add_branch(struct endings *e, uint32_t node)
{
    if (mem_grow(&e->branch, &e->branch_capacity, e->n_branch + 1, sizeof *e->branch))
        e->branch[e->n_branch++] = node;
    else
        e->no_memory = true;
}

/* The rule can end at trie node i: keep the rests of the tokens below that something after the rule may read. */
static void collect_endings(struct mask_walk *w, uint32_t i)
{
    const struct token_node *at = &w->node[i];
    for (uint32_t child = i + 1; child < at->end && !w->endings->too_many; child = w->node[child].end) {
        if (!byte_set_has(w->endings->follow, w->node[child].byte))
            continue;
        if (w->node[child].end - child >= BRANCH_MIN) {
            add_branch(w->endings, child);
            continue;
        }
        for (uint32_t k = child; k < w->node[child].end; k++) {
            w->work++;
            if (w->node[k].token >= 0)
                add_ending(w->endings, w->trie, w->node[k].token, at->depth);
        }
    }
}

/* The places after the node's byte; their number. */
static size_t step_level(struct mask_walk *w, const struct token_node *node)
{
    struct stacks *s = w->stacks;
    const struct walk_level before = w->level[node->depth - 1];
    s->n_top = before.end;
    s->n_frame = before.n_frame;
    stacks_mark(s);
    for (size_t k = before.first; k < before.end; k++)
        stacks_step(s, s->top[k], node->byte);
    w->level[node->depth] = (struct walk_level){before.end, s->n_top, s->n_frame};
    return s->n_top - before.end;
}

static void check_endings(struct mask_walk *w, uint32_t i)
{
    const struct stacks *s = w->stacks;
    const struct walk_level *level = &w->level[w->node[i].depth];
    if (w->endings == NULL || w->node[i].end == i + 1)
        return;
    for (size_t k = level->first; k < level->end; k++) {
        if (stacks_can_end(s, s->top[k])) {
            collect_endings(w, i);
            return;
        }
    }
}

static void walk_below(struct mask_walk *w, uint32_t i);

/* Node i with its byte and all below it, in general: any number of places. The level above is there. */
static void walk_node(struct mask_walk *w, uint32_t i)
{
    w->work++;
    if (w->stacks->status != MR_OK || step_level(w, &w->node[i]) == 0)
        return;
    w->deepest = w->node[i].depth > w->deepest ? w->node[i].depth : w->deepest;
    add_tokens(w, &w->node[i]);
    check_endings(w, i);
    walk_below(w, i);
}

/* Everything below node i, where the one place `top` only reads bytes: by far the most of all walks. What is not so simple is
 * left to walk_node. */
static void walk_simple(struct mask_walk *w, uint32_t i, struct stack_top top)
{
    const struct grammar *g = w->stacks->g;
    const struct token_node *nodes = w->node;
    const uint32_t end = nodes[i].end, n_class = g->n_class;
    const struct walk_level above = w->level[nodes[i].depth];
    const bool skip_text = w->skip_text;
    uint32_t *state = w->state;
    size_t work = 0;
    uint32_t deepest = w->deepest;
    state[nodes[i].depth] = top.node;
    for (i++; i < end; work++) {
        const struct token_node *node = &nodes[i];
        const uint32_t from = state[node->depth - 1];
        const uint32_t to = skip_text && node->text ? NODE_NONE : g->next[(size_t)from * n_class + g->class[node->byte]];
        if (!(to & NODE_NOT_SIMPLE)) {
            state[node->depth] = to;
            deepest = node->depth > deepest ? node->depth : deepest;
            add_tokens(w, node);
            i++;
            continue;
        }
        if (to != NODE_NONE) {
            w->stacks->top[above.first] = (struct stack_top){from, 0, top.parent};
            w->level[node->depth - 1] = (struct walk_level){above.first, above.first + 1, above.n_frame};
            walk_node(w, i);
        }
        i = node->end;
    }
    w->deepest = deepest > w->deepest ? deepest : w->deepest;
    w->work += work;
}

/* Whether every node of the place's rule fits on the stack. */
static bool fits_whole_rule(struct stacks *s, struct stack_top top)
{
    const uint32_t frames = s->frame[top.parent].depth + 1 + s->g->rule[s->g->node[top.node].rule].max_need;
    if (frames > GRAMMAR_STACK_MAX)
        return false;
    s->reach = frames > s->reach ? frames : s->reach;
    return true;
}

static void walk_below(struct mask_walk *w, uint32_t i)
{
    struct stacks *s = w->stacks;
    const struct walk_level *level = &w->level[w->node[i].depth];
    const struct stack_top top = s->top[level->first];
    if (level->end - level->first == 1 && s->g->node[top.node].simple && fits_whole_rule(s, top)) {
        walk_simple(w, i, top);
        return;
    }
    for (uint32_t child = i + 1; child < w->node[i].end; child = w->node[child].end)
        if (!(w->skip_text && w->node[child].text))
            walk_node(w, child);
}

void mask_walk_run(struct mask_walk *w)
{
    const struct stacks *s = w->stacks;
    w->level[0] = (struct walk_level){s->top_mark, s->n_top, s->n_frame};
    walk_below(w, 0);
}

void mask_walk_branch(struct mask_walk *w, uint32_t i)
{
    const struct stacks *s = w->stacks;
    w->level[w->node[i].depth - 1] = (struct walk_level){s->top_mark, s->n_top, s->n_frame};
    walk_node(w, i);
}
