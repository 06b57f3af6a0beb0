/* test_ops_cpu.c: how the cpu back end cuts work over threads: results against plain loops, and the same bits for any cut. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ops_fixture.h"

enum {
    N_IN = 96,
    MAX_OUT = 1000,
    MAX_ROW = 300,
    N_PRODUCT = 9 /* one more than a single fork takes */
};

static struct tensor make_filled(struct lab *l, int n_row, int n_col, int seed)
{
    const struct tensor t = make_tensor(l, n_row, n_col);
    float *x = malloc((size_t)n_row * (size_t)n_col * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < n_row * n_col; i++)
        x[i] = value(i + seed);
    l->device->ops->upload(l->device, &t, x);
    free(x);
    return t;
}

/* A matrix of value(i + seed), f32. */
static struct weight make_weight(struct lab *l, int n_out, int seed)
{
    static float rows[MAX_OUT * N_IN];
    const struct weight_source source = {quant_find(QUANT_F32), n_out, N_IN};
    struct weight w;
    assert_int_equal(l->device->ops->weight_plan(l->device, &w, &source, WEIGHT_AS_IT_IS, NULL), MR_OK);
    w.buffer = l->buffer;
    w.offset = l->used;
    l->used = (l->used + w.bytes + 63) / 64 * 64;
    for (int i = 0; i < n_out * N_IN; i++)
        rows[i] = value(i + seed);
    for (int first = 0; first < n_out; first += 64)
        assert_int_equal(l->device->ops->weight_pack(l->device, &w, &source, rows + first * N_IN, first,
                                                     n_out - first < 64 ? n_out - first : 64, NULL),
                         MR_OK);
    return w;
}

/* out[p] of N_PRODUCT products of n_row rows with one x, the even ones with a bias. The caller frees it. */
static float *products(int n_thread, int n_row, const int *n_out, size_t *n)
{
    struct lab l;
    struct weight w[N_PRODUCT];
    struct product p[N_PRODUCT];
    open_lab(&l, n_thread);
    const struct activation_view x = {.f32 = make_filled(&l, n_row, N_IN, 5)};
    *n = 0;
    for (int i = 0; i < N_PRODUCT; i++) {
        w[i] = make_weight(&l, n_out[i], 100 * i);
        p[i] = (struct product){.weight = &w[i], .out = make_tensor(&l, n_row, n_out[i])};
        if (i % 2 == 0)
            p[i].bias = make_filled(&l, 1, n_out[i], i);
        *n += (size_t)n_row * (size_t)n_out[i];
    }
    l.device->ops->matmul(l.device, p, N_PRODUCT, &x);
    float *out = malloc(*n * sizeof *out), *at = out;
    assert_non_null(out);
    for (int i = 0; i < N_PRODUCT; at += n_row * n_out[i], i++)
        l.device->ops->download(l.device, at, &p[i].out);
    close_lab(&l);
    return out;
}

static void products_of_one_activation(void **state)
{
    (void)state;
    static const int n_out[N_PRODUCT] = {1, 15, 16, 17, 64, 1000, 33, 2, 100};
    static const int rows[] = {1, 2, 9, MAX_ROW};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t n, m;
        float *one = products(1, rows[k], n_out, &n), *three = products(3, rows[k], n_out, &m);
        assert_int_equal(n, m);
        assert_memory_equal(one, three, n * sizeof *one);
        const float *at = one;
        for (int i = 0; i < N_PRODUCT; i++)
            for (int r = 0; r < rows[k]; r++)
                for (int o = 0; o < n_out[i]; o++, at++) {
                    double want = i % 2 == 0 ? (double)value(o + i) : 0, size = fabs(want);
                    for (int d = 0; d < N_IN; d++) {
                        const double term = (double)value(r * N_IN + d + 5) * (double)value(o * N_IN + d + 100 * i);
                        want += term;
                        size += fabs(term);
                    }
                    assert_true(fabs((double)*at - want) <= N_IN * (double)FLT_EPSILON * size);
                }
        free(one);
        free(three);
    }
}

/* One product of int8 weights with n_row rows, those of fine[n_fine] fine, by three threads; with a norm in front that makes
 * the rows. out: [n_row][n_out]. Returns the largest difference from the product of the floats. */
static double int8_product(float *out, int n_row, int n_out, const int32_t *fine, int n_fine)
{
    static float values[MAX_OUT * N_IN];
    static unsigned char blocks[MAX_OUT * N_IN * 2];
    struct lab l;
    struct weight w;
    const struct quant *q8_0 = quant_find(QUANT_Q8_0);
    const struct weight_source source = {q8_0, n_out, N_IN};
    open_lab(&l, 3);
    for (int i = 0; i < n_out * N_IN; i++)
        values[i] = value(3 * i);
    q8_0->encode(blocks, values, (size_t)n_out * N_IN);
    q8_0->decode(values, blocks, (size_t)n_out * N_IN);
    assert_int_equal(l.device->ops->weight_plan(l.device, &w, &source, WEIGHT_AS_IT_IS, NULL), MR_OK);
    w.buffer = l.buffer;
    l.used = (w.bytes + 63) / 64 * 64;
    assert_int_equal(l.device->ops->weight_pack(l.device, &w, &source, blocks, 0, n_out, NULL), MR_OK);
    const struct norm_args norm = {.x = make_filled(&l, n_row, N_IN, 5),
                                   .weight = make_filled(&l, 1, N_IN, 77),
                                   .out = {make_tensor(&l, n_row, N_IN), make_tensor(&l, n_row, N_IN),
                                           make_tensor(&l, n_fine, N_IN), make_list(&l, fine, n_fine)},
                                   .eps = 1e-5f};
    const struct product p = {.weight = &w, .out = make_tensor(&l, n_row, n_out)};
    l.device->ops->norm(l.device, &norm);
    l.device->ops->matmul(l.device, &p, 1, &norm.out);
    l.device->ops->download(l.device, out, &p.out);
    static float x[MAX_ROW * N_IN];
    l.device->ops->download(l.device, x, &norm.out.f32);
    close_lab(&l);
    double worst = 0;
    for (int i = 0; i < n_row * n_out; i++) {
        double want = 0;
        for (int d = 0; d < N_IN; d++)
            want += (double)values[i % n_out * N_IN + d] * (double)x[i / n_out * N_IN + d];
        worst = fmax(worst, fabs((double)out[i] - want));
    }
    return worst;
}

/* Many fine rows and many outputs: both are cut where the scratch memory ends. */
static void fine_rows_have_the_same_bits_in_any_company(void **state)
{
    (void)state;
    enum {
        N_ROW = 70,
        N_OUT = 600
    };
    static float all[N_ROW * N_OUT], none[N_ROW * N_OUT], some[N_ROW * N_OUT];
    static int32_t every[N_ROW];
    static const int32_t few[] = {0, 7, 8, 69};
    for (int i = 0; i < N_ROW; i++)
        every[i] = i;
    const double fine_error = int8_product(all, N_ROW, N_OUT, every, N_ROW);
    const double error = int8_product(none, N_ROW, N_OUT, NULL, 0);
    assert_true(fine_error < error / 100);
    int8_product(some, N_ROW, N_OUT, few, 4);
    for (int r = 0, f = 0; r < N_ROW; r++) {
        const bool is_fine = f < 4 && few[f] == r;
        f += is_fine;
        assert_memory_equal(some + r * N_OUT, (is_fine ? all : none) + r * N_OUT, N_OUT * sizeof *some);
    }
    float alone[N_OUT];
    int8_product(alone, 1, N_OUT, every, 1);
    assert_memory_equal(alone, all, sizeof alone);
}

static void rows_are_looked_up_in_packed_weights(void **state)
{
    (void)state;
    static const int32_t token[] = {0, 999, 15, 16, 500};
    struct lab l;
    float out[5 * N_IN];
    open_lab(&l, 2);
    const struct weight w = make_weight(&l, MAX_OUT, 3);
    const struct tensor t = make_tensor(&l, 5, N_IN);
    l.device->ops->embed(l.device, &t, &w, token, 2);
    l.device->ops->download(l.device, out, &t);
    for (int i = 0; i < 5 * N_IN; i++)
        assert_true(out[i] == 2 * value(token[i / N_IN] * N_IN + i % N_IN + 3));
    close_lab(&l);
}

static void norm_adds_what_waits_first(void **state)
{
    (void)state;
    struct lab l;
    static float x[MAX_ROW * N_IN], out[MAX_ROW * N_IN];
    open_lab(&l, 3);
    const struct norm_args args = {.x = make_filled(&l, MAX_ROW, N_IN, 0),
                                   .delta = make_filled(&l, MAX_ROW, N_IN, 77),
                                   .weight = make_filled(&l, 1, N_IN, 9),
                                   .out = {.f32 = make_tensor(&l, MAX_ROW, N_IN)},
                                   .eps = 1e-5f};
    l.device->ops->norm(l.device, &args);
    l.device->ops->download(l.device, x, &args.x);
    l.device->ops->download(l.device, out, &args.out.f32);
    for (int r = 0; r < MAX_ROW; r++) {
        double sum = 0;
        for (int d = 0; d < N_IN; d++) {
            const int i = r * N_IN + d;
            assert_true(x[i] == value(i) + value(i + 77));
            sum += (double)x[i] * (double)x[i];
        }
        for (int d = 0; d < N_IN; d++) {
            const double want = (double)x[r * N_IN + d] / sqrt(sum / N_IN + (double)1e-5f) * (double)value(d + 9);
            assert_true(fabs((double)out[r * N_IN + d] - want) <= 1e-5 * fabs(want) + 1e-9);
        }
    }
    close_lab(&l);
}

static void rows_are_gathered(void **state)
{
    (void)state;
    static const int32_t row[] = {7, 0, 7, 299};
    struct lab l;
    float out[4 * N_IN];
    open_lab(&l, 2);
    const struct tensor x = make_filled(&l, MAX_ROW, N_IN, 1), picked = make_tensor(&l, 4, N_IN);
    l.device->ops->gather_rows(l.device, &picked, &x, row);
    l.device->ops->download(l.device, out, &picked);
    for (int i = 0; i < 4 * N_IN; i++)
        assert_true(out[i] == value(row[i / N_IN] * N_IN + i % N_IN + 1));
    close_lab(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_one_activation),
        cmocka_unit_test(fine_rows_have_the_same_bits_in_any_company),
        cmocka_unit_test(rows_are_looked_up_in_packed_weights),
        cmocka_unit_test(norm_adds_what_waits_first),
        cmocka_unit_test(rows_are_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
