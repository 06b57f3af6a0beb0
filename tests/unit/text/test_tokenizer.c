/* test_tokenizer.c: special tokens, runs, borders and bytes, on small vocabularies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/text/vocabulary_bytes.h"

static struct tokenizer *make(void (*fill)(struct vocabulary_bytes *))
{
    struct vocabulary_bytes b;
    struct tokenizer *t;
    struct mr_error err;
    fill(&b);
    if (vb_create(&b, &t, &err) != MR_OK)
        fail_msg("%s", err.message);
    vb_release(&b);
    return t;
}

static void check_ids(const struct tokenizer *t, const struct text_run *run, int n_run, unsigned flags, const int32_t *want,
                      size_t n_want)
{
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(t, run, n_run, flags, &list, NULL), MR_OK);
    assert_int_equal(list.n, n_want);
    for (size_t i = 0; i < n_want; i++)
        assert_int_equal(list.id[i], want[i]);
    token_list_release(&list);
}

#define RUN(text, control)                                                                                                     \
    {                                                                                                                          \
        text, sizeof(text) - 1, control                                                                                        \
    }
#define CHECK(t, flags, runs, ...)                                                                                             \
    check_ids(t, runs, (int)(sizeof(runs) / sizeof *(runs)), flags, (const int32_t[]){__VA_ARGS__},                            \
              sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void merges_apply_in_their_order(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_byte_level);
    CHECK(t, 0, ((const struct text_run[]){RUN("hello hell", false)}), 258, 'o', 259);
    tokenizer_free(t);
}

static void control_tokens_match_in_the_templates_bytes_only(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_byte_level);
    CHECK(t, 0, ((const struct text_run[]){RUN("a<|im_end|>", true)}), 'a', 262);
    CHECK(t, 0, ((const struct text_run[]){RUN("a<|im_end|>", false)}), 'a', '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    CHECK(t, 0, ((const struct text_run[]){RUN("<|im_start|>", true), RUN("<|im_end|>", false), RUN("<|im_end|>", true)}), 261,
          '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', 262);
    tokenizer_free(t);
}

static void a_control_token_does_not_reach_into_the_callers_bytes(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_byte_level);
    CHECK(t, 0, ((const struct text_run[]){RUN("<|im_", true), RUN("end|>", false)}), '<', '|', 'i', 'm', '_', 'e', 'n', 'd',
          '|', '>');
    CHECK(t, 0, ((const struct text_run[]){RUN("<|im_", true), RUN("", false), RUN("end|>", true)}), 262);
    tokenizer_free(t);
}

static void user_defined_tokens_match_everywhere_unless_they_look_like_markers(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_byte_level);
    CHECK(t, 0, ((const struct text_run[]){RUN("<tool><|pad|>", false)}), 263, '<', '|', 'p', 'a', 'd', '|', '>');
    CHECK(t, 0, ((const struct text_run[]){RUN("<tool><|pad|>", true)}), 263, 264);
    tokenizer_free(t);
}

static void a_border_between_runs_is_no_border_between_tokens(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_byte_level);
    CHECK(t, 0, ((const struct text_run[]){RUN("h", true), RUN("e", false), RUN("ll", true), RUN("o", false)}), 258, 'o');
    CHECK(t, 0, ((const struct text_run[]){RUN("\xf0", true), RUN("\x9f\x98\x80", false)}), 260, 0x98, 0x80);
    tokenizer_free(t);
}

static void bos_is_added_once(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    struct tokenizer *t;
    vb_byte_level(&b);
    vb_bool(&b, "tokenizer.ggml.add_bos_token", true);
    assert_int_equal(vb_create(&b, &t, NULL), MR_OK);
    vb_release(&b);
    CHECK(t, ENCODE_ADD_BOS, ((const struct text_run[]){RUN("a", false)}), 261, 'a');
    CHECK(t, ENCODE_ADD_BOS, ((const struct text_run[]){RUN("<|im_start|>a", true)}), 261, 'a');
    CHECK(t, ENCODE_ADD_BOS, ((const struct text_run[]){RUN("", false)}), 261);
    CHECK(t, 0, ((const struct text_run[]){RUN("a", false)}), 'a');
    assert_true(tokenizer_adds_bos(t));
    tokenizer_free(t);
}

static void bytes_that_are_not_utf8_survive(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_byte_level);
    CHECK(t, 0, ((const struct text_run[]){RUN("he\xff\xf0\x9f\x80zhe\xe4\xbd", false)}), 256, 0xff, 260, 0x80, 'z', 256, 0xe4,
          0xbd);
    tokenizer_free(t);
}

static void ends_are_known_by_id_and_by_spelling(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    struct tokenizer *t;
    vb_byte_level(&b);
    vb_int(&b, "tokenizer.ggml.eos_token_id", 'z');
    vb_int(&b, "tokenizer.ggml.eot_token_id", 'y');
    vb_int(&b, "tokenizer.ggml.eom_token_id", 'x');
    assert_int_equal(vb_create(&b, &t, NULL), MR_OK);
    vb_release(&b);
    for (int32_t id = -1; id <= tokenizer_n_vocab(t); id++)
        assert_int_equal(tokenizer_is_end(t, id), id == 262 || (id >= 'x' && id <= 'z'));
    assert_int_equal(tokenizer_eos(t), 'z');
    tokenizer_free(t);
}

static void pieces_and_spellings(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_byte_level);
    const struct gguf_string piece = tokenizer_piece(t, 259, false), spelling = tokenizer_spelling(t, 259);
    assert_int_equal(piece.n, 5);
    assert_memory_equal(piece.s, " hell", 5);
    assert_int_equal(spelling.n, 6);
    assert_memory_equal(spelling.s, "\u0120hell", 6);
    assert_int_equal(tokenizer_piece(t, 261, false).n, 0);
    assert_int_equal(tokenizer_piece(t, 261, true).n, 12);
    assert_int_equal(tokenizer_piece(t, 263, false).n, 6);
    assert_int_equal(tokenizer_piece(t, -1, true).n, 0);
    assert_int_equal(tokenizer_piece(t, 265, true).n, 0);
    assert_int_equal(tokenizer_find(t, "<|im_end|>", 10), 262);
    assert_int_equal(tokenizer_find(t, "nothing", 7), -1);
    assert_true(tokenizer_is_control(t, 262));
    assert_false(tokenizer_is_control(t, 263));
    tokenizer_free(t);
}

static void sentence_piece_merges_by_score_and_falls_back_to_bytes(void **state)
{
    (void)state;
    struct tokenizer *t = make(vb_sentence_piece);
    CHECK(t, ENCODE_ADD_BOS, ((const struct text_run[]){RUN("ab", false)}), 1, 264);
    CHECK(t, 0, ((const struct text_run[]){RUN("abab", false)}), 263, 265, 261);
    CHECK(t, 0, ((const struct text_run[]){RUN("a\xc3\xa9", false)}), 263, 3 + 0xc3, 3 + 0xa9);
    CHECK(t, 0, ((const struct text_run[]){RUN("a\xff", false)}), 263, 3 + 0xff);
    CHECK(t, 0, ((const struct text_run[]){RUN("<s>a", true)}), 1, 263);
    CHECK(t, 0, ((const struct text_run[]){RUN("\xe2\x96\x81\x61", false)}), 259, 263); /* U+2581 is a blank */
    CHECK(t, 0, ((const struct text_run[]){RUN("\xe2\x96", false), RUN("\x81<s>", true)}), 259, 259, 1);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_apply_in_their_order),
        cmocka_unit_test(control_tokens_match_in_the_templates_bytes_only),
        cmocka_unit_test(a_control_token_does_not_reach_into_the_callers_bytes),
        cmocka_unit_test(user_defined_tokens_match_everywhere_unless_they_look_like_markers),
        cmocka_unit_test(a_border_between_runs_is_no_border_between_tokens),
        cmocka_unit_test(bos_is_added_once),
        cmocka_unit_test(bytes_that_are_not_utf8_survive),
        cmocka_unit_test(ends_are_known_by_id_and_by_spelling),
        cmocka_unit_test(pieces_and_spellings),
        cmocka_unit_test(sentence_piece_merges_by_score_and_falls_back_to_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
