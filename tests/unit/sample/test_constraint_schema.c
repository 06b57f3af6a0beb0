/* test_constraint_schema.c: JSON schemas and their patterns; tests/sample/test_schema_masks.py has many more. */
#include "constraint_fixture.h"

static bool matches(const char *schema, const char *text) { return fixture_matches(CONSTRAINT_JSON_SCHEMA, schema, text); }

static void refuses(const char *schema, const char *word, const char *word2)
{
    fixture_refuses(CONSTRAINT_JSON_SCHEMA, schema, word, word2);
}

static void lengths_count_characters(void **state)
{
    (void)state;
    static const char two[] = "{\"type\":\"string\",\"minLength\":2,\"maxLength\":2}";
    assert_true(matches(two, "\"日本\""));
    assert_true(matches(two, "\"\\ud83d\\ude00\\n\""));
    assert_false(matches(two, "\"日\""));
    assert_false(matches(two, "\"abc\""));
    assert_false(matches("{\"type\":\"string\"}", "\"\\ud83d\""));
}

static void properties_come_in_the_schemas_order(void **state)
{
    (void)state;
    static const char ab[] =
        "{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"null\"},\"a\":{\"type\":\"null\"}},\"required\":[\"a\"]}";
    assert_true(matches(ab, "{\"b\":null,\"a\":null}"));
    assert_true(matches(ab, "{\"a\":null,\"c\":[1]}"));
    assert_false(matches(ab, "{\"a\":null,\"b\":null}"));
    assert_false(matches(ab, "{\"b\":null}"));
    assert_false(matches(ab, "{\"a\":null,\"a\":1}")); /* not as a further property */
}

static void bounds_of_numbers_hold_exactly(void **state)
{
    (void)state;
    static const char range[] = "{\"type\":\"number\",\"exclusiveMinimum\":-0.5,\"maximum\":12.25}";
    assert_true(matches(range, "12.25") && matches(range, "-0.49") && matches(range, "0") && matches(range, "9.999"));
    assert_false(matches(range, "12.2500001") || matches(range, "-0.5") || matches(range, "13") || matches(range, "-0"));
    static const char seven[] = "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":-20}";
    assert_true(matches(seven, "-14") && matches(seven, "0") && matches(seven, "7000000000000007"));
    assert_false(matches(seven, "-21") || matches(seven, "8") || matches(seven, "07") || matches(seven, "7.0"));
}

static void conjunctions_are_intersected(void **state)
{
    (void)state;
    static const char all[] = "{\"allOf\":[{\"type\":\"string\",\"pattern\":\"^a\"},{\"pattern\":\"z$\"},{\"maxLength\":3}]}";
    assert_true(matches(all, "\"az\"") && matches(all, "\"abz\""));
    assert_false(matches(all, "\"a\"") || matches(all, "\"abcz\""));
    refuses("{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "no finite", "text");
}

static void references_are_followed(void **state)
{
    (void)state;
    static const char list[] =
        "{\"$defs\":{\"n\":{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"$ref\":\"#/$defs/n\"},"
        "\"minItems\":1,\"maxItems\":2}},\"$ref\":\"#/$defs/n\"}";
    assert_true(matches(list, "[1,[2,[3]]]"));
    assert_false(matches(list, "[1,2]"));
    refuses("{\"$ref\":\"#/a\"}", "$ref", "leads nowhere");
    refuses("{\"$ref\":\"other.json\"}", "$ref", "outside");
    refuses("{\"properties\":{\"a\":{\"allOf\":[{\"$ref\":\"#/properties/a\"}]}}}", "#/properties/a", "itself");
}

static void unknown_keywords_are_refused_by_pointer_and_name(void **state)
{
    (void)state;
    refuses("{\"items\":{\"anyOf\":[{},{\"contains\":{}}]}}", "#/items/anyOf/1", "contains");
    refuses("{\"type\":\"array\",\"items\":[{}]}", "items", "schema");
    refuses("{\"type\":\"string\",\"pattern\":\"a(?=b)\"}", "pattern", "look-ahead");
    refuses("[]", "#", "object");
}

static void regular_expressions_match_the_whole_answer(void **state)
{
    (void)state;
    assert_true(fixture_matches(CONSTRAINT_REGEX, "a{2,}(b|)c??", "aaac"));
    assert_false(fixture_matches(CONSTRAINT_REGEX, "a", "ab"));
    assert_true(fixture_matches(CONSTRAINT_REGEX, "^(?:\\d+|x)$", "42"));
    assert_true(fixture_matches(CONSTRAINT_REGEX, "[^\\w\\s]\\u{1F600}\\x2e", "!😀."));
    assert_true(fixture_matches(CONSTRAINT_REGEX, "(^a|b)$|{x}", "{x}"));
    assert_false(fixture_matches(CONSTRAINT_REGEX, ".", "\n"));
    fixture_refuses(CONSTRAINT_REGEX, "a\\b", "byte", "word boundary");
    fixture_refuses(CONSTRAINT_REGEX, "(a)\\1", "byte", "back-reference");
    fixture_refuses(CONSTRAINT_REGEX, "((a{1,1000}){1,1000}){1,1000}", "needs", "states");
    fixture_refuses(CONSTRAINT_REGEX, "(a|b)*a(a|b){40}", "needs", "states");
    fixture_refuses(CONSTRAINT_REGEX, "a$b", "matches", "no text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_count_characters),
        cmocka_unit_test(properties_come_in_the_schemas_order),
        cmocka_unit_test(bounds_of_numbers_hold_exactly),
        cmocka_unit_test(conjunctions_are_intersected),
        cmocka_unit_test(references_are_followed),
        cmocka_unit_test(unknown_keywords_are_refused_by_pointer_and_name),
        cmocka_unit_test(regular_expressions_match_the_whole_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
