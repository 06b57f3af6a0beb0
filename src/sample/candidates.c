/* candidates.c: selection without sorting the vocabulary, and the filters. */
#include "sample/candidates.h"

#include <math.h>
#include <string.h>

#include "base/float_math.h"

enum {
    LANES = 8,
    SCAN = 32,   /* logits compared in one go, in vectors likewise */
    CHUNK = 128, /* exponentials computed in one go, which the compiler turns into vectors */
    RADIX_BITS = 11,
    RADIX = 1 << RADIX_BITS,
    INSERTION_MAX = 32, /* below this many, insertion beats clearing the radix counts */
    NUCLEUS_FIRST = 64, /* how many of the best top_p looks at first; eight times more each time that they do not suffice */
};

/* Add n terms, n at most CHUNK, lane by lane; a chunk that is not full is the last one. */
static void add_lanes(double lane[LANES], const float *term, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += (double)term[i + j];
    for (; i < n; i++)
        lane[i % LANES] += (double)term[i];
}

static double lanes_total(const double lane[LANES])
{
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

double sum_exp(const float *x, int n, float max)
{
    double lane[LANES] = {0};
    float e[CHUNK];
    for (int i = 0; i < n; i += CHUNK) {
        const int m = n - i < CHUNK ? n - i : CHUNK;
        for (int j = 0; j < m; j++)
            e[j] = math_exp(x[i + j] - max);
        add_lanes(lane, e, m);
    }
    return lanes_total(lane);
}

/* *mass = sum of w, *moment = sum of w x, where x = logit - best and w = exp(x). */
static void candidates_sums(const struct candidates *c, float best, double *mass, double *moment)
{
    double mass_lane[LANES] = {0}, moment_lane[LANES] = {0};
    float w[CHUNK], wx[CHUNK];
    for (int i = 0; i < c->n; i += CHUNK) {
        const int m = c->n - i < CHUNK ? c->n - i : CHUNK;
        for (int j = 0; j < m; j++) {
            const float x = candidate_logit(c->key[i + j]) - best;
            w[j] = math_exp(x);
            wx[j] = w[j] * x;
        }
        add_lanes(mass_lane, w, m);
        add_lanes(moment_lane, wx, m);
    }
    *mass = lanes_total(mass_lane);
    *moment = lanes_total(moment_lane);
}

static void insertion_sort(uint64_t *key, int n)
{
    for (int i = 1; i < n; i++) {
        const uint64_t moving = key[i];
        int j = i;
        for (; j > 0 && key[j - 1] > moving; j--)
            key[j] = key[j - 1];
        key[j] = moving;
    }
}

/* Ascending, by digits from the least; digits that all keys share are skipped. Returns key or scratch, where the result
 * lies. */
static uint64_t *sort_keys(uint64_t *key, uint64_t *scratch, int n)
{
    if (n <= INSERTION_MAX) {
        insertion_sort(key, n);
        return key;
    }
    uint64_t differs = 0;
    for (int i = 1; i < n; i++)
        differs |= key[i] ^ key[0];
    for (int shift = 0; shift < 64; shift += RADIX_BITS) {
        if ((differs >> shift & (RADIX - 1)) == 0)
            continue;
        int count[RADIX] = {0}, start = 0;
        for (int i = 0; i < n; i++)
            count[key[i] >> shift & (RADIX - 1)]++;
        for (int d = 0; d < RADIX; d++) {
            const int here = count[d];
            count[d] = start;
            start += here;
        }
        for (int i = 0; i < n; i++)
            scratch[count[key[i] >> shift & (RADIX - 1)]++] = key[i];
        uint64_t *const sorted = scratch;
        scratch = key;
        key = sorted;
    }
    return key;
}

static void sort_candidates(struct candidates *c)
{
    uint64_t *const sorted = sort_keys(c->key, c->spare, c->n);
    if (sorted == c->spare) {
        c->spare = c->key;
        c->key = sorted;
    }
}

void candidates_sort(struct candidates *c)
{
    if (!c->sorted)
        sort_candidates(c);
    c->sorted = true;
}

/* A heap whose root is the worst of the k keys kept so far. */
static void sift_down(uint64_t *heap, int n, int i)
{
    const uint64_t moving = heap[i];
    for (int child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= moving)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static void make_heap(uint64_t *heap, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift_down(heap, n, i);
}

static void heap_offer(uint64_t *heap, int n, uint64_t key)
{
    if (key >= heap[0])
        return;
    heap[0] = key;
    sift_down(heap, n, 0);
}

int next_above(const float *x, int from, int n, float than)
{
    for (int i = from; i + SCAN <= n; i += SCAN) {
        int n_above = 0;
        for (int j = 0; j < SCAN; j++)
            n_above += x[i + j] > than;
        if (n_above > 0)
            break;
        from = i + SCAN;
    }
    while (from < n && !(x[from] > than))
        from++;
    return from;
}

void candidates_start(struct candidates *c, const float *logits, int n, int top_k)
{
    c->n = 0;
    c->sorted = false;
    int i = 0;
    const int room = top_k > 0 && top_k < n ? top_k : n;
    for (; i < n && c->n < room; i++)
        if (logits[i] > -INFINITY)
            c->key[c->n++] = candidate_key(logits[i], i);
    if (i == n)
        return;
    make_heap(c->key, c->n);
    float worst = candidate_logit(c->key[0]);
    while ((i = next_above(logits, i, n, worst)) < n) { /* ids ascend, so an equal logit comes too late */
        heap_offer(c->key, c->n, candidate_key(logits[i], i));
        worst = candidate_logit(c->key[0]);
        i++;
    }
}

float candidates_best(const struct candidates *c)
{
    uint64_t best = c->key[0];
    for (int i = 1; i < c->n && !c->sorted; i++)
        best = c->key[i] < best ? c->key[i] : best;
    return candidate_logit(best);
}

/* How many of the n first keys, the best first, reach the mass; n + 1: they do not. */
static int nucleus(const uint64_t *key, int n, float best, double mass)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (double)math_exp(candidate_logit(key[i]) - best);
        if (sum >= mass)
            return i + 1;
    }
    return n + 1;
}

/* Try whether the k best reach the mass, 2 k <= n; if so they replace the candidates. */
static bool nucleus_of_best(struct candidates *c, int k, float best, double mass)
{
    uint64_t *const heap = c->spare;
    memcpy(heap, c->key, (size_t)k * sizeof *heap);
    make_heap(heap, k);
    for (int i = k; i < c->n; i++)
        heap_offer(heap, k, c->key[i]);
    const uint64_t *const sorted = sort_keys(heap, heap + k, k);
    const int n = nucleus(sorted, k, best, mass);
    if (n > k)
        return false;
    memcpy(c->key, sorted, (size_t)n * sizeof *c->key);
    c->n = n;
    c->sorted = true;
    return true;
}

void candidates_top_p(struct candidates *c, float p)
{
    if (p >= 1 || c->n == 0)
        return;
    const float best = candidates_best(c);
    double mass, moment;
    candidates_sums(c, best, &mass, &moment);
    mass *= (double)p;
    for (int k = NUCLEUS_FIRST; !c->sorted && k <= c->n / 8; k *= 8)
        if (nucleus_of_best(c, k, best, mass))
            return;
    candidates_sort(c);
    const int kept = nucleus(c->key, c->n, best, mass);
    c->n = kept < c->n ? kept : c->n;
}

void candidates_min_p(struct candidates *c, float p)
{
    if (p <= 0 || c->n == 0)
        return;
    const float least = (float)((double)candidates_best(c) + math_log((double)p));
    int kept = 0;
    for (int i = 0; i < c->n; i++)
        if (candidate_logit(c->key[i]) >= least)
            c->key[kept++] = c->key[i];
    c->n = kept;
}

void candidates_typical(struct candidates *c, float p, const float *logits)
{
    if (p >= 1 || c->n == 0)
        return;
    const float best = candidates_best(c);
    double mass, moment;
    candidates_sums(c, best, &mass, &moment);
    /* -log p = log mass - x, so the entropy is log mass - moment / mass, and -log p is the entropy at this x: */
    const double typical = moment / mass;
    for (int i = 0; i < c->n; i++) { /* nearest first: sorts as the best logit does */
        const double distance = (double)(candidate_logit(c->key[i]) - best) - typical;
        c->key[i] = candidate_key(-(float)fabs(distance), candidate_id(c->key[i]));
    }
    sort_candidates(c);
    double sum = 0;
    int kept = 0;
    for (; kept < c->n && sum <= (double)p * mass; kept++) {
        const int32_t id = candidate_id(c->key[kept]);
        sum += (double)math_exp(logits[id] - best);
        c->key[kept] = candidate_key(logits[id], id);
    }
    c->n = kept;
    c->sorted = false;
}
