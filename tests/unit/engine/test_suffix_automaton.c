/* test_suffix_automaton.c: against a search through the whole text. */
#include "base/random.h"
#include "engine/suffix_automaton.h"
#include "unit/engine/engine_fixture.h"

enum {
    N = 600
};

/* Tokens of the longest suffix of text[0..n) that ends before n, too. */
static int longest(const int32_t *text, int n)
{
    int most = 0;
    for (int end = 1; end < n; end++) {
        int k = 0;
        while (k < end && text[end - 1 - k] == text[n - 1 - k])
            k++;
        most = k > most ? k : most;
    }
    return most;
}

/* Texts of few and of many different tokens, and one that repeats. */
static void each_match_is_the_longest(void **state)
{
    (void)state;
    static const int32_t kinds[] = {1, 2, 3, 50, 100000};
    int32_t text[N];
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        struct suffix_automaton *a = suffix_automaton_create(N);
        uint32_t counter[4] = {0}, word[4];
        const uint32_t key[2] = {1, (uint32_t)kind};
        assert_non_null(a);
        for (int round = 0; round < 2; round++, suffix_automaton_clear(a)) {
            for (int n = 1; n <= N; n++) {
                int next;
                counter[0]++;
                philox4x32(word, counter, key);
                text[n - 1] = (int32_t)(word[0] % (uint32_t)kinds[kind]) - 7;
                assert_true(suffix_automaton_push(a, text[n - 1]));
                const int match = suffix_automaton_match(a, &next);
                assert_int_equal(match, longest(text, n));
                if (match > 0) {
                    assert_true(next >= match && next < n);
                    assert_memory_equal(text + next - match, text + n - match, (size_t)match * sizeof *text);
                }
            }
            assert_false(suffix_automaton_push(a, 0));
            assert_int_equal(suffix_automaton_n(a), N);
        }
        suffix_automaton_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_match_is_the_longest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
