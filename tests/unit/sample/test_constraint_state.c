/* test_constraint_state.c: masks and states, forwards and back. */
#include "constraint_fixture.h"

static void only_the_end_follows_a_whole_value(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_JSON_SCHEMA, "{\"type\":\"object\",\"additionalProperties\":false}");
    fixture_read(&f, "{}");
    assert_true(constraint_must_end(f.s));
    assert_true(fixture_allows(&f, TOKEN_END));
    assert_int_equal(fixture_n_allowed(&f), 1);
    assert_int_equal(constraint_accept(f.s, TOKEN_END, NULL), MR_OK);
    assert_int_equal(constraint_accept(f.s, TOKEN_END, NULL), MR_BAD_INPUT);
    assert_int_equal(constraint_accept(f.s, ' ', NULL), MR_BAD_INPUT);
    fixture_close(&f);
}

static void the_end_is_one_choice_where_more_may_follow(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "a+");
    assert_false(fixture_allows(&f, TOKEN_END));
    fixture_read(&f, "a");
    assert_true(fixture_allows(&f, TOKEN_END) && fixture_allows(&f, 'a'));
    assert_true(constraint_can_end(f.s) && !constraint_must_end(f.s));
    fixture_close(&f);
}

static void control_tokens_and_tokens_without_bytes_are_never_allowed(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "a*");
    assert_true(fixture_allows(&f, 'a'));
    assert_false(fixture_allows(&f, TOKEN_CONTROL));
    for (int i = 0; i < (int)(sizeof fixture_words / sizeof *fixture_words); i++)
        assert_false(fixture_allows(&f, TOKEN_WORDS + i));
    assert_int_equal(constraint_accept(f.s, TOKEN_CONTROL, NULL), MR_BAD_INPUT);
    assert_int_equal(constraint_accept(f.s, -1, NULL), MR_BAD_INPUT);
    assert_int_equal(constraint_accept(f.s, f.trie->n_token, NULL), MR_BAD_INPUT);
    fixture_close(&f);
}

static void tokens_of_equal_bytes_are_allowed_together(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "abc?");
    assert_true(fixture_allows(&f, TOKEN_WORDS) && fixture_allows(&f, TOKEN_WORDS + 8)); /* both "ab" */
    assert_int_equal(fixture_n_allowed(&f), 4);
    fixture_close(&f);
}

static void a_character_may_come_in_pieces(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "日");
    assert_true(fixture_allows(&f, 0xe6) && fixture_allows(&f, TOKEN_WORDS + 6) && fixture_allows(&f, TOKEN_WORDS + 7));
    assert_int_equal(fixture_n_allowed(&f), 3);
    assert_int_equal(constraint_accept(f.s, TOKEN_WORDS + 6, NULL), MR_OK);
    assert_int_equal(fixture_n_allowed(&f), 1);
    assert_int_equal(constraint_accept(f.s, 0xa5, NULL), MR_OK);
    assert_true(constraint_must_end(f.s));
    fixture_close(&f);
}

static void what_is_refused_changes_nothing(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "abcd");
    size_t n_read;
    assert_int_equal(constraint_accept_bytes(f.s, "abx", 3, &n_read, NULL), MR_BAD_INPUT);
    assert_int_equal(n_read, 2);
    assert_int_equal(constraint_accept(f.s, TOKEN_END, NULL), MR_BAD_INPUT);
    assert_int_equal(constraint_undo(f.s, 1, NULL), MR_BAD_INPUT);
    fixture_read(&f, "abcd");
    fixture_close(&f);
}

static void tokens_are_taken_back(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "(ab|cd)*");
    for (int i = 0; i < 100; i++) {
        assert_int_equal(constraint_accept(f.s, 'a', NULL), MR_OK);
        assert_int_equal(constraint_accept(f.s, 'b', NULL), MR_OK);
    }
    assert_int_equal(constraint_undo(f.s, CONSTRAINT_UNDO_MAX + 1, NULL), MR_BAD_INPUT);
    assert_int_equal(constraint_accept(f.s, 'x', NULL), MR_BAD_INPUT);
    assert_int_equal(constraint_undo(f.s, CONSTRAINT_UNDO_MAX - 1, NULL), MR_OK);
    assert_int_equal(fixture_n_allowed(&f), 1); /* behind an 'a' */
    assert_true(fixture_allows(&f, 'b'));
    assert_int_equal(constraint_undo(f.s, 1, NULL), MR_OK);
    assert_true(fixture_allows(&f, 'c'));
    assert_int_equal(constraint_undo(f.s, 1, NULL), MR_BAD_INPUT);
    fixture_close(&f);
}

static void the_end_is_taken_back(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "a+");
    fixture_read(&f, "a");
    assert_int_equal(constraint_accept(f.s, TOKEN_END, NULL), MR_OK);
    assert_int_equal(fixture_n_allowed(&f), 1);
    assert_int_equal(constraint_undo(f.s, 1, NULL), MR_OK);
    assert_true(fixture_allows(&f, 'a'));
    fixture_close(&f);
}

static void copies_go_their_own_way(void **state)
{
    (void)state;
    struct fixture f = fixture_open(CONSTRAINT_JSON_SCHEMA, "{}");
    struct constraint_state *copy;
    fixture_read(&f, "{\"a\":[1");
    assert_int_equal(constraint_state_copy(&copy, f.s, NULL), MR_OK);
    fixture_read(&f, "]}");
    assert_true(constraint_must_end(f.s));
    assert_int_equal(constraint_accept_bytes(copy, ",2", 2, NULL, NULL), MR_OK);
    assert_false(constraint_can_end(copy));
    assert_int_equal(constraint_undo(copy, 2, NULL), MR_OK);
    assert_int_equal(constraint_accept_bytes(copy, "null", 4, NULL, NULL), MR_OK);
    constraint_state_free(copy);
    fixture_close(&f);
}

static void forced_text_is_told_as_far_as_there_is_no_choice(void **state)
{
    (void)state;
    char text[32];
    struct fixture f = fixture_open(CONSTRAINT_REGEX, "(the quick brown|the quiet) fox!");
    assert_int_equal(constraint_forced(f.s, text, sizeof text), 7);
    assert_memory_equal(text, "the qui", 7);
    fixture_read(&f, "the quic");
    assert_int_equal(constraint_forced(f.s, text, 5), 5);
    assert_int_equal(constraint_forced(f.s, text, sizeof text), 12);
    assert_memory_equal(text, "k brown fox!", 12);
    fixture_read(&f, "k brown fox!");
    assert_int_equal(constraint_forced(f.s, text, sizeof text), 0);
    fixture_close(&f);
}

static void every_mask_is_what_can_be_accepted(void **state)
{
    (void)state;
    static const char text[] = "{\"ab\": \"x日\\n\\u00e9\", \"c\": [12, -3.5e+1, {\"d\":{}}],\n  \"e\": true}";
    struct fixture f = fixture_open(CONSTRAINT_JSON_SCHEMA, "{}");
    for (size_t i = 0; i < sizeof text - 1; i++) {
        for (int32_t token = 0; token < f.trie->n_token; token++) {
            const bool allowed = fixture_allows(&f, token);
            assert_int_equal(constraint_accept(f.s, token, NULL) == MR_OK, allowed);
            if (allowed)
                assert_int_equal(constraint_undo(f.s, 1, NULL), MR_OK);
        }
        assert_int_equal(constraint_accept(f.s, (unsigned char)text[i], NULL), MR_OK);
    }
    assert_true(constraint_must_end(f.s));
    fixture_close(&f);
}

static void warming_changes_no_mask(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":9},\"maxItems\":70}";
    struct fixture cold = fixture_open(CONSTRAINT_JSON_SCHEMA, schema), warm = fixture_open(CONSTRAINT_JSON_SCHEMA, schema);
    assert_int_equal(mask_cache_warm(warm.masks, MASK_CACHE_WARM_WORK, NULL), MR_OK);
    assert_true(mask_cache_bytes(warm.masks) > mask_cache_bytes(cold.masks));
    for (const char *c = "[\"ab\", \"abcdefghi\", \"日日\"]"; *c != '\0'; c++) {
        for (int32_t token = 0; token < cold.trie->n_token; token++)
            assert_int_equal(fixture_allows(&cold, token), fixture_allows(&warm, token));
        assert_int_equal(constraint_accept(cold.s, (unsigned char)*c, NULL), MR_OK);
        assert_int_equal(constraint_accept(warm.s, (unsigned char)*c, NULL), MR_OK);
    }
    fixture_close(&cold);
    fixture_close(&warm);
}

static void a_vocabulary_without_the_bytes_is_an_error(void **state)
{
    (void)state;
    static const struct token_piece piece[] = {{"b", 1, false, false}, {"<end>", 5, false, true}};
    static const struct constraint_source source = {.kind = CONSTRAINT_REGEX, .text = {"b?a", 3}};
    struct constraint *c;
    struct token_trie *t;
    struct mask_cache *m;
    struct constraint_state *s;
    const uint64_t *mask;
    assert_int_equal(constraint_create(&c, &source, NULL), MR_OK);
    assert_int_equal(token_trie_create(&t, piece, 2, NULL), MR_OK);
    assert_int_equal(mask_cache_create(&m, c, t, NULL), MR_OK);
    assert_int_equal(constraint_state_create(&s, m, NULL), MR_OK);
    assert_int_equal(constraint_mask(&mask, s, NULL), MR_OK);
    assert_int_equal(constraint_accept(s, 0, NULL), MR_OK);
    assert_int_equal(constraint_mask(&mask, s, NULL), MR_NO_SUPPORT);
    constraint_state_free(s);
    mask_cache_free(m);
    token_trie_free(t);
    constraint_free(c);
}

static void choices_are_the_whole_answer(void **state)
{
    (void)state;
    static const struct constraint_text choice[] = {{"yes", 3}, {"no", 2}, {"yes, of course", 14}}, empty[] = {{"", 0}};
    struct constraint_source source = {.kind = CONSTRAINT_CHOICE, .choice = choice, .n_choice = 3};
    struct fixture f;
    assert_int_equal(constraint_create(&f.c, &source, NULL), MR_OK);
    f.trie = fixture_trie();
    assert_int_equal(mask_cache_create(&f.masks, f.c, f.trie, NULL), MR_OK);
    assert_int_equal(constraint_state_create(&f.s, f.masks, NULL), MR_OK);
    assert_int_equal(fixture_n_allowed(&f), 2);
    fixture_read(&f, "yes");
    assert_int_equal(fixture_n_allowed(&f), 2);
    fixture_close(&f);
    source.choice = empty;
    source.n_choice = 1;
    assert_int_equal(constraint_create(&f.c, &source, NULL), MR_BAD_INPUT);
    source.n_choice = 0;
    assert_int_equal(constraint_create(&f.c, &source, NULL), MR_BAD_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_end_follows_a_whole_value),
        cmocka_unit_test(the_end_is_one_choice_where_more_may_follow),
        cmocka_unit_test(control_tokens_and_tokens_without_bytes_are_never_allowed),
        cmocka_unit_test(tokens_of_equal_bytes_are_allowed_together),
        cmocka_unit_test(a_character_may_come_in_pieces),
        cmocka_unit_test(what_is_refused_changes_nothing),
        cmocka_unit_test(tokens_are_taken_back),
        cmocka_unit_test(the_end_is_taken_back),
        cmocka_unit_test(copies_go_their_own_way),
        cmocka_unit_test(forced_text_is_told_as_far_as_there_is_no_choice),
        cmocka_unit_test(every_mask_is_what_can_be_accepted),
        cmocka_unit_test(warming_changes_no_mask),
        cmocka_unit_test(a_vocabulary_without_the_bytes_is_an_error),
        cmocka_unit_test(choices_are_the_whole_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
