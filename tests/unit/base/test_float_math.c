/* test_float_math.c: exp and log against libm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/float_math.h"

static void exp_and_log_stay_within_two_ulp(void **state)
{
    (void)state;
    for (int i = 0; i <= 200000; i++) {
        const float x = -87.0f + 175.0f * (float)i / 200000.0f;
        const double want = exp((double)x);
        assert_true(fabs((double)math_exp(x) - want) <= 2 * 0x1p-23 * want);
        const double y = want * (1 + i * 1e-6);
        assert_true(fabs(math_log(y) - log(y)) <= 2 * 0x1p-52 * fmax(fabs(log(y)), 0x1p-3));
    }
    assert_true(math_exp(0) == 1);
    assert_true(math_exp(-INFINITY) == 0);
    assert_true(math_log(1) == 0);
    for (int i = 1; i < 40; i++) /* near 1 the relative error counts: Gumbel noise takes the logarithm of it again */
        assert_true(fabs(math_log(1 - ldexp(1, -i)) / log1p(-ldexp(1, -i)) - 1) < 0x1p-50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exp_and_log_stay_within_two_ulp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
