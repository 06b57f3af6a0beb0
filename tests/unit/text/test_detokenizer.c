/* test_detokenizer.c: a stream of tokens becomes UTF-8, never half a character, never a lost tail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/detokenizer.h"
#include "unit/text/vocabulary_bytes.h"

static struct tokenizer *byte_level, *sentence_piece;

static int make_tokenizers(void **state)
{
    struct vocabulary_bytes b;
    (void)state;
    vb_byte_level(&b);
    if (vb_create(&b, &byte_level, NULL) != MR_OK)
        return -1;
    vb_release(&b);
    vb_sentence_piece(&b);
    if (vb_create(&b, &sentence_piece, NULL) != MR_OK)
        return -1;
    vb_release(&b);
    return 0;
}

static int free_tokenizers(void **state)
{
    (void)state;
    tokenizer_free(byte_level);
    tokenizer_free(sentence_piece);
    return 0;
}

/* The bytes one token at a time: each output whole characters, all outputs together `want`. */
static void check_bytes(const char *bytes, size_t n, const char *want)
{
    struct detokenizer d;
    struct string_buffer out;
    string_buffer_init(&out);
    detokenizer_init(&d, byte_level, false);
    for (size_t i = 0; i < n; i++) {
        const size_t before = out.n;
        detokenizer_push(&d, (unsigned char)bytes[i], &out);
        assert_true(out.n == before || utf8_is_valid(out.s + before, out.n - before));
    }
    detokenizer_finish(&d, &out);
    detokenizer_finish(&d, &out); /* nothing is left */
    assert_string_equal(out.s != NULL ? out.s : "", want);
    string_buffer_release(&out);
}

static void characters_split_over_tokens_come_out_whole(void **state)
{
    (void)state;
    static const char text[] = "\u4f60\u597d \U0001f468\u200d\U0001f469\u200d\U0001f467!";
    check_bytes(text, sizeof text - 1, text);
}

static void a_tail_cut_inside_a_character_is_one_replacement(void **state)
{
    (void)state;
    static const char text[] = "ab\U0001f468";
    for (size_t cut = 3; cut < 6; cut++)
        check_bytes(text, cut, "ab\ufffd");
}

static void each_ill_formed_subpart_is_one_replacement(void **state)
{
    (void)state;
#define BYTES(s) s, sizeof s - 1
    static const struct {
        const char *bytes;
        size_t n;
        const char *want;
    } cases[] = {
        {BYTES("\x81\x81\x81\x81"), "\ufffd\ufffd\ufffd\ufffd"},
        {BYTES("\xcc\xcc\xcc\xcc"), "\ufffd\ufffd\ufffd\ufffd"},
        {BYTES("\xe2\x82\x41"), "\ufffdA"},
        {BYTES("\xf0\x9f\x98\xe4\xbd\xa0"), "\ufffd\u4f60"},
        {BYTES("\xf0\x80\x80"), "\ufffd\ufffd\ufffd"},
        {BYTES("\xed\xa0\x80"), "\ufffd\ufffd\ufffd"},
        {BYTES("a\xff\xc3\xa9\xc3"), "a\ufffd\u00e9\ufffd"},
        {BYTES(""), ""},
    };
#undef BYTES
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_bytes(cases[i].bytes, cases[i].n, cases[i].want);
}

static void check_tokens(const struct tokenizer *t, bool special, const int32_t *id, size_t n, const char *want)
{
    struct detokenizer d;
    struct string_buffer out;
    string_buffer_init(&out);
    detokenizer_init(&d, t, special);
    for (size_t i = 0; i < n; i++)
        detokenizer_push(&d, id[i], &out);
    detokenizer_finish(&d, &out);
    assert_string_equal(out.s != NULL ? out.s : "", want);
    string_buffer_release(&out);
}

#define CHECK(t, special, want, ...)                                                                                           \
    check_tokens(t, special, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), want)

static void control_tokens_are_hidden_or_shown(void **state)
{
    (void)state;
    CHECK(byte_level, false, "ab<tool>", 261, 'a', 262, 'b', 263, -1, 100000);
    CHECK(byte_level, true, "<|im_start|>a<|im_end|>b<tool>", 261, 'a', 262, 'b', 263, -1, 100000);
}

static void the_blank_that_encoding_adds_is_taken_away(void **state)
{
    (void)state;
    CHECK(sentence_piece, false, "ab ab", 1, 264, 264);
    CHECK(sentence_piece, false, " a", 259, 263);
    CHECK(sentence_piece, false, "\u00e9", 3 + 0xc3, 3 + 0xa9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_split_over_tokens_come_out_whole),
        cmocka_unit_test(a_tail_cut_inside_a_character_is_one_replacement),
        cmocka_unit_test(each_ill_formed_subpart_is_one_replacement),
        cmocka_unit_test(control_tokens_are_hidden_or_shown),
        cmocka_unit_test(the_blank_that_encoding_adds_is_taken_away),
    };
    return cmocka_run_group_tests(tests, make_tokenizers, free_tokenizers);
}
