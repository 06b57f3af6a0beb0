/* test_fit.c: encoders that search leave no more weighted error than plain ones, and never anything but finite numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "quant/fit.h"

enum {
    N = 2048,
    MAX_BYTES = N * sizeof(float)
};

static float x[N], weight[N];

static float uniform(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-24f;
}

/* About normal; every 37th weight is far out. */
static void fill(uint32_t seed)
{
    for (int i = 0; i < N; i++) {
        float sum = -6;
        for (int k = 0; k < 12; k++)
            sum += uniform(&seed);
        x[i] = sum * 0.02f * (i % 37 == 0 ? 5 : 1);
        const float u = uniform(&seed);
        weight[i] = u * u * u * 10 + 1e-4f;
    }
}

static double error_of(const struct quant *q, const void *blocks)
{
    float back[N];
    double error = 0;
    q->decode(back, blocks, N);
    for (int i = 0; i < N; i++)
        error += (double)weight[i] * pow((double)x[i] - (double)back[i], 2);
    return error;
}

static void a_search_leaves_less_error(void **state)
{
    (void)state;
    static unsigned char plain[MAX_BYTES], fitted[MAX_BYTES];
    for (int t = 0; quant_at(t) != NULL; t++) {
        const struct quant *q = quant_at(t);
        if (quant_fit_of(q->type) == NULL)
            continue;
        for (uint32_t seed = 1; seed <= 4; seed++) {
            fill(seed);
            q->encode(plain, x, N);
            quant_fit_of(q->type)(fitted, x, weight, N);
            if (!(error_of(q, fitted) < error_of(q, plain)))
                fail_msg("%s: %g, plain %g", q->name, error_of(q, fitted), error_of(q, plain));
        }
    }
}

/* All types of fewer than 8 bits have one. */
static void types_with_scales_have_a_search(void **state)
{
    (void)state;
    for (int t = 0; quant_at(t) != NULL; t++)
        assert_int_equal(quant_fit_of(quant_at(t)->type) != NULL, quant_at(t)->bytes < (size_t)quant_at(t)->block);
    assert_null(quant_fit_of(QUANT_TYPE_END));
}

static void odd_blocks_stay_finite(void **state)
{
    (void)state;
    static unsigned char blocks[MAX_BYTES];
    for (int kind = 0; kind < 7; kind++) {
        for (int i = 0; i < N; i++) {
            const float values[] = {0, 1, -1, 1e-30f, i % 2 ? 6e4f : -6e4f, i == 5 ? 3.0f : 0.0f, i % 3 == 0 ? -0.0f : 1e-6f};
            x[i] = values[kind];
            weight[i] = i % 64 < 32 ? 0.0f : 1.0f;
        }
        for (int t = 0; quant_at(t) != NULL; t++) {
            const struct quant *q = quant_at(t);
            if (quant_fit_of(q->type) == NULL)
                continue;
            quant_fit_of(q->type)(blocks, x, weight, N);
            if (!quant_is_finite(q, blocks, N))
                fail_msg("%s, kind %d", q->name, kind);
            if (kind == 0) {
                float back[N];
                q->decode(back, blocks, N);
                for (int i = 0; i < N; i++)
                    assert_true(back[i] == 0);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_leaves_less_error),
        cmocka_unit_test(types_with_scales_have_a_search),
        cmocka_unit_test(odd_blocks_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
