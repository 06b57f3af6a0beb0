/* test_vocabulary_damage.c: a vocabulary that is wrong is refused with the key and the value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "unit/text/vocabulary_bytes.h"

/* The file is refused with a message that holds both words. */
static void check_refused(struct vocabulary_bytes *b, enum mr_status want, const char *key, const char *value)
{
    struct tokenizer *t;
    struct mr_error err = {""};
    const enum mr_status status = vb_create(b, &t, &err);
    assert_int_equal(status, want);
    assert_null(t);
    if (strstr(err.message, key) == NULL || strstr(err.message, value) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", err.message, key, value);
    vb_release(b);
}

static void special_ids_outside_the_vocabulary(void **state)
{
    (void)state;
    static const char *const key[] = {"bos", "eos", "eot", "eom", "unknown", "seperator", "cls"};
    static const uint32_t value[] = {265, 49152, 4294967295};
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        for (size_t j = 0; j < sizeof value / sizeof *value; j++) {
            struct vocabulary_bytes b;
            char name[64], text[16];
            snprintf(name, sizeof name, "tokenizer.ggml.%s_token_id", key[i]);
            snprintf(text, sizeof text, "%u", value[j]);
            vb_byte_level(&b);
            if (i == 0) { /* the vocabulary has one */
                string_buffer_clear(&b.more);
                b.n_more = 0;
            }
            vb_int(&b, name, value[j]);
            check_refused(&b, MR_BAD_FORMAT, name, text);
        }
    }
}

static void byte_tokens_with_bad_digits(void **state)
{
    (void)state;
    static const char *const spelling[] = {"<0xZZ>", "<0x-1>", "<0x100>", "<0x1>", "<0x>", "0x41", "<0xab>"};
    for (size_t i = 0; i < sizeof spelling / sizeof *spelling; i++) {
        struct vocabulary_bytes b;
        vb_sentence_piece(&b);
        vb_token(&b, spelling[i], TOKEN_BYTE, 0);
        check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.tokens", spelling[i]);
    }
}

static void arrays_shorter_or_longer_than_the_tokens(void **state)
{
    (void)state;
    for (int longer = 0; longer < 2; longer++) {
        struct vocabulary_bytes b;
        vb_sentence_piece(&b);
        if (longer) {
            put_u32(&b.score, 0);
            b.n_score++;
        } else {
            b.score.n -= 4;
            b.n_score--;
        }
        check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.scores", longer ? "267" : "265");
        vb_sentence_piece(&b);
        b.type.n -= 4;
        b.n_type--;
        check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.token_type", "265");
    }
}

static void types_and_scores_out_of_range(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    vb_sentence_piece(&b);
    vb_token(&b, "x", (enum token_type)7, 0);
    check_refused(&b, MR_BAD_FORMAT, "token 266", "type 7");
    vb_sentence_piece(&b);
    vb_token(&b, "x", (enum token_type)0xffffffff, 0);
    check_refused(&b, MR_BAD_FORMAT, "token 266", "type -1");
    vb_sentence_piece(&b);
    const uint32_t nan_bits = 0x7fc00000;
    float nan_score;
    memcpy(&nan_score, &nan_bits, sizeof nan_score);
    vb_token(&b, "x", TOKEN_NORMAL, nan_score);
    check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.scores", "token 266");
}

static void wrong_merges(void **state)
{
    (void)state;
    static const struct {
        const char *merge, *what;
    } cases[] = {
        {"he", "a blank between them"},     {"", "a blank between them"},       {" ", "a blank between them"},
        {"h ", "a blank between them"},     {" h", "a blank between them"},     {"foo bar", "not in the vocabulary"},
        {"h bar", "not in the vocabulary"}, {"foo h", "not in the vocabulary"}, {"h h", "gives no token"},
        {"h  e", "not in the vocabulary"},  {"h e l", "not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_bytes b;
        vb_byte_level(&b);
        vb_merge(&b, cases[i].merge);
        check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.merges': merge 5", cases[i].what);
    }
}

static void tokens_that_repeat_or_are_too_long(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    vb_byte_level(&b);
    vb_token(&b, "he", TOKEN_NORMAL, 0);
    check_refused(&b, MR_BAD_FORMAT, "token 265 repeats token 256", "'he'");
    static char longest[TOKEN_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    vb_byte_level(&b);
    vb_token(&b, longest, TOKEN_NORMAL, 0);
    check_refused(&b, MR_BAD_FORMAT, "token 265", "4097");
}

static void no_tokens_no_scores_no_merges_no_unknown(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    vb_init(&b, "llama", NULL);
    check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.tokens", "0 tokens");
    vb_byte_level(&b);
    b.n_merge = 0;
    check_refused(&b, MR_NOT_FOUND, "tokenizer.ggml.merges", "");
    vb_sentence_piece(&b);
    b.n_score = 0;
    check_refused(&b, MR_NOT_FOUND, "tokenizer.ggml.scores", "");
    vb_init(&b, "bert", NULL);
    vb_token(&b, "a", TOKEN_NORMAL, 0);
    check_refused(&b, MR_NOT_FOUND, "tokenizer.ggml.unknown_token_id", "");
    vb_init(&b, "t5", NULL);
    vb_token(&b, "a", TOKEN_NORMAL, 0);
    check_refused(&b, MR_NOT_FOUND, "tokenizer.ggml.unknown_token_id", "");
}

static void unknown_kinds_and_pre_tokenizers(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    vb_init(&b, "rwkv", NULL);
    vb_token(&b, "a", TOKEN_NORMAL, 0);
    check_refused(&b, MR_NO_SUPPORT, "tokenizer.ggml.model", "'rwkv'");
    vb_byte_level(&b);
    b.pre = "gpt-17";
    check_refused(&b, MR_NO_SUPPORT, "tokenizer.ggml.pre", "'gpt-17'");
    vb_byte_level(&b);
    b.pre = NULL;
    check_refused(&b, MR_NOT_FOUND, "tokenizer.ggml.pre", "");
}

static void bos_is_asked_for_but_missing(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    vb_init(&b, "llama", NULL);
    vb_token(&b, "a", TOKEN_NORMAL, 0);
    vb_bool(&b, "tokenizer.ggml.add_bos_token", true);
    check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.add_bos_token", "bos_token_id");
}

/* No id is taken for granted. */
static void a_vocabulary_of_one_token_without_ids_works(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    struct tokenizer *t;
    struct token_list list = {0};
    vb_init(&b, "llama", NULL);
    vb_token(&b, "a", TOKEN_NORMAL, 0);
    assert_int_equal(vb_create(&b, &t, NULL), MR_OK);
    const struct text_run run = {"aa\xff", 3, true};
    assert_int_equal(tokenizer_encode(t, &run, 1, ENCODE_ADD_BOS, &list, NULL), MR_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), -1);
    token_list_release(&list);
    tokenizer_free(t);
    vb_release(&b);
}

static void damaged_charsmaps(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } cases[] = {
        {"\1\0\0\0\0", 5}, {"\xff\xff\xff\xff\0\0", 6}, {"\4\0\0\0\0\0\0\0", 8}, {"\4\0\0\0\0\0\0\0x", 9}, {"\0\0\0\0\0", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_bytes b;
        vb_sentence_piece(&b);
        b.model = "t5";
        put_array(&b.more, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, cases[i].n);
        string_buffer_add(&b.more, cases[i].bytes, cases[i].n);
        b.n_more++;
        check_refused(&b, MR_BAD_FORMAT, "tokenizer.ggml.precompiled_charsmap", "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_ids_outside_the_vocabulary),
        cmocka_unit_test(byte_tokens_with_bad_digits),
        cmocka_unit_test(arrays_shorter_or_longer_than_the_tokens),
        cmocka_unit_test(types_and_scores_out_of_range),
        cmocka_unit_test(wrong_merges),
        cmocka_unit_test(tokens_that_repeat_or_are_too_long),
        cmocka_unit_test(no_tokens_no_scores_no_merges_no_unknown),
        cmocka_unit_test(unknown_kinds_and_pre_tokenizers),
        cmocka_unit_test(bos_is_asked_for_but_missing),
        cmocka_unit_test(a_vocabulary_of_one_token_without_ids_works),
        cmocka_unit_test(damaged_charsmaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
