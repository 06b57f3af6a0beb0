/* grammar_minimize.c: trimming and merging the states of a deterministic automaton. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/grammar_dfa_build.h"

enum {
    MERGE_WORK_MAX = 1 << 22 /* edges compared, after which the states stay as they are */
};
#define DROPPED UINT32_MAX

/* Which states can reach a final one: backwards over reversed edges. */
static enum mr_status mark_live(const struct dfa *d, bool *live)
{
    const uint32_t n = d->n_state, n_edge = d->first[n];
    uint32_t *first = mem_zero_array((size_t)n + 2, sizeof *first);
    uint32_t *from = mem_array(n_edge, sizeof *from);
    uint32_t *stack = mem_array(n, sizeof *stack);
    size_t n_stack = 0;
    const bool ok = first != NULL && from != NULL && stack != NULL;
    for (uint32_t e = 0; ok && e < n_edge; e++)
        if (d->edge[e].to != DROPPED)
            first[d->edge[e].to + 2]++;
    for (uint32_t i = 0; ok && i < n; i++)
        first[i + 2] += first[i + 1];
    for (uint32_t i = 0; ok && i < n; i++)
        for (uint32_t e = d->first[i]; e < d->first[i + 1]; e++)
            if (d->edge[e].to != DROPPED)
                from[first[d->edge[e].to + 1]++] = i;
    for (uint32_t i = 0; ok && i < n; i++)
        if ((live[i] = d->final[i]))
            stack[n_stack++] = i;
    while (n_stack > 0) {
        const uint32_t i = stack[--n_stack];
        for (uint32_t e = first[i]; e < first[i + 1]; e++) {
            if (!live[from[e]]) {
                live[from[e]] = true;
                stack[n_stack++] = from[e];
            }
        }
    }
    free(first);
    free(from);
    free(stack);
    return ok ? MR_OK : MR_NO_MEMORY;
}

/* The automaton whose state class[i] is state i, for all states reachable from the start: numbered breadth first. */
static enum mr_status rebuild(struct dfa *d, const uint32_t *class, const bool *live, struct mr_error *err)
{
    struct dfa_build build = {0};
    uint32_t *number = mem_array(d->n_state, sizeof *number); /* by class */
    uint32_t *queue = mem_array(d->n_state, sizeof *queue);
    enum mr_status status = number != NULL && queue != NULL ? MR_OK : MR_NO_MEMORY;
    uint32_t n_queue = 0;
    if (status == MR_OK) {
        memset(number, 0xff, d->n_state * sizeof *number);
        number[class[0]] = 0;
        queue[n_queue++] = 0;
    }
    for (uint32_t q = 0; q < n_queue && status == MR_OK; q++) {
        const uint32_t i = queue[q];
        status = dfa_build_state(&build, d->final[i]);
        for (uint32_t e = d->first[i]; e < d->first[i + 1] && status == MR_OK; e++) {
            const struct dfa_edge edge = d->edge[e];
            if (edge.to == DROPPED || !live[edge.to])
                continue;
            if (number[class[edge.to]] == UINT32_MAX) {
                number[class[edge.to]] = n_queue;
                queue[n_queue++] = edge.to;
            }
            status = dfa_build_edge(&build, edge.low, edge.high, number[class[edge.to]]);
        }
    }
    free(number);
    free(queue);
    struct dfa result;
    MR_TRY(dfa_build_end(&build, status, &result, err));
    dfa_release(d);
    *d = result;
    return MR_OK;
}

/* States by what they do: class, and for each range of symbols the class it leads to. */
struct signatures {
    const struct dfa *d;
    const uint32_t *class;
};

/* The next range of state i from edge *e on, neighbours of equal class joined; false: no more. */
static bool next_range(const struct signatures *s, uint32_t i, uint32_t *e, struct dfa_edge *range)
{
    const struct dfa *d = s->d;
    if (*e == d->first[i + 1])
        return false;
    *range = d->edge[*e];
    range->to = s->class[range->to];
    for (++*e; *e < d->first[i + 1]; ++*e) {
        const struct dfa_edge next = d->edge[*e];
        if (next.low != range->high + 1 || s->class[next.to] != range->to)
            break;
        range->high = next.high;
    }
    return true;
}

static uint32_t signature_hash(const struct signatures *s, uint32_t i)
{
    uint64_t h = s->class[i] + 1;
    struct dfa_edge r;
    for (uint32_t e = s->d->first[i]; next_range(s, i, &e, &r);) {
        h = (h ^ r.low) * 0x9e3779b97f4a7c15u;
        h = (h ^ r.high) * 0x9e3779b97f4a7c15u;
        h = (h ^ r.to) * 0x9e3779b97f4a7c15u;
        h ^= h >> 31;
    }
    return (uint32_t)(h ^ h >> 32);
}

static bool signature_equal(const struct signatures *s, uint32_t a, uint32_t b)
{
    uint32_t e = s->d->first[a], f = s->d->first[b];
    struct dfa_edge x, y;
    if (s->class[a] != s->class[b])
        return false;
    for (;;) {
        const bool more = next_range(s, a, &e, &x);
        if (more != next_range(s, b, &f, &y))
            return false;
        if (!more)
            return true;
        if (x.low != y.low || x.high != y.high || x.to != y.to)
            return false;
    }
}

/* One round of refinement. Returns the number of classes. */
static uint32_t refine(const struct signatures *s, uint32_t *next_class, uint32_t *slot, size_t n_slot)
{
    uint32_t n_class = 0;
    memset(slot, 0xff, n_slot * sizeof *slot);
    for (uint32_t i = 0; i < s->d->n_state; i++) {
        size_t at = signature_hash(s, i) & (n_slot - 1);
        while (slot[at] != UINT32_MAX && !signature_equal(s, slot[at], i))
            at = (at + 1) & (n_slot - 1);
        if (slot[at] == UINT32_MAX) {
            slot[at] = i;
            next_class[i] = n_class++;
        } else {
            next_class[i] = next_class[slot[at]];
        }
    }
    return n_class;
}

static enum mr_status merge(struct dfa *d, const bool *live, struct mr_error *err)
{
    const uint32_t n = d->n_state;
    size_t n_slot = 64;
    while (n_slot < 2 * (size_t)n)
        n_slot *= 2;
    uint32_t *class = mem_array(n, sizeof *class), *next = mem_array(n, sizeof *next), *slot = mem_array(n_slot, sizeof *slot);
    enum mr_status status = class != NULL && next != NULL && slot != NULL ? MR_OK : MR_NO_MEMORY;
    uint32_t n_class = 0, n_before = UINT32_MAX;
    for (uint32_t i = 0; status == MR_OK && i < n; i++)
        class[i] = d->final[i];
    for (size_t work = 0; status == MR_OK && n_class != n_before && work <= MERGE_WORK_MAX; work += n + d->first[n]) {
        n_before = n_class;
        n_class = refine(&(struct signatures){d, class}, next, slot, n_slot);
        uint32_t *swap = class;
        class = next;
        next = swap;
    }
    if (status == MR_OK && n_class == n_before && n_class < n)
        status = rebuild(d, class, live, err);
    free(class);
    free(next);
    free(slot);
    return status;
}

enum mr_status dfa_minimize(struct dfa *d, const bool *dead_rule, struct mr_error *err)
{
    const uint32_t n = d->n_state;
    for (uint32_t e = 0; dead_rule != NULL && e < d->first[n]; e++)
        if (d->edge[e].low >= SYMBOL_RULE && dead_rule[d->edge[e].low - SYMBOL_RULE])
            d->edge[e].to = DROPPED;
    bool *live = mem_zero_array(n, sizeof *live);
    uint32_t *class = mem_array(n, sizeof *class);
    enum mr_status status = live != NULL && class != NULL ? mark_live(d, live) : MR_NO_MEMORY;
    for (uint32_t i = 0; status == MR_OK && i < n; i++)
        class[i] = i;
    if (status == MR_OK)
        status = rebuild(d, class, live, err);
    if (status == MR_OK) {
        memset(live, 1, n * sizeof *live); /* every state that is left */
        status = merge(d, live, err);
    }
    free(live);
    free(class);
    return status == MR_NO_MEMORY ? mr_fail(err, status, "no memory for an automaton of %u states", (unsigned)n) : status;
}
