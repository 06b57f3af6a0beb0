/* test_trace_context.c: traceparent headers, right and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/trace_export.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static void a_right_one_is_taken(void **state)
{
    struct trace_context c;
    (void)state;
    trace_context_read(&c, "00-" TRACE "-" PARENT "-01");
    assert_string_equal(c.trace_id, TRACE);
    assert_string_equal(c.parent_id, PARENT);
    assert_true(c.is_sampled);
    trace_context_read(&c, "00-" TRACE "-" PARENT "-00");
    assert_string_equal(c.trace_id, TRACE);
    assert_false(c.is_sampled);
}

static void any_other_begins_a_trace(void **state)
{
    static const char *const wrong[] = {
        "",
        "00",
        "01-" TRACE "-" PARENT "-01",
        "00-" TRACE "-" PARENT,
        "00-" TRACE "-" PARENT "-",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-0g",
        "00-" TRACE "-" PARENT "-011",
        "00-" TRACE "_" PARENT "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-" TRACE "-b7ad6b716920333-011",
    };
    struct trace_context c, other;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        trace_context_read(&c, wrong[i]);
        assert_string_not_equal(c.trace_id, TRACE);
        assert_int_equal(strlen(c.trace_id), 32);
        assert_string_equal(c.parent_id, "");
        assert_true(c.is_sampled);
    }
    trace_context_read(&other, NULL);
    assert_string_not_equal(c.trace_id, other.trace_id);
}

static void an_address_must_be_one(void **state)
{
    struct trace_export *t;
    struct mr_error err;
    (void)state;
    assert_int_equal(trace_export_create(&t, "file:///etc/passwd", NULL, &err), MR_BAD_INPUT);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_one_is_taken),
        cmocka_unit_test(any_other_begins_a_trace),
        cmocka_unit_test(an_address_must_be_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
