/* grammar_subset.c: the subset construction. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/grammar_dfa_build.h"

struct subset {
    size_t first; /* in member */
    uint32_t n;
    uint32_t hash;
    bool final;
};

struct subsets {
    const struct nfa *nfa;
    uint32_t accept;
    uint32_t *edge_first;  /* [n_state + 1]: the NFA's edges by the state they leave */
    struct nfa_edge *edge; /* sorted by it */
    uint32_t *mark;        /* [n_state]: the round in which a state was seen */
    uint32_t round;
    uint32_t *stack, *found; /* [n_state] */
    struct subset *set;
    size_t n_set, set_capacity;
    uint32_t *member;
    size_t n_member, member_capacity;
    uint32_t *slot; /* hash table: 1 + set; 0: free */
    size_t n_slot;
    struct nfa_edge *span; /* edges that leave the present subset */
    size_t n_span, span_capacity;
    uint32_t *border;
    size_t border_capacity;
    uint32_t *active; /* indices of spans over the present interval, and where they lead */
    size_t active_capacity;
    uint32_t *target;
    size_t target_capacity;
    size_t work; /* states visited */
};

static void subsets_release(struct subsets *s)
{
    free(s->edge_first);
    free(s->edge);
    free(s->mark);
    free(s->stack);
    free(s->found);
    free(s->set);
    free(s->member);
    free(s->slot);
    free(s->span);
    free(s->border);
    free(s->active);
    free(s->target);
}

static enum mr_status sort_edges(struct subsets *s)
{
    const struct nfa *n = s->nfa;
    s->edge_first = mem_zero_array((size_t)n->n_state + 2, sizeof *s->edge_first);
    s->edge = mem_array(n->n_edge, sizeof *s->edge);
    s->mark = mem_zero_array(n->n_state, sizeof *s->mark);
    s->stack = mem_array(n->n_state, sizeof *s->stack);
    s->found = mem_array(n->n_state, sizeof *s->found);
    if (s->edge_first == NULL || s->edge == NULL || s->mark == NULL || s->stack == NULL || s->found == NULL)
        return MR_NO_MEMORY;
    for (size_t i = 0; i < n->n_edge; i++)
        s->edge_first[n->edge[i].from + 2]++;
    for (uint32_t i = 0; i < n->n_state; i++)
        s->edge_first[i + 2] += s->edge_first[i + 1];
    for (size_t i = 0; i < n->n_edge; i++)
        s->edge[s->edge_first[n->edge[i].from + 1]++] = n->edge[i];
    return MR_OK;
}

/* Which edges the closure follows without reading. */
struct borders {
    bool at_start, at_end;
};

static void visit(struct subsets *s, uint32_t state, size_t *n_stack)
{
    if (s->mark[state] == s->round)
        return;
    s->mark[state] = s->round;
    s->stack[(*n_stack)++] = state;
}

static bool follows(uint32_t symbol, struct borders at)
{
    return symbol == SYMBOL_EMPTY || (symbol == SYMBOL_TEXT_START && at.at_start) || (symbol == SYMBOL_TEXT_END && at.at_end);
}

static int compare_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The states reachable from from[n] without reading that can still read or end; into s->found, ascending. */
static uint32_t closure(struct subsets *s, const uint32_t *from, uint32_t n, struct borders at)
{
    size_t n_stack = 0;
    uint32_t n_found = 0;
    s->round++;
    for (uint32_t i = 0; i < n; i++)
        visit(s, from[i], &n_stack);
    while (n_stack > 0) {
        const uint32_t state = s->stack[--n_stack];
        s->work++;
        bool matters = state == s->accept;
        for (uint32_t e = s->edge_first[state]; e < s->edge_first[state + 1]; e++) {
            if (follows(s->edge[e].low, at))
                visit(s, s->edge[e].to, &n_stack);
            else
                matters |= s->edge[e].low != SYMBOL_TEXT_START;
        }
        if (matters)
            s->found[n_found++] = state;
    }
    if (n_found > 1)
        qsort(s->found, n_found, sizeof *s->found, compare_u32);
    return n_found;
}

static uint32_t hash_states(const uint32_t *state, uint32_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ state[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

static bool rehash(struct subsets *s)
{
    free(s->slot);
    s->n_slot = s->n_slot > 0 ? s->n_slot * 2 : 64;
    s->slot = mem_zero_array(s->n_slot, sizeof *s->slot);
    if (s->slot == NULL)
        return false;
    for (size_t i = 1; i < s->n_set; i++) { /* set 0, the start, is never looked up */
        size_t at = s->set[i].hash & (s->n_slot - 1);
        while (s->slot[at] != 0)
            at = (at + 1) & (s->n_slot - 1);
        s->slot[at] = (uint32_t)i + 1;
    }
    return true;
}

static enum mr_status add_set(struct subsets *s, uint32_t n, uint32_t hash, bool at_start)
{
    if (s->n_set >= DFA_STATE_MAX || s->n_member + n > DFA_WORK_MAX)
        return MR_BAD_INPUT;
    if (!mem_grow(&s->set, &s->set_capacity, s->n_set + 1, sizeof *s->set) ||
        !mem_grow(&s->member, &s->member_capacity, s->n_member + n + 1, sizeof *s->member))
        return MR_NO_MEMORY;
    struct subset *set = &s->set[s->n_set++];
    *set = (struct subset){.first = s->n_member, .n = n, .hash = hash};
    memcpy(s->member + s->n_member, s->found, n * sizeof *s->found);
    s->n_member += n;
    const uint32_t n_end = closure(s, s->member + set->first, n, (struct borders){.at_start = at_start, .at_end = true});
    for (uint32_t i = 0; i < n_end && !set->final; i++)
        set->final = s->found[i] == s->accept;
    return MR_OK;
}

/* The number of the subset in s->found. */
static enum mr_status set_number(struct subsets *s, uint32_t n, uint32_t *number)
{
    if (s->n_set * 2 >= s->n_slot && !rehash(s))
        return MR_NO_MEMORY;
    const uint32_t hash = hash_states(s->found, n);
    size_t at = hash & (s->n_slot - 1);
    for (; s->slot[at] != 0; at = (at + 1) & (s->n_slot - 1)) {
        const struct subset *set = &s->set[s->slot[at] - 1];
        if (set->hash == hash && set->n == n && memcmp(s->member + set->first, s->found, n * sizeof *s->found) == 0) {
            *number = s->slot[at] - 1;
            return MR_OK;
        }
    }
    *number = (uint32_t)s->n_set;
    s->slot[at] = (uint32_t)s->n_set + 1;
    return add_set(s, n, hash, false);
}

static int compare_spans(const void *a, const void *b)
{
    const struct nfa_edge *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

/* The reading edges of the subset's members by their lowest symbol, and all borders between symbols. */
static enum mr_status collect_spans(struct subsets *s, const struct subset *set, size_t *n_border)
{
    s->n_span = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t state = s->member[set->first + i];
        const uint32_t n = s->edge_first[state + 1] - s->edge_first[state];
        if (!mem_grow(&s->span, &s->span_capacity, s->n_span + n, sizeof *s->span))
            return MR_NO_MEMORY;
        for (uint32_t e = s->edge_first[state]; e < s->edge_first[state + 1]; e++)
            if (s->edge[e].low <= SYMBOL_MAX)
                s->span[s->n_span++] = s->edge[e];
    }
    if (s->n_span == 0) {
        *n_border = 0;
        return MR_OK;
    }
    if (!mem_grow(&s->border, &s->border_capacity, 2 * s->n_span, sizeof *s->border) ||
        !mem_grow(&s->active, &s->active_capacity, s->n_span, sizeof *s->active) ||
        !mem_grow(&s->target, &s->target_capacity, s->n_span, sizeof *s->target))
        return MR_NO_MEMORY;
    qsort(s->span, s->n_span, sizeof *s->span, compare_spans);
    for (size_t i = 0; i < s->n_span; i++) {
        s->border[2 * i] = s->span[i].low;
        s->border[2 * i + 1] = s->span[i].high + 1;
    }
    qsort(s->border, 2 * s->n_span, sizeof *s->border, compare_u32);
    size_t n = 1;
    for (size_t i = 1; i < 2 * s->n_span; i++)
        if (s->border[i] != s->border[n - 1])
            s->border[n++] = s->border[i];
    *n_border = n;
    return MR_OK;
}

/* The edge that reads low to high out of the spans that are active there. */
static enum mr_status subset_edge(struct subsets *s, struct dfa_build *build, uint32_t low, uint32_t high, uint32_t n_active)
{
    uint32_t number;
    s->work += n_active;
    for (uint32_t k = 0; k < n_active; k++)
        s->target[k] = s->span[s->active[k]].to;
    const uint32_t n = closure(s, s->target, n_active, (struct borders){0});
    if (s->work > DFA_WORK_MAX)
        return MR_BAD_INPUT;
    MR_TRY(set_number(s, n, &number));
    return dfa_build_edge(build, low, high, number);
}

static enum mr_status subset_edges(struct subsets *s, struct dfa_build *build, size_t index)
{
    const struct subset set = s->set[index];
    size_t n_border, next = 0;
    uint32_t n_active = 0;
    MR_TRY(dfa_build_state(build, set.final));
    MR_TRY(collect_spans(s, &set, &n_border));
    for (size_t i = 0; i + 1 < n_border; i++) {
        const uint32_t low = s->border[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n_active; k++)
            if (s->span[s->active[k]].high >= low)
                s->active[kept++] = s->active[k];
        for (; next < s->n_span && s->span[next].low <= low; next++)
            s->active[kept++] = (uint32_t)next;
        n_active = kept;
        if (n_active > 0)
            MR_TRY(subset_edge(s, build, low, s->border[i + 1] - 1, n_active));
    }
    return MR_OK;
}

static enum mr_status build_all(struct subsets *s, struct dfa_build *build, uint32_t start)
{
    MR_TRY(sort_edges(s));
    const uint32_t n = closure(s, &start, 1, (struct borders){.at_start = true});
    MR_TRY(add_set(s, n, 0, true));
    for (size_t i = 0; i < s->n_set; i++)
        MR_TRY(subset_edges(s, build, i));
    return MR_OK;
}

enum mr_status dfa_from_nfa(struct dfa *out, const struct nfa *n, uint32_t start, uint32_t accept, struct mr_error *err)
{
    *out = (struct dfa){0};
    MR_TRY(nfa_check(n, err));
    struct subsets s = {.nfa = n, .accept = accept};
    struct dfa_build build = {0};
    const enum mr_status status = build_all(&s, &build, start);
    subsets_release(&s);
    return dfa_build_end(&build, status, out, err);
}
