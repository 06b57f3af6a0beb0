/* test_request_record.c: a request is copied whole or refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/request_record.h"

static const struct request_limits limits = {.n_vocab = 100, .n_ctx = 16};

static void everything_is_copied(void **state)
{
    (void)state;
    const int32_t prompt[] = {5, 0, 99};
    const struct mr_logit_bias bias[] = {{3, 1.5f}, {4, -100}};
    const char *const stop[] = {"a", "long one", "\xe4\xbd\xa0"};
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = 3;
    r.bias = bias;
    r.n_bias = 2;
    r.stop = stop;
    r.n_stop = 3;
    r.max_tokens = 7;
    r.ignore_eos = true;
    struct request_record *record;
    assert_int_equal(request_record_create(&record, &r, &limits, NULL), MR_OK);
    assert_memory_equal(request_record_prompt(record), prompt, sizeof prompt);
    assert_memory_equal(request_record_bias(record), bias, sizeof bias);
    const char *got[MR_STOP_MAX];
    request_record_stop(record, got);
    for (int i = 0; i < 3; i++)
        assert_string_equal(got[i], stop[i]);
    assert_int_equal(record->max_tokens, 7);
    assert_true(record->ignore_eos);
    assert_false(record->show_special);
    free(record);
}

static void refuse(const struct mr_request *r, const char *a, const char *b)
{
    struct request_record *record;
    struct mr_error err;
    assert_int_equal(request_record_create(&record, r, &limits, &err), MR_BAD_INPUT);
    assert_null(record);
    assert_non_null(strstr(err.message, a));
    assert_non_null(strstr(err.message, b));
}

static void a_prompt_that_does_not_fit_gives_both_numbers(void **state)
{
    (void)state;
    const int32_t prompt[40] = {0};
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt;
    for (r.n_prompt = 16; r.n_prompt <= 40; r.n_prompt += 24)
        refuse(&r, r.n_prompt == 16 ? "16 tokens" : "40 tokens", "context 16");
    r.n_prompt = 15;
    struct request_record *record;
    assert_int_equal(request_record_create(&record, &r, &limits, NULL), MR_OK);
    free(record);
}

static void wrong_fields_are_named(void **state)
{
    (void)state;
    const int32_t prompt[] = {1, 100}, negative[] = {-1};
    struct mr_request r;
    mr_request_defaults(&r);
    refuse(&r, "prompt", "empty");
    r.prompt = prompt;
    r.n_prompt = 2;
    refuse(&r, "prompt[1]", "0 to 99");
    r.prompt = negative;
    r.n_prompt = 1;
    refuse(&r, "prompt[0] is -1", "0 to 99");
    r.prompt = prompt;
    r.max_tokens = -2;
    refuse(&r, "max_tokens", "-1");
    r.max_tokens = 1;
    r.arrival_us = -1;
    refuse(&r, "arrival_us is -1", "0 (now)");
    r.arrival_us = 0;
    r.n_retry = -1;
    refuse(&r, "n_retry is -1", "from 0");
    r.n_retry = 0;
    const char *const empty[] = {"x", ""};
    r.stop = empty;
    r.n_stop = 2;
    refuse(&r, "stop[1]", "empty");
    r.n_stop = MR_STOP_MAX + 1;
    refuse(&r, "stop", "64");
    r.n_stop = 0;
    r.sampling.temperature = -1;
    refuse(&r, "temperature", "0 to 100");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_copied),
        cmocka_unit_test(a_prompt_that_does_not_fit_gives_both_numbers),
        cmocka_unit_test(wrong_fields_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
