/* test_fp16.c: half precision and bfloat16 conversions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fp16.h"

static void every_half_survives_the_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float f = f32_from_f16((uint16_t)h);
        const int exponent = (int)(h >> 10 & 0x1f), fraction = (int)(h & 0x3ff);
        const uint16_t back = f16_from_f32(f);
        if (exponent == 0x1f && fraction != 0) {
            assert_true(isnan(f));
            assert_int_equal(back, h | 0x200);
            continue;
        }
        const double want =
            exponent == 0x1f ? INFINITY : ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
        assert_true((h & 0x8000 ? -want : want) == (double)f);
        assert_int_equal(back, h);
    }
}

static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        float f;
        uint16_t f16, bf16;
    } cases[] = {
        {1.0f + 0x1p-11f, 0x3c00, 0x3f80},   /* tie to even */
        {1.0f + 0x1.8p-10f, 0x3c02, 0x3f80}, /* tie, odd below */
        {1.0f + 0x1p-11f + 0x1p-20f, 0x3c01, 0x3f80},
        {65504.0f, 0x7bff, 0x4780},
        {65519.99f, 0x7bff, 0x4780},
        {65520.0f, 0x7c00, 0x4780},
        {1e30f, 0x7c00, 0x714a},
        {0x1p-25f, 0x0000, 0x3300},
        {0x1.000002p-25f, 0x0001, 0x3300},
        {-0.0f, 0x8000, 0x8000},
        {0x1.ffcp-15f, 0x0400, 0x3880}, /* rounds up into the normal range */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(f16_from_f32(cases[i].f), cases[i].f16);
        assert_int_equal(bf16_from_f32(cases[i].f), cases[i].bf16);
    }
    assert_true(isnan(f32_from_bf16(bf16_from_f32(NAN))));
    assert_true(isinf(f32_from_bf16(bf16_from_f32(INFINITY))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives_the_round_trip),
        cmocka_unit_test(rounding_is_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
