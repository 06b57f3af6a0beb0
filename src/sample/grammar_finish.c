/* grammar_finish.c: from the rules of a builder to one table. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/grammar_builder_internal.h"

/* The rules that the root needs. */
struct finish {
    const struct grammar_builder *b;
    struct dfa *dfa;    /* [n_rule] of the builder */
    bool *known, *dead; /* [n_rule]; dead: accepts no text of at least one byte */
    uint32_t *order;    /* the n_order needed rules, the root first */
    uint32_t n_order;
    uint32_t *place;      /* [n_rule]: where in order */
    uint32_t *call_first; /* [n_order + 1]: callers of a rule, see find_dead */
    uint32_t *caller;
};

static void finish_release(struct finish *f)
{
    for (size_t i = 0; f->dfa != NULL && i < f->b->n_rule; i++)
        dfa_release(&f->dfa[i]);
    free(f->dfa);
    free(f->known);
    free(f->dead);
    free(f->order);
    free(f->place);
    free(f->call_first);
    free(f->caller);
}

/* A counted rule as an automaton of one node that calls and comes back; how often is told by the node. */
static enum mr_status counted_dfa(struct dfa *out, const struct grammar_builder *b, const struct builder_rule *r)
{
    const uint32_t symbol = SYMBOL_RULE + b->expr[r->expr].first;
    *out = (struct dfa){.n_state = 1};
    out->first = mem_zero_array(2, sizeof *out->first);
    out->edge = mem_array(1, sizeof *out->edge);
    out->final = mem_array(1, sizeof *out->final);
    if (out->first == NULL || out->edge == NULL || out->final == NULL)
        return MR_NO_MEMORY;
    out->first[1] = 1;
    out->edge[0] = (struct dfa_edge){symbol, symbol, 0};
    out->final[0] = true;
    return MR_OK;
}

static void need_rule(struct finish *f, uint32_t rule)
{
    if (f->known[rule])
        return;
    f->known[rule] = true;
    f->place[rule] = f->n_order;
    f->order[f->n_order++] = rule;
}

static enum mr_status collect_rules(struct finish *f, uint32_t root, struct mr_error *err)
{
    const struct grammar_builder *b = f->b;
    need_rule(f, root);
    for (uint32_t i = 0; i < f->n_order; i++) {
        const uint32_t rule = f->order[i];
        struct dfa *d = &f->dfa[rule];
        if (!b->rule[rule].counted)
            MR_TRY(builder_rule_dfa(d, b, rule, err));
        else if (counted_dfa(d, b, &b->rule[rule]) != MR_OK)
            return mr_fail(err, MR_NO_MEMORY, "no memory for a grammar");
        for (uint32_t e = 0; e < d->first[d->n_state]; e++)
            if (d->edge[e].low >= SYMBOL_RULE)
                need_rule(f, d->edge[e].low - SYMBOL_RULE);
    }
    return MR_OK;
}

/* Whether the automaton accepts a text of one byte or more when only rules that are not dead are called. */
static bool accepts_some(const struct finish *f, const struct dfa *d, bool *seen, uint32_t *stack)
{
    uint32_t n = 1;
    stack[0] = 0;
    memset(seen, 0, d->n_state * sizeof *seen);
    while (n > 0) {
        const uint32_t i = stack[--n];
        for (uint32_t e = d->first[i]; e < d->first[i + 1]; e++) {
            const struct dfa_edge edge = d->edge[e];
            if (edge.low >= SYMBOL_RULE && f->dead[edge.low - SYMBOL_RULE])
                continue;
            if (d->final[edge.to])
                return true;
            if (!seen[edge.to]) {
                seen[edge.to] = true;
                stack[n++] = edge.to;
            }
        }
    }
    return false;
}

/* caller[call_first[i] .. call_first[i + 1] - 1]: places of the rules that call the rule at place i. */
static bool collect_callers(struct finish *f)
{
    size_t n_call = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->n_order; i++) {
            const struct dfa *d = &f->dfa[f->order[i]];
            for (uint32_t e = 0; e < d->first[d->n_state]; e++) {
                if (d->edge[e].low < SYMBOL_RULE)
                    continue;
                const uint32_t callee = f->place[d->edge[e].low - SYMBOL_RULE];
                if (pass == 0)
                    f->call_first[callee + 2]++;
                else
                    f->caller[f->call_first[callee + 1]++] = i;
                n_call++;
            }
        }
        if (pass == 0) {
            for (uint32_t i = 0; i < f->n_order; i++)
                f->call_first[i + 2] += f->call_first[i + 1];
            f->caller = mem_array(n_call, sizeof *f->caller);
            if (f->caller == NULL)
                return false;
        }
    }
    return true;
}

/* All rules are dead until they are seen to accept something, which may wake their callers. */
static enum mr_status find_dead(struct finish *f, struct mr_error *err)
{
    uint32_t most = 1, n_queue = f->n_order;
    for (uint32_t i = 0; i < f->n_order; i++)
        most = f->dfa[f->order[i]].n_state > most ? f->dfa[f->order[i]].n_state : most;
    bool *seen = mem_array(most, sizeof *seen), *queued = mem_array(f->n_order, sizeof *queued);
    uint32_t *stack = mem_array(most, sizeof *stack), *queue = mem_array(f->n_order, sizeof *queue);
    f->call_first = mem_zero_array((size_t)f->n_order + 2, sizeof *f->call_first);
    const bool ok = seen && queued && stack && queue && f->call_first && collect_callers(f);
    for (uint32_t i = 0; ok && i < f->n_order; i++) {
        queue[i] = i;
        queued[i] = true;
        f->dead[f->order[i]] = true;
    }
    while (ok && n_queue > 0) {
        const uint32_t i = queue[--n_queue], rule = f->order[i];
        queued[i] = false;
        if (!f->dead[rule] || !accepts_some(f, &f->dfa[rule], seen, stack))
            continue;
        f->dead[rule] = false;
        for (uint32_t c = f->call_first[i]; c < f->call_first[i + 1]; c++) {
            const uint32_t caller = f->caller[c];
            if (f->dead[f->order[caller]] && !queued[caller]) {
                queued[caller] = true;
                queue[n_queue++] = caller;
            }
        }
    }
    free(seen);
    free(queued);
    free(stack);
    free(queue);
    return ok ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for a grammar");
}

/* Bytes between two borders behave alike everywhere. */
static void find_classes(struct grammar *g, const struct finish *f)
{
    bool border[257] = {false};
    for (uint32_t i = 0; i < f->n_order; i++) {
        const struct dfa *d = &f->dfa[f->order[i]];
        for (uint32_t e = 0; e < d->first[d->n_state]; e++) {
            if (d->edge[e].low >= SYMBOL_RULE)
                continue;
            border[d->edge[e].low] = true;
            border[d->edge[e].high + 1] = true;
        }
    }
    uint32_t class = 0;
    for (int byte = 0; byte < 256; byte++) {
        class += byte > 0 && border[byte];
        g->class[byte] = (unsigned char)class;
    }
    g->n_class = class + 1;
}

static enum mr_status allocate(struct grammar *g, const struct finish *f, struct mr_error *err)
{
    size_t n_node = 0, n_call = 0;
    for (uint32_t i = 0; i < f->n_order; i++) {
        const struct dfa *d = &f->dfa[f->order[i]];
        n_node += d->n_state;
        for (uint32_t e = 0; e < d->first[d->n_state]; e++)
            n_call += d->edge[e].low >= SYMBOL_RULE;
    }
    if (n_node > GRAMMAR_NODE_MAX || n_node * g->n_class > GRAMMAR_TABLE_MAX)
        return mr_fail(err, MR_BAD_INPUT, "needs an automaton of %zu nodes; at most %d with %d byte edges", n_node,
                       GRAMMAR_NODE_MAX, GRAMMAR_TABLE_MAX);
    g->n_node = (uint32_t)n_node;
    g->n_rule = f->n_order;
    g->node = mem_zero_array(n_node, sizeof *g->node);
    g->call = mem_array(n_call, sizeof *g->call);
    g->rule = mem_zero_array(g->n_rule, sizeof *g->rule);
    g->next = mem_array(n_node * g->n_class, sizeof *g->next);
    if (g->node == NULL || g->call == NULL || g->rule == NULL || g->next == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an automaton of %zu nodes", n_node);
    memset(g->next, 0xff, n_node * g->n_class * sizeof *g->next);
    return MR_OK;
}

static void fill_node(struct grammar *g, const struct finish *f, uint32_t place, uint32_t state, uint32_t *n_call)
{
    const struct builder_rule *r = &f->b->rule[f->order[place]];
    const struct dfa *d = &f->dfa[f->order[place]];
    const uint32_t base = g->rule[place].start;
    struct grammar_node *node = &g->node[base + state];
    *node = (struct grammar_node){.call = *n_call, .rule = place, .final = d->final[state], .counted = r->counted};
    for (uint32_t e = d->first[state]; e < d->first[state + 1]; e++) {
        const struct dfa_edge edge = d->edge[e];
        if (edge.low >= SYMBOL_RULE) {
            g->call[(*n_call)++] = (struct grammar_call){f->place[edge.low - SYMBOL_RULE], base + edge.to};
            node->n_call++;
            continue;
        }
        for (uint32_t c = g->class[edge.low]; c <= g->class[edge.high]; c++)
            g->next[(size_t)(base + state) * g->n_class + c] = base + edge.to;
    }
    if (r->counted) {
        node->min = f->b->rule[f->b->expr[r->expr].first].nullable ? 0 : r->min;
        node->max = r->max;
    }
    node->last = node->final && d->first[state] == d->first[state + 1];
}

static enum mr_status fill(struct grammar *g, const struct finish *f, struct mr_error *err)
{
    uint32_t n_node = 0, n_call = 0;
    find_classes(g, f);
    MR_TRY(allocate(g, f, err));
    for (uint32_t i = 0; i < f->n_order; i++) {
        g->rule[i].start = n_node;
        n_node += f->dfa[f->order[i]].n_state;
    }
    for (uint32_t i = 0; i < f->n_order; i++)
        for (uint32_t s = 0; s < f->dfa[f->order[i]].n_state; s++)
            fill_node(g, f, i, s, &n_call);
    return MR_OK;
}

static enum mr_status finish_rules(struct finish *f, uint32_t root, struct mr_error *err)
{
    const size_t n = f->b->n_rule;
    f->dfa = mem_zero_array(n, sizeof *f->dfa);
    f->known = mem_zero_array(n, sizeof *f->known);
    f->dead = mem_zero_array(n, sizeof *f->dead);
    f->order = mem_array(n, sizeof *f->order);
    f->place = mem_array(n, sizeof *f->place);
    if (f->dfa == NULL || f->known == NULL || f->dead == NULL || f->order == NULL || f->place == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a grammar of %zu rules", n);
    MR_TRY(collect_rules(f, root, err));
    MR_TRY(find_dead(f, err));
    if (f->dead[root] && !f->b->rule[root].nullable)
        return mr_fail(err, MR_BAD_INPUT, "no finite text is allowed");
    for (uint32_t i = 0; i < f->n_order; i++)
        MR_TRY(dfa_minimize(&f->dfa[f->order[i]], f->dead, err));
    return MR_OK;
}

enum mr_status grammar_finish(struct grammar **out, struct grammar_builder *b, uint32_t root, struct mr_error *err)
{
    *out = NULL;
    MR_TRY(grammar_builder_status(b, err));
    MR_TRY(builder_analyse(b, err));
    struct finish f = {.b = b};
    struct grammar *g = mem_zero_array(1, sizeof *g);
    enum mr_status status = g != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for a grammar");
    if (status == MR_OK)
        status = finish_rules(&f, root, err);
    if (status == MR_OK)
        status = fill(g, &f, err);
    if (status == MR_OK)
        status = grammar_analyse(g, b, f.order, err);
    finish_release(&f);
    if (status != MR_OK)
        grammar_free(g);
    else
        *out = g;
    return status;
}

void grammar_free(struct grammar *g)
{
    if (g == NULL)
        return;
    free(g->node);
    free(g->call);
    free(g->rule);
    free(g->next);
    free(g);
}
