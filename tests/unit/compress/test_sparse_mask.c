/* test_sparse_mask.c: which weights go by each method, and what SparseGPT makes good. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "compress/inverse_factor.h"
#include "compress/sparse_mask.h"

enum {
    N = 192,
    N_TOKEN = 600
};

static float uniform(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

static float *scratch(void)
{
    static float room[4096];
    assert_true(sparse_mask_scratch(N) <= sizeof room / sizeof *room);
    return room;
}

static void the_smallest_of_a_group_go(void **state)
{
    (void)state;
    float x[8] = {1, -3, 2, 0.5f, -8, 7, 6, 5};
    const float of_4[8] = {0, -3, 2, 0, -8, 7, 0, 0}, of_8[8] = {0, 0, 0, 0, -8, 7, 6, 5};
    struct sparse_mask m = {.method = SPARSE_MAGNITUDE, .kept = 4, .of = 8, .scratch = scratch()};
    float y[8];
    memcpy(y, x, sizeof y);
    sparse_mask_row(&m, y, 8);
    assert_memory_equal(y, of_8, sizeof y);
    m.kept = 2;
    m.of = 4;
    sparse_mask_row(&m, x, 8);
    assert_memory_equal(x, of_4, sizeof x);
}

static void wanda_counts_what_meets_a_column(void **state)
{
    (void)state;
    float x[8] = {1, 1, 1, 1, 4, 3, 2, 1};
    const float mean[8] = {1, 4, 9, 0, 1, 1, 1, 100}, want[8] = {0, 1, 1, 0, 4, 0, 0, 1};
    const struct sparse_mask m = {.method = SPARSE_WANDA, .kept = 2, .of = 4, .mean = mean, .scratch = scratch()};
    sparse_mask_row(&m, x, 8);
    assert_memory_equal(x, want, sizeof x);
}

static void a_share_of_a_row_goes(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int equal = 0; equal < 2; equal++)
        for (int tenth = 0; tenth <= 10; tenth++) {
            float x[N];
            int n_zero = 0;
            const struct sparse_mask m = {.method = SPARSE_MAGNITUDE, .ratio = tenth * 0.1, .scratch = scratch()};
            for (int i = 0; i < N; i++)
                x[i] = equal ? 1 : uniform(&seed) + 2;
            sparse_mask_row(&m, x, N);
            for (int i = 0; i < N; i++)
                n_zero += x[i] == 0;
            assert_int_equal(n_zero, (int)floor(tenth * 0.1 * N + 0.5));
        }
}

static void compute_open(struct compute *c, struct thread_pool **pool, int threads)
{
    assert_int_equal(pool_create(pool, threads, NULL), MR_OK);
    assert_int_equal(compute_init(c, *pool, cpu_detect(), 16, NULL), MR_OK);
}

static void compute_close(struct compute *c, struct thread_pool *pool)
{
    compute_release(c);
    pool_free(pool);
}

/* h = sum over tokens of x x^T, of activations that are alike: each column is partly the one before. */
static void fill_hessian(double *h, float *x, int n, uint32_t seed)
{
    memset(h, 0, sizeof *h * (size_t)n * (size_t)n);
    for (int t = 0; t < N_TOKEN; t++) {
        for (int i = 0; i < n; i++)
            x[t * n + i] = uniform(&seed) + (i > 0 ? 0.8f * x[t * n + i - 1] : 0);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                h[i * n + j] += (double)x[t * n + i] * (double)x[t * n + j];
    }
}

/* U^T U (H + damping) is the unit matrix, for sizes around a block; threads change no bit. */
static void the_factor_inverts(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 7, 63, 64, 65, 128, N};
    static double h[N * N], product[N * N];
    static float x[N_TOKEN * N], u[N * N], again[N * N];
    struct compute c, one;
    struct thread_pool *pool, *single;
    compute_open(&c, &pool, 3);
    compute_open(&one, &single, 1);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int n = sizes[s];
        double trace = 0;
        fill_hessian(h, x, n, (uint32_t)n);
        for (int i = 0; i < n; i++)
            trace += h[i * n + i];
        for (int i = 0; i < n * n; i++)
            u[i] = again[i] = (float)h[i];
        assert_int_equal(inverse_factor(&c, u, n, 0.01f, NULL), MR_OK);
        assert_int_equal(inverse_factor(&one, again, n, 0.01f, NULL), MR_OK);
        for (int i = 0; i < n; i++)
            assert_memory_equal(u + i * n + i, again + i * n + i, sizeof *u * (size_t)(n - i));
        for (int i = 0; i < n; i++)
            h[i * n + i] += 0.01 * trace / n;
        for (int i = 0; i < n; i++) /* U^T U */
            for (int j = 0; j < n; j++) {
                product[i * n + j] = 0;
                for (int k = 0; k <= i && k <= j; k++)
                    product[i * n + j] += (double)u[k * n + i] * (double)u[k * n + j];
            }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0;
                for (int k = 0; k < n; k++)
                    sum += product[i * n + k] * h[k * n + j];
                assert_true(fabs(sum - (i == j)) < 1e-3);
            }
    }
    compute_close(&c, pool);
    compute_close(&one, single);
}

static void what_is_no_hessian_is_refused(void **state)
{
    (void)state;
    struct compute c;
    struct thread_pool *pool;
    struct mr_error err = {{0}};
    compute_open(&c, &pool, 1);
    float zero[4] = {0}, bad[4] = {1, NAN, NAN, NAN}, negative[4] = {1, 1e9f, 1e9f, 1};
    assert_int_equal(inverse_factor(&c, zero, 2, 0.01f, &err), MR_OK);
    assert_true(zero[0] == 1 && zero[3] == 1);
    assert_int_equal(inverse_factor(&c, bad, 2, 0.01f, &err), MR_BAD_FORMAT);
    assert_int_equal(inverse_factor(&c, negative, 2, 0.01f, &err), MR_BAD_FORMAT);
    compute_close(&c, pool);
}

/* The squared error of a row's products with all tokens. */
static double product_error(const float *x, const float *w, const float *y)
{
    double error = 0;
    for (int t = 0; t < N_TOKEN; t++) {
        double sum = 0;
        for (int i = 0; i < N; i++)
            sum += ((double)w[i] - (double)y[i]) * (double)x[t * N + i];
        error += sum * sum;
    }
    return error;
}

static void sparsegpt_leaves_less_error_and_the_same_pattern(void **state)
{
    (void)state;
    static double h[N * N];
    static float x[N_TOKEN * N], u[N * N];
    static const int ofs[] = {4, 8, 0};
    struct compute c;
    struct thread_pool *pool;
    uint32_t seed = 7;
    compute_open(&c, &pool, 1);
    fill_hessian(h, x, N, 3);
    for (int i = 0; i < N * N; i++)
        u[i] = (float)h[i];
    assert_int_equal(inverse_factor(&c, u, N, 0.01f, NULL), MR_OK);
    for (size_t k = 0; k < 3; k++) {
        double plain = 0, mended = 0;
        for (int row = 0; row < 8; row++) {
            float w[N], a[N], b[N];
            struct sparse_mask m = {.kept = ofs[k] / 2, .of = ofs[k], .ratio = 0.5, .factor = u, .scratch = scratch()};
            for (int i = 0; i < N; i++)
                w[i] = a[i] = b[i] = uniform(&seed);
            m.method = SPARSE_MAGNITUDE;
            sparse_mask_row(&m, a, N);
            m.method = SPARSE_SPARSEGPT;
            sparse_mask_row(&m, b, N);
            plain += product_error(x, w, a);
            mended += product_error(x, w, b);
            int n_zero = 0;
            for (int i = 0; i < N; i++)
                n_zero += b[i] == 0;
            assert_int_equal(n_zero, N / 2);
            for (int g = 0; ofs[k] > 0 && g < N; g += ofs[k]) {
                int n = 0;
                for (int i = g; i < g + ofs[k]; i++)
                    n += b[i] == 0;
                assert_int_equal(n, ofs[k] / 2);
            }
        }
        assert_true(mended < 0.5 * plain);
    }
    compute_close(&c, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_of_a_group_go),    cmocka_unit_test(wanda_counts_what_meets_a_column),
        cmocka_unit_test(a_share_of_a_row_goes),         cmocka_unit_test(the_factor_inverts),
        cmocka_unit_test(what_is_no_hessian_is_refused), cmocka_unit_test(sparsegpt_leaves_less_error_and_the_same_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
