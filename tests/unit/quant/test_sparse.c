/* test_sparse.c: types that store half of the weights: what is dropped, what comes back, what a damaged map does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "quant/fit.h"
#include "quant/sparse.h"

enum {
    N = 1024, /* weights */
    MAX_BYTES = N * sizeof(float)
};

static float x[N], out[N];
static unsigned char bytes[MAX_BYTES];

static float weight(int i) { return (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-23f - 1.0f; }

static void fill(void)
{
    for (int i = 0; i < N; i++)
        x[i] = weight(i);
}

static void types_are_found(void **state)
{
    (void)state;
    int n = 0;
    for (const struct quant *q; (q = quant_sparse_at(n)) != NULL; n++) {
        const struct quant_pattern *p = quant_pattern(q);
        assert_ptr_equal(quant_find((uint32_t)q->type), q);
        assert_ptr_equal(quant_find_name(q->name), q);
        assert_ptr_equal(quant_sparse_find(quant_find(p->dense), p->kept, p->of), q);
        assert_true(q->type < QUANT_TYPE_END && q->block == QK);
    }
    assert_int_equal(n, 6);
    assert_null(quant_sparse_at(-1));
    assert_null(quant_pattern(quant_find(QUANT_Q8_0)));
    assert_null(quant_sparse_find(quant_find(QUANT_Q8_0), 1, 4));
    assert_null(quant_sparse_find(quant_find(QUANT_Q6_K), 2, 4));
}

/* Of each group half is zero, none of which is larger than what stays; that is near what it was. */
static void check_groups(const struct quant_pattern *p, float largest_error)
{
    for (int first = 0; first < N; first += p->of) {
        float smallest_kept = 2, largest_gone = 0;
        int n_kept = 0;
        for (int i = first; i < first + p->of; i++)
            if (out[i] != 0) {
                n_kept++;
                smallest_kept = fminf(smallest_kept, fabsf(x[i]));
                assert_true(fabsf(out[i] - x[i]) <= largest_error);
            } else {
                largest_gone = fmaxf(largest_gone, fabsf(x[i]));
            }
        assert_true(n_kept <= p->kept);
        assert_true(largest_gone <= fmaxf(smallest_kept, largest_error)); /* small ones may round to zero */
    }
}

static void the_largest_of_each_group_stay(void **state)
{
    (void)state;
    fill();
    for (int k = 0; quant_sparse_at(k) != NULL; k++) {
        const struct quant *q = quant_sparse_at(k);
        const struct quant_pattern *p = quant_pattern(q);
        q->encode(bytes, x, N);
        assert_true(quant_keeps_pattern(q, bytes, N));
        q->decode(out, bytes, N);
        check_groups(p, p->dense == QUANT_Q4_0 ? 0.13f : p->dense == QUANT_Q8_0 ? 0.0045f : 0.0021f);
        if (quant_fit_of(q->type) == NULL)
            continue;
        static float even[N];
        for (int i = 0; i < N; i++)
            even[i] = 1;
        quant_fit_of(q->type)(bytes, x, even, N);
        assert_true(quant_keeps_pattern(q, bytes, N));
        q->decode(out, bytes, N);
        check_groups(p, 0.2f);
    }
}

/* What the map stores comes back where it was, whatever the map: all 6 of 2 of 4, all 70 of 4 of 8. */
static void every_map_comes_back(void **state)
{
    (void)state;
    for (int k = 0; quant_sparse_at(k) != NULL; k++) {
        const struct quant *q = quant_sparse_at(k);
        const struct quant_pattern *p = quant_pattern(q);
        for (unsigned map = 0; map < 256; map++) {
            float want[QK], got[QK];
            const int low = __builtin_popcount(map & 15), high = __builtin_popcount(map >> 4);
            if (p->of == 4 ? low != 2 || high != 2 : low + high != 4)
                continue;
            for (unsigned i = 0; i < QK; i++)
                want[i] = map >> i % 8 & 1 ? (i % 2 ? 127.0f : -127.0f) : 0.0f;
            q->encode(bytes, want, QK);
            q->decode(got, bytes, QK);
            for (int i = 0; i < QK; i++)
                assert_true(p->dense == QUANT_Q4_0 ? fabsf(got[i] - want[i]) < 20 : got[i] == want[i]);
        }
    }
}

static void a_damaged_map_is_found_and_harmless(void **state)
{
    (void)state;
    fill();
    for (int k = 0; quant_sparse_at(k) != NULL; k++) {
        const struct quant *q = quant_sparse_at(k);
        const size_t map = quant_pattern(q)->dense == QUANT_BF16 ? 0 : 2;
        for (unsigned damage = 0; damage < 256; damage++) {
            q->encode(bytes, x, N);
            bytes[5 * q->bytes + map + 3] = (unsigned char)damage;
            const int low = __builtin_popcount(damage & 15), high = __builtin_popcount(damage >> 4);
            const bool keeps = quant_pattern(q)->of == 4 ? low == 2 && high == 2 : low + high == 4;
            assert_int_equal(quant_keeps_pattern(q, bytes, N), keeps);
            q->decode(out, bytes, N);
        }
    }
}

static void what_is_no_number_is_found(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; quant_sparse_at(k) != NULL; k++)
        for (int b = 0; b < 3; b++) {
            fill();
            x[517] = bad[b];
            quant_sparse_at(k)->encode(bytes, x, N);
            assert_false(quant_is_finite(quant_sparse_at(k), bytes, N));
        }
}

static void zeros_and_equals(void **state)
{
    (void)state;
    for (int k = 0; quant_sparse_at(k) != NULL; k++)
        for (int value = 0; value < 2; value++) {
            for (int i = 0; i < N; i++)
                x[i] = (float)value;
            quant_sparse_at(k)->encode(bytes, x, N);
            assert_true(quant_keeps_pattern(quant_sparse_at(k), bytes, N));
            quant_sparse_at(k)->decode(out, bytes, N);
            const int of = quant_pattern(quant_sparse_at(k))->of;
            for (int i = 0; i < N; i++) /* of equals the first stay */
                assert_true(i % of < of / 2 && value == 1 ? fabsf(out[i] - 1) < 0.01f : out[i] == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_found),
        cmocka_unit_test(the_largest_of_each_group_stay),
        cmocka_unit_test(every_map_comes_back),
        cmocka_unit_test(a_damaged_map_is_found_and_harmless),
        cmocka_unit_test(what_is_no_number_is_found),
        cmocka_unit_test(zeros_and_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
