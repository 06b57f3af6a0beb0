/* test_tokenizer_fault.c: a tokenizer without memory is an error, and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fault/failing_malloc.h"
#include "text/detokenizer.h"
#include "unit/text/vocabulary_bytes.h"

struct case_of_kind {
    struct gguf *g;
    struct tokenizer *t;
};

static enum mr_status create(void *context)
{
    const struct case_of_kind *c = context;
    struct tokenizer *t;
    struct mr_error err;
    const enum mr_status status = tokenizer_create(&t, c->g, &err);
    if (status != MR_OK) {
        assert_null(t);
        assert_non_null(strstr(err.message, "no memory"));
    }
    tokenizer_free(t);
    return status;
}

static enum mr_status encode(void *context)
{
    const struct case_of_kind *c = context;
    static const char text[] = "hello <tool> he\xff abababababababababababababababababababababab\u2581\u4f60 ";
    const struct text_run run[] = {{text, 20, true}, {text + 20, sizeof text - 21, false}};
    struct token_list list = {0};
    struct mr_error err;
    const enum mr_status status = tokenizer_encode(c->t, run, 2, ENCODE_ADD_BOS, &list, &err);
    if (status != MR_OK) {
        assert_int_equal(list.n, 0);
        assert_non_null(strstr(err.message, "no memory"));
    }
    token_list_release(&list);
    return status;
}

static enum mr_status match(void *context)
{
    static const char *const stop[] = {"one", "two"};
    (void)context;
    struct stop_matcher *m;
    const enum mr_status status = stop_matcher_create(&m, stop, 2, NULL);
    assert_true((status == MR_OK) == (m != NULL));
    stop_matcher_free(m);
    return status;
}

static void check_kind(struct vocabulary_bytes *b)
{
    struct case_of_kind c;
    string_buffer_release(&b->file);
    vb_finish(b);
    assert_int_equal(gguf_open_memory(&c.g, b->file.s, b->file.n, NULL), MR_OK);
    assert_true(check_every_allocation(create, &c) > 8);
    assert_int_equal(tokenizer_create(&c.t, c.g, NULL), MR_OK);
    assert_true(check_every_allocation(encode, &c) > 3);
    tokenizer_free(c.t);
    gguf_close(c.g);
    vb_release(b);
}

static void byte_level_bpe(void **state)
{
    (void)state;
    struct vocabulary_bytes b;
    vb_byte_level(&b);
    put_key(&b.more, "tokenizer.chat_template", GGUF_STRING);
    put_text(&b.more, "{{ x }}");
    b.n_more++;
    check_kind(&b);
}

static void kinds_over_characters(void **state)
{
    (void)state;
    static const char *const model[] = {"llama", "t5", "bert", "gemma4"};
    for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
        struct vocabulary_bytes b;
        vb_sentence_piece(&b);
        b.model = model[i];
        vb_merge(&b, "a b");
        check_kind(&b);
    }
}

static void stop_strings(void **state)
{
    (void)state;
    assert_true(check_every_allocation(match, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_bpe),
        cmocka_unit_test(kinds_over_characters),
        cmocka_unit_test(stop_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
