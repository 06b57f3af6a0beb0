/* test_utf8.c: decoding agrees with the tables of the Unicode standard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/utf8.h"

static void round_trip_of_every_scalar_value(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x110000; code++) {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        char s[UTF8_MAX];
        uint32_t back;
        const int n = utf8_encode(s, code);
        assert_int_equal(utf8_decode(&back, s, (size_t)n), n);
        assert_int_equal(back, code);
        for (int cut = 1; cut < n; cut++) {
            assert_int_equal(utf8_decode(&back, s, (size_t)cut), -cut);
            assert_true(utf8_is_prefix(s, (size_t)cut));
        }
        assert_false(utf8_is_prefix(s, (size_t)n));
    }
}

static void ill_formed_bytes_give_maximal_subparts(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        size_t n;
        int want;
    } cases[] = {
        {"\x80", 1, -1},
        {"\xc0\xaf", 2, -1},
        {"\xc1\xbf", 2, -1},
        {"\xed\xa0\x80", 3, -1}, /* surrogate */
        {"\xf4\x90\x80\x80", 4, -1},
        {"\xf5\x80\x80\x80", 4, -1},
        {"\xe0\x80\x80", 3, -1},
        {"\xe1\x80\x41", 3, -2},
        {"\xf0\x91\x92\x41", 4, -3},
        {"\xf1\x80\xe1", 3, -2},
        {"\xff", 1, -1},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t code;
        assert_int_equal(utf8_decode(&code, cases[i].s, cases[i].n), cases[i].want);
        assert_int_equal(code, 0xfffd);
        assert_int_equal(utf8_is_valid(cases[i].s, cases[i].n), cases[i].n == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_of_every_scalar_value),
        cmocka_unit_test(ill_formed_bytes_give_maximal_subparts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
