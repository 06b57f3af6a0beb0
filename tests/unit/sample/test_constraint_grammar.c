/* test_constraint_grammar.c: GBNF: what it means and what is refused. */
#include "constraint_fixture.h"

static bool matches(const char *grammar, const char *text) { return fixture_matches(CONSTRAINT_GRAMMAR, grammar, text); }

static void refuses(const char *grammar, const char *word, const char *word2)
{
    fixture_refuses(CONSTRAINT_GRAMMAR, grammar, word, word2);
}

static void rules_call_each_other(void **state)
{
    (void)state;
    static const char sum[] = "root ::= term (\"+\" term)* # a sum\nterm ::= [0-9]+ |\n  \"(\" root \")\"\n";
    assert_true(matches(sum, "1+(23+4)+5"));
    assert_true(matches(sum, "((((7))))"));
    assert_false(matches(sum, "(1+2"));
    assert_false(matches(sum, "1+"));
}

static void repetitions_are_counted(void **state)
{
    (void)state;
    assert_true(matches("root ::= \"ab\"{2,3}", "ababab"));
    assert_false(matches("root ::= \"ab\"{2,3}", "ab"));
    assert_false(matches("root ::= \"ab\"{2,3}", "abababab"));
    assert_true(matches("root ::= [a-c]{0,1000} \"x\"", "abcx"));
    assert_true(matches("root ::= (\"ab\" | \"c\"){50,} \"!\"", "ccccccccccccccccccccccccccccccccccccccccccccccccccabc!"));
    assert_false(matches("root ::= (\"ab\" | \"c\"){50,} \"!\"", "abc!"));
    assert_true(matches("root ::= x{40,60}\nx ::= \"a\"? \"b\"?", "ab")); /* most of the forty are empty */
}

static void empty_alternatives_are_allowed(void **state)
{
    (void)state;
    assert_true(matches("root ::= \"a\" ws \"b\"\nws ::= | \" \" ws", "a   b"));
    assert_true(matches("root ::= \"a\" ws \"b\"\nws ::= | \" \" ws", "ab"));
    assert_true(matches("root ::= (a b)*\na ::= \"x\"?\nb ::= \"y\"?", "xyyx"));
    assert_true(matches("root ::= \"\"", ""));
}

static void characters_are_code_points(void **state)
{
    (void)state;
    assert_true(matches("root ::= [α-ω]+ . [^a-z\\n]", "λογος日😀"));
    assert_false(matches("root ::= [^a-z]", "a"));
    assert_true(matches("root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\"", "Aé😀\t\"\\"));
    assert_true(matches("root ::= [\\]\\[-]+", "[]-"));
}

static void an_ambiguous_grammar_keeps_all_readings(void **state)
{
    (void)state;
    static const char palindrome[] = "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\"?";
    assert_true(matches(palindrome, "abacaba"));
    assert_true(matches(palindrome, "abba"));
    assert_false(matches(palindrome, "abbb"));
}

static void long_right_recursion_needs_no_stack(void **state)
{
    (void)state;
    char text[5001];
    memset(text, 'a', 5000);
    text[5000] = '\0';
    assert_true(matches("root ::= \"a\" root | \"a\"", text));
    text[4999] = 'b';
    assert_false(matches("root ::= \"a\" root | \"a\"", text));
}

static void too_deep_nesting_is_not_allowed_but_has_a_way_out(void **state)
{
    (void)state;
    char text[700];
    struct fixture f = fixture_open(CONSTRAINT_GRAMMAR, "root ::= \"[\" root? \"]\"");
    size_t depth;
    memset(text, '[', sizeof text);
    assert_int_equal(constraint_accept_bytes(f.s, text, sizeof text, &depth, NULL), MR_BAD_INPUT);
    assert_in_range(depth, 400, 512);
    assert_int_equal(constraint_accept_bytes(f.s, text, depth, NULL, NULL), MR_OK);
    assert_false(fixture_allows(&f, '['));
    memset(text, ']', sizeof text);
    assert_int_equal(constraint_accept_bytes(f.s, text, depth, NULL, NULL), MR_OK);
    assert_true(constraint_must_end(f.s));
    fixture_close(&f);
}

static void too_many_readings_are_an_error(void **state)
{
    (void)state;
    struct fixture f =
        fixture_open(CONSTRAINT_GRAMMAR,
                     "root ::= \"a\" root \"x\" | \"a\" p \"y\" | \"b\"\np ::= \"a\" root \"z\" | \"a\" p \"w\" | \"c\"");
    enum mr_status status = MR_OK;
    for (int i = 0; i < 12 && status == MR_OK; i++)
        status = constraint_accept(f.s, 'a', NULL);
    assert_int_equal(status, MR_FULL);
    fixture_close(&f);
}

static void left_recursion_is_refused(void **state)
{
    (void)state;
    refuses("root ::= root \"a\" | \"b\"", "root", "left-recursive");
    refuses("root ::= a \"x\"\na ::= \"y\"? b\nb ::= a | \"z\"", "'", "left-recursive");
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    refuses("root ::= \"a\"\nb ::= nowhere", "line 2", "nowhere");
    refuses("start ::= \"a\"", "no rule", "root");
    refuses("root ::= \"a\"\nroot ::= \"b\"", "line 2", "twice");
    refuses("root ::= \"a", "line 1", "not closed");
    refuses("root ::= [a-", "line 1", "class");
    refuses("root ::= (\"a\"", "line 1", "parenthesis");
    refuses("root ::= \"a\"{3,2}", "line 1", "repetition");
    refuses("root ::= \"a\"{99999999}", "line 1", "1000000");
    refuses("root ::= \"\\q\"", "line 1", "escape");
    refuses("root ::= [z-a]", "line 1", "range");
    refuses("root ::= <[1000]>", "line 1", "token");
    refuses("root ::= \"a\" root", "no finite", "text");
    refuses("root \"a\"", "line 1", "::=");
    refuses("", "no rule", "root");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_call_each_other),
        cmocka_unit_test(repetitions_are_counted),
        cmocka_unit_test(empty_alternatives_are_allowed),
        cmocka_unit_test(characters_are_code_points),
        cmocka_unit_test(an_ambiguous_grammar_keeps_all_readings),
        cmocka_unit_test(long_right_recursion_needs_no_stack),
        cmocka_unit_test(too_deep_nesting_is_not_allowed_but_has_a_way_out),
        cmocka_unit_test(too_many_readings_are_an_error),
        cmocka_unit_test(left_recursion_is_refused),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
