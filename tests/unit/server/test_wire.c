/* test_wire.c: requests and events survive as flat records; numbers find what belongs to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/id_map.h"
#include "server/wire.h"

static void a_request_comes_out_as_it_went_in(void **state)
{
    static const int32_t prompt[] = {1, 2, 3}, stop_token[] = {7}, prediction[] = {8, 9};
    static const char *const stop[] = {"one", "zwei"}, *const bad[] = {"x"};
    static const struct mr_logit_bias bias[] = {{5, 1.5f}};
    static const struct mr_adapter_use adapter[] = {{3, 0.5f}};
    struct mr_request r;
    size_t n;
    (void)state;
    mr_request_defaults(&r);
    r.prompt = prompt, r.n_prompt = 3, r.stop_token = stop_token, r.n_stop_token = 1, r.stop = stop, r.n_stop = 2;
    r.bad_word = bad, r.n_bad_word = 1, r.bias = bias, r.n_bias = 1, r.adapter = adapter, r.n_adapter = 1;
    r.constraint = MR_CONSTRAINT_REGEX, r.constraint_text = "a+", r.cache_salt = "", r.sampling.seed = 42;
    r.prediction = prediction, r.n_prediction = 2, r.speculation = MR_SPECULATION_REFERENCE;
    assert_int_equal(wire_request_bytes(&n, &r, NULL), MR_OK);
    char *record = malloc(n), *copy = malloc(n);
    wire_request_write(record, &r);
    memcpy(copy, record, n); /* no pointer leads back */
    memset(record, 0xee, n);
    free(record);
    struct wire_request out;
    wire_request_read(&out, copy);
    assert_memory_equal(out.request.prompt, prompt, sizeof prompt);
    assert_memory_equal(out.request.bias, bias, sizeof bias);
    assert_memory_equal(out.request.stop_token, stop_token, sizeof stop_token);
    assert_memory_equal(out.request.adapter, adapter, sizeof adapter);
    assert_string_equal(out.request.stop[1], "zwei");
    assert_string_equal(out.request.bad_word[0], "x");
    assert_string_equal(out.request.constraint_text, "a+");
    assert_string_equal(out.request.cache_salt, "");
    assert_int_equal(out.request.sampling.seed, 42);
    assert_memory_equal(out.request.prediction, prediction, sizeof prediction);
    assert_int_equal(out.request.speculation, MR_SPECULATION_REFERENCE);
    free(copy);
}

static void lists_that_are_too_long_are_refused(void **state)
{
    static const int32_t prompt[] = {1};
    struct mr_request r;
    struct mr_error err;
    size_t n;
    (void)state;
    mr_request_defaults(&r);
    assert_int_equal(wire_request_bytes(&n, &r, &err), MR_BAD_INPUT);
    r.prompt = prompt, r.n_prompt = 1, r.n_stop = MR_STOP_MAX + 1;
    assert_int_equal(wire_request_bytes(&n, &r, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "stop"));
}

static void an_event_comes_out_as_it_went_in(void **state)
{
    static const struct mr_logprob top[] = {{1, -0.5f}, {2, -1.5f}};
    const struct mr_event e = {.request = 9, .token = 4, .text = "h\0i", .n_text = 3, .n_top = 2, .top = top, .error = "why"};
    struct mr_event out;
    (void)state;
    char *record = malloc(wire_event_bytes(&e));
    wire_event_write(record, &e);
    wire_event_read(&out, record);
    assert_int_equal(out.request, 9);
    assert_int_equal(out.n_text, 3);
    assert_memory_equal(out.text, "h\0i", 3);
    assert_memory_equal(out.top, top, sizeof top);
    assert_string_equal(out.error, "why");
    free(record);
}

static void a_map_finds_what_was_not_removed(void **state)
{
    enum {
        N = 3000
    };
    static int value[N];
    struct id_map m;
    (void)state;
    id_map_init(&m);
    assert_null(id_map_find(&m, 1));
    assert_null(id_map_remove(&m, 1));
    for (size_t i = 0; i < N; i++) /* tickets: far apart, and close */
        assert_true(id_map_add(&m, i % 2 == 0 ? (i + 1) << 16 : i + 1, &value[i]));
    for (size_t i = 0; i < N; i += 3)
        assert_ptr_equal(id_map_remove(&m, i % 2 == 0 ? (i + 1) << 16 : i + 1), &value[i]);
    for (size_t i = 0; i < N; i++)
        assert_ptr_equal(id_map_find(&m, i % 2 == 0 ? (i + 1) << 16 : i + 1), i % 3 == 0 ? NULL : &value[i]);
    assert_int_equal(m.n, N - N / 3);
    id_map_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_comes_out_as_it_went_in),
        cmocka_unit_test(lists_that_are_too_long_are_refused),
        cmocka_unit_test(an_event_comes_out_as_it_went_in),
        cmocka_unit_test(a_map_finds_what_was_not_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
