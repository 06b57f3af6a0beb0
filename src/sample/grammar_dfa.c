/* grammar_dfa.c: deterministic automata: building, combining, reading. */
#include "sample/grammar_dfa.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "sample/grammar_dfa_build.h"

void dfa_release(struct dfa *d)
{
    free(d->first);
    free(d->edge);
    free(d->final);
    *d = (struct dfa){0};
}

enum mr_status dfa_build_state(struct dfa_build *b, bool final)
{
    struct dfa *d = &b->dfa;
    if (d->n_state >= DFA_STATE_MAX)
        return MR_BAD_INPUT;
    if (!mem_grow(&d->first, &b->first_capacity, (size_t)d->n_state + 2, sizeof *d->first) ||
        !mem_grow(&d->final, &b->final_capacity, (size_t)d->n_state + 1, sizeof *d->final))
        return MR_NO_MEMORY;
    d->final[d->n_state] = final;
    d->first[d->n_state++] = b->n_edge;
    d->first[d->n_state] = b->n_edge;
    return MR_OK;
}

enum mr_status dfa_build_edge(struct dfa_build *b, uint32_t low, uint32_t high, uint32_t to)
{
    struct dfa *d = &b->dfa;
    struct dfa_edge *last = b->n_edge > d->first[d->n_state - 1] ? &d->edge[b->n_edge - 1] : NULL;
    if (last != NULL && last->to == to && last->high + 1 == low && low < SYMBOL_RULE) {
        last->high = high;
        return MR_OK;
    }
    if (b->n_edge >= DFA_EDGE_MAX)
        return MR_BAD_INPUT;
    if (!mem_grow(&d->edge, &b->edge_capacity, (size_t)b->n_edge + 1, sizeof *d->edge))
        return MR_NO_MEMORY;
    d->edge[b->n_edge++] = (struct dfa_edge){low, high, to};
    d->first[d->n_state] = b->n_edge;
    return MR_OK;
}

enum mr_status dfa_build_end(struct dfa_build *b, enum mr_status status, struct dfa *out, struct mr_error *err)
{
    *out = b->dfa;
    if (status == MR_OK)
        return MR_OK;
    dfa_release(out);
    if (status == MR_NO_MEMORY)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an automaton");
    return mr_fail(err, MR_BAD_INPUT, "needs an automaton of more than %d states or %d edges", DFA_STATE_MAX, DFA_EDGE_MAX);
}

/* Pairs of states of two automata that have been numbered; b is NO_STATE where b can accept no more. */
#define NO_STATE UINT32_MAX
struct pair {
    uint32_t a, b;
};
struct pairs {
    struct pair *pair;
    size_t n, capacity;
    uint32_t *slot; /* hash table: 1 + index; 0: free */
    size_t n_slot;  /* a power of two */
};

static size_t pair_slot(const struct pairs *p, struct pair k)
{
    uint64_t h = ((uint64_t)k.a << 32 | k.b) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    size_t i = (size_t)h & (p->n_slot - 1);
    while (p->slot[i] != 0 && (p->pair[p->slot[i] - 1].a != k.a || p->pair[p->slot[i] - 1].b != k.b))
        i = (i + 1) & (p->n_slot - 1);
    return i;
}

static bool pairs_rehash(struct pairs *p)
{
    free(p->slot);
    p->n_slot = p->n_slot > 0 ? p->n_slot * 2 : 64;
    p->slot = mem_zero_array(p->n_slot, sizeof *p->slot);
    for (size_t i = 0; p->slot != NULL && i < p->n; i++)
        p->slot[pair_slot(p, p->pair[i])] = (uint32_t)i + 1;
    return p->slot != NULL;
}

static enum mr_status pair_number(struct pairs *p, struct pair k, uint32_t *number)
{
    if (p->n * 2 >= p->n_slot && !pairs_rehash(p))
        return MR_NO_MEMORY;
    const size_t i = pair_slot(p, k);
    if (p->slot[i] == 0) {
        if (p->n >= DFA_STATE_MAX)
            return MR_BAD_INPUT;
        if (!mem_grow(&p->pair, &p->capacity, p->n + 1, sizeof *p->pair))
            return MR_NO_MEMORY;
        p->pair[p->n++] = k;
        p->slot[i] = (uint32_t)p->n;
    }
    *number = p->slot[i] - 1;
    return MR_OK;
}

/* The edges of the pair: those of a, cut at the borders of those of b. */
static enum mr_status combine_edges(struct dfa_build *build, struct pairs *p, const struct dfa *a, const struct dfa *b,
                                    struct pair k, enum dfa_combine how)
{
    uint32_t j = k.b != NO_STATE ? b->first[k.b] : 0;
    const uint32_t b_end = k.b != NO_STATE ? b->first[k.b + 1] : 0;
    for (uint32_t i = a->first[k.a]; i < a->first[k.a + 1]; i++) {
        const struct dfa_edge e = a->edge[i];
        uint32_t low = e.low;
        while (j < b_end && b->edge[j].high < low)
            j++;
        for (uint32_t at = j; low <= e.high;) {
            struct pair to = {e.to, NO_STATE};
            uint32_t high = e.high;
            if (at < b_end && b->edge[at].low <= low) {
                to.b = b->edge[at].to;
                high = b->edge[at].high < high ? b->edge[at].high : high;
                at++;
            } else if (at < b_end && b->edge[at].low <= high) {
                high = b->edge[at].low - 1;
            }
            uint32_t number;
            if (to.b != NO_STATE || how == DFA_MINUS) {
                MR_TRY(pair_number(p, to, &number));
                MR_TRY(dfa_build_edge(build, low, high, number));
            }
            low = high + 1;
        }
    }
    return MR_OK;
}

static enum mr_status combine_all(struct dfa_build *build, struct pairs *p, const struct dfa *a, const struct dfa *b,
                                  enum dfa_combine how)
{
    uint32_t start;
    MR_TRY(pair_number(p, (struct pair){0, 0}, &start));
    for (size_t i = 0; i < p->n; i++) {
        const struct pair k = p->pair[i];
        const bool in_b = k.b != NO_STATE && b->final[k.b];
        MR_TRY(dfa_build_state(build, a->final[k.a] && in_b == (how == DFA_BOTH)));
        MR_TRY(combine_edges(build, p, a, b, k, how));
    }
    return MR_OK;
}

enum mr_status dfa_combine(struct dfa *out, const struct dfa *a, const struct dfa *b, enum dfa_combine how,
                           struct mr_error *err)
{
    struct dfa_build build = {0};
    struct pairs p = {0};
    const enum mr_status status = combine_all(&build, &p, a, b, how);
    free(p.pair);
    free(p.slot);
    return dfa_build_end(&build, status, out, err);
}

bool dfa_accepts_text(const struct dfa *d, const char *s, size_t n)
{
    uint32_t state = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const int length = utf8_decode(&code, s + i, n - i);
        uint32_t e = d->first[state];
        while (e < d->first[state + 1] && d->edge[e].high < code)
            e++;
        if (length <= 0 || e == d->first[state + 1] || d->edge[e].low > code)
            return false;
        state = d->edge[e].to;
        i += (size_t)length;
    }
    return d->final[state];
}
