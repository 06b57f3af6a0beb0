/* test_candidates.c: each filter leaves what a plain reference over sorted probabilities leaves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/random.h"
#include "sample/candidates.h"

enum {
    N_MAX = 3000
};

static const int sizes[] = {1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 65, 100, 511, 520, 1000, N_MAX};
static const float shares[] = {0.0f, 0.01f, 0.3f, 0.5f, 0.9f, 0.95f, 0.999f};

struct token {
    int32_t id;
    double logit, p, distance;
};

static int by_logit(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->id - y->id;
}

static int by_distance(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    return x->distance != y->distance ? (x->distance > y->distance ? 1 : -1) : x->id - y->id;
}

static int by_id(const void *a, const void *b) { return ((const struct token *)a)->id - ((const struct token *)b)->id; }

/* Logits from about -8 to 8; with `ties` only 17 different ones. */
static void fill(float *logits, int n, uint32_t seed, bool ties)
{
    for (int i = 0; i < n; i++) {
        uint32_t word[4];
        philox4x32(word, (uint32_t[]){(uint32_t)i, 0, 0, 0}, (uint32_t[]){seed, 1});
        const double sum = ((double)word[0] + word[1] + word[2] + word[3]) * 0x1p-32 - 2; /* near a bell, -2 to 2 */
        logits[i] = ties ? (float)lround(sum * 4) : (float)(sum * 4);
    }
}

static double probabilities(struct token *t, int n)
{
    double sum = 0, entropy = 0;
    double best = -INFINITY;
    for (int i = 0; i < n; i++)
        best = fmax(best, t[i].logit);
    for (int i = 0; i < n; i++)
        sum += exp(t[i].logit - best);
    for (int i = 0; i < n; i++) {
        t[i].p = exp(t[i].logit - best) / sum;
        entropy -= t[i].p * log(t[i].p);
    }
    return entropy;
}

static int reference_all(struct token *t, const float *logits, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (logits[i] > -INFINITY)
            t[kept++] = (struct token){.id = i, .logit = (double)logits[i]};
    qsort(t, (size_t)kept, sizeof *t, by_logit);
    return kept;
}

static int reference_top_p(struct token *t, int n, double p)
{
    probabilities(t, n);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += t[i].p;
        if (sum >= p)
            return i + 1;
    }
    return n;
}

static int reference_min_p(struct token *t, int n, double p)
{
    int kept = 0;
    while (kept < n && exp(t[kept].logit - t[0].logit) >= p)
        kept++;
    return kept;
}

static int reference_typical(struct token *t, int n, double p)
{
    const double entropy = probabilities(t, n);
    for (int i = 0; i < n; i++) /* as float: equal logits are equally far */
        t[i].distance = fabs(-log(t[i].p) - entropy);
    qsort(t, (size_t)n, sizeof *t, by_distance);
    double sum = 0;
    int kept = 0;
    while (kept < n && sum <= p)
        sum += t[kept++].p;
    qsort(t, (size_t)kept, sizeof *t, by_logit);
    return kept;
}

static void assert_same(struct candidates *c, struct token *t, int n)
{
    struct token got[N_MAX];
    assert_int_equal(c->n, n);
    for (int i = 0; i < n; i++) {
        got[i] = (struct token){.id = candidate_id(c->key[i]), .logit = (double)candidate_logit(c->key[i])};
        if (c->sorted)
            assert_int_equal(got[i].id, t[i].id);
    }
    qsort(got, (size_t)n, sizeof *got, by_id);
    qsort(t, (size_t)n, sizeof *t, by_id);
    for (int i = 0; i < n; i++) {
        assert_int_equal(got[i].id, t[i].id);
        assert_true(got[i].logit == t[i].logit);
    }
}

/* One filter (or NULL) against its reference, over sizes, ties and the sets that an earlier top_k leaves. */
static void check(void (*filter)(struct candidates *, float, const float *), int (*reference)(struct token *, int, double))
{
    static float logits[N_MAX];
    static uint64_t key[N_MAX], spare[N_MAX];
    static struct token t[N_MAX];
    static const int top_ks[] = {0, 1, 2, 40, 63, 500, N_MAX + 1};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t k = 0; k < sizeof top_ks / sizeof *top_ks; k++) {
            for (size_t p = 0; p < sizeof shares / sizeof *shares; p++) {
                const bool ties = p % 2 == 1 && reference != reference_typical;
                fill(logits, sizes[s], (uint32_t)(s * 100 + k), ties);
                if (sizes[s] > 3)
                    logits[2] = -INFINITY;
                struct candidates c = {.key = key, .spare = spare};
                candidates_start(&c, logits, sizes[s], top_ks[k]);
                int n = reference_all(t, logits, sizes[s]);
                n = top_ks[k] > 0 && n > top_ks[k] ? top_ks[k] : n;
                if (filter != NULL) {
                    filter(&c, shares[p], logits);
                    n = reference(t, n, (double)shares[p]);
                }
                assert_same(&c, t, n);
            }
        }
    }
}

static void top_p(struct candidates *c, float p, const float *logits)
{
    (void)logits;
    candidates_top_p(c, p);
}

static void min_p(struct candidates *c, float p, const float *logits)
{
    (void)logits;
    candidates_min_p(c, p);
}

static void sorted(struct candidates *c, float p, const float *logits)
{
    (void)p;
    (void)logits;
    candidates_sort(c);
}

static int reference_sorted(struct token *t, int n, double p)
{
    (void)t;
    (void)p;
    return n;
}

static void top_k_keeps_the_k_best(void **state)
{
    (void)state;
    check(NULL, NULL);
}

static void sorting_puts_the_best_first_and_the_lower_of_equals(void **state)
{
    (void)state;
    check(sorted, reference_sorted);
}

static void top_p_keeps_the_nucleus(void **state)
{
    (void)state;
    check(top_p, reference_top_p);
}

static void min_p_keeps_a_share_of_the_best(void **state)
{
    (void)state;
    check(min_p, reference_min_p);
}

static void typical_p_keeps_what_is_near_the_entropy(void **state)
{
    (void)state;
    check(candidates_typical, reference_typical);
}

static void a_key_gives_its_logit_and_id_back(void **state)
{
    (void)state;
    static const float x[] = {-INFINITY, -3.4e38f, -1, -1e-40f, 0, 1e-40f, 1, 3.4e38f};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        assert_true(candidate_logit(candidate_key(x[i], 7)) == x[i]);
        assert_int_equal(candidate_id(candidate_key(x[i], 262143)), 262143);
        if (i > 0)
            assert_true(candidate_key(x[i], 9) < candidate_key(x[i - 1], 1));
    }
    assert_true(candidate_key(-0.0f, 3) == candidate_key(0.0f, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_k_keeps_the_k_best),
        cmocka_unit_test(sorting_puts_the_best_first_and_the_lower_of_equals),
        cmocka_unit_test(top_p_keeps_the_nucleus),
        cmocka_unit_test(min_p_keeps_a_share_of_the_best),
        cmocka_unit_test(typical_p_keeps_what_is_near_the_entropy),
        cmocka_unit_test(a_key_gives_its_logit_and_id_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
