/* test_stop_matcher.c: output never holds a stop string, and only what may be the start of one is held back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "text/detokenizer.h"

/* Feed the text in pieces of `step` bytes. */
static bool feed(const char *const *stop, int n_stop, const char *text, size_t step, struct string_buffer *out)
{
    struct stop_matcher *m;
    bool found = false;
    const size_t n = strlen(text);
    string_buffer_init(out);
    assert_int_equal(stop_matcher_create(&m, stop, n_stop, NULL), MR_OK);
    for (size_t at = 0; at < n && !found; at += step)
        found = stop_matcher_push(m, text + at, n - at < step ? n - at : step, out);
    stop_matcher_finish(m, out);
    stop_matcher_free(m);
    return found;
}

static void the_text_ends_before_the_stop_string_whatever_the_pieces(void **state)
{
    (void)state;
    static const struct {
        const char *stop[4];
        int n_stop;
        const char *text, *want;
        bool found;
    } cases[] = {
        {{"own fo"}, 1, "the brown fox jumps", "the br", true},
        {{"fox jumps over"}, 1, "the brown fox jumps", "the brown fox jumps", false},
        {{"brown"}, 1, "the brown fox", "the ", true},
        {{"aab"}, 1, "aaaab", "aa", true},
        {{"abcd", "bc"}, 2, "xabcd", "xa", true},
        {{"abc", "bc"}, 2, "xabc", "x", true},
        {{"abac"}, 1, "ababac", "ab", true},
        {{"x", "yy", "zzz"}, 3, "y zz yy x", "y zz ", true},
        {{"\n\nUser:", "\n\n"}, 2, "a\n\nUser:", "a", true},
        {{"\u4f60"}, 1, "\u4f61\u4f60", "\u4f61", true},
        {{"a"}, 1, "a", "", true},
        {{NULL}, 0, "anything", "anything", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            struct string_buffer out;
            assert_int_equal(feed(cases[i].stop, cases[i].n_stop, cases[i].text, step, &out), cases[i].found);
            assert_string_equal(out.s != NULL ? out.s : "", cases[i].want);
            string_buffer_release(&out);
        }
    }
}

static void only_the_longest_possible_start_is_held(void **state)
{
    (void)state;
    static const char *const stop[] = {"own fo"};
    struct stop_matcher *m;
    struct string_buffer out;
    string_buffer_init(&out);
    assert_int_equal(stop_matcher_create(&m, stop, 1, NULL), MR_OK);
    assert_false(stop_matcher_push(m, "the bro", 7, &out));
    assert_string_equal(out.s, "the br");
    assert_false(stop_matcher_push(m, "ox o", 4, &out));
    assert_string_equal(out.s, "the broox ");
    assert_false(stop_matcher_push(m, "wn f", 4, &out));
    assert_string_equal(out.s, "the broox ");
    stop_matcher_finish(m, &out);
    assert_string_equal(out.s, "the broox own f");
    string_buffer_release(&out);
    stop_matcher_free(m);
}

static void nothing_comes_after_a_match(void **state)
{
    (void)state;
    static const char *const stop[] = {"x"};
    struct stop_matcher *m;
    struct string_buffer out;
    string_buffer_init(&out);
    assert_int_equal(stop_matcher_create(&m, stop, 1, NULL), MR_OK);
    assert_true(stop_matcher_push(m, "axb", 3, &out));
    assert_true(stop_matcher_push(m, "c", 1, &out));
    stop_matcher_finish(m, &out);
    assert_string_equal(out.s, "a");
    string_buffer_release(&out);
    stop_matcher_free(m);
}

static void an_empty_stop_string_is_refused(void **state)
{
    (void)state;
    static const char *const stop[] = {"x", ""};
    struct stop_matcher *m;
    struct mr_error err;
    assert_int_equal(stop_matcher_create(&m, stop, 2, &err), MR_BAD_INPUT);
    assert_null(m);
    assert_string_equal(err.message, "stop string 2 is empty");
}

/* Processor time for n bytes of 'a' against stop strings that nearly match. */
static clock_t time_near_matches(size_t n)
{
    static char near[4][201];
    const char *stop[4];
    for (int i = 0; i < 4; i++) {
        memset(near[i], 'a', 200);
        near[i][199] = (char)('b' + i);
        stop[i] = near[i];
    }
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, 'a', n);
    text[n] = '\0';
    struct string_buffer out;
    const clock_t start = clock();
    assert_false(feed(stop, 4, text, 4, &out));
    const clock_t taken = clock() - start;
    assert_int_equal(out.n, n);
    string_buffer_release(&out);
    free(text);
    return taken;
}

/* The median of ratios: one slow moment of the machine decides nothing. */
static void time_grows_with_the_text_only(void **state)
{
    (void)state;
    int good = 0;
    for (int i = 0; i < 5; i++) {
        const clock_t one = time_near_matches(1 << 21), two = time_near_matches(1 << 22);
        good += (double)two <= 2.5 * (double)one;
    }
    assert_true(good >= 3);
}

static void a_long_stop_string_works(void **state)
{
    (void)state;
    enum {
        N = 1 << 20
    };
    char *text = malloc(N + 2);
    assert_non_null(text);
    text[0] = 'x';
    memset(text + 1, 'a', N);
    text[N + 1] = '\0';
    const char *stop[] = {text + 1};
    struct string_buffer out;
    assert_true(feed(stop, 1, text, 1000, &out));
    assert_string_equal(out.s, "x");
    string_buffer_release(&out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_ends_before_the_stop_string_whatever_the_pieces),
        cmocka_unit_test(only_the_longest_possible_start_is_held),
        cmocka_unit_test(nothing_comes_after_a_match),
        cmocka_unit_test(an_empty_stop_string_is_refused),
        cmocka_unit_test(time_grows_with_the_text_only),
        cmocka_unit_test(a_long_stop_string_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
