/* test_number_text.c: numbers to text come back as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/number_text.h"

static void the_shortest_double_is_the_one_people_wrote(void **state)
{
    (void)state;
    assert_true(number_short(0.8F) == 0.8);
    assert_true(number_short(0.95F) == 0.95);
    assert_true(number_short(1.0F) == 1.0);
    assert_true(number_short(0.0F) == 0.0);
    for (float f = 1e-30F; f < 1e30F; f *= 1.37F)
        assert_true((float)number_short(f) == f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_double_is_the_one_people_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
