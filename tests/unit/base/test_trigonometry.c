/* test_trigonometry.c: sine, cosine and powers against libm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/trigonometry.h"

static void check_angle(double x)
{
    double s, c;
    math_sincos(&s, &c, x);
    assert_true(fabs(s - sin(x)) <= 1e-10 && fabs(c - cos(x)) <= 1e-10);
}

static void sine_and_cosine_of_small_angles(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++)
        check_angle(i * 0.001);
    check_angle(1e-300);
}

static void sine_and_cosine_of_large_angles(void **state)
{
    (void)state;
    for (double x = 1; x < 0x1p30; x *= 1.0137)
        check_angle(x);
}

static void sine_and_cosine_near_multiples_of_a_quarter_turn(void **state)
{
    (void)state;
    for (int n = 0; n < 2000; n++) {
        const double at = n * (M_PI / 2);
        check_angle(at);
        check_angle(nextafter(at, 1e9));
        check_angle(n * (M_PI / 4));
    }
}

static void powers_that_rope_takes(void **state)
{
    (void)state;
    static const double bases[] = {1.5, 10000, 100000, 500000, 1e6, 1e9};
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++)
        for (int i = -512; i <= 512; i++) {
            const double want = pow(bases[b], i / 512.0);
            assert_true(fabs(math_power(bases[b], i / 512.0) - want) <= 1e-14 * want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sine_and_cosine_of_small_angles),
        cmocka_unit_test(sine_and_cosine_of_large_angles),
        cmocka_unit_test(sine_and_cosine_near_multiples_of_a_quarter_turn),
        cmocka_unit_test(powers_that_rope_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
