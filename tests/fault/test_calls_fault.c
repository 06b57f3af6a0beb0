/* test_calls_fault.c: calls of functions and their parser with no memory are an error, and leak nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fault/failing_malloc.h"
#include "sample/constraint.h"

static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
                            "\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\"]}}}]";
static const char answer[] = "Ok.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>";

static enum mr_status parse(const struct mr_calls *calls)
{
    struct mr_call_parser *p;
    struct mr_piece piece;
    MR_TRY(mr_call_parser_create(&p, calls, NULL));
    enum mr_status status = mr_call_parser_feed(p, answer, strlen(answer), NULL);
    if (status == MR_OK)
        status = mr_call_parser_end(p, NULL);
    while (mr_call_parser_next(p, &piece))
        continue;
    mr_call_parser_free(p);
    return status;
}

static enum mr_status attempt(void *context)
{
    struct mr_calls *calls;
    const struct mr_calls_options options = {.tools = tools, .format = "hermes", .parallel = true};
    (void)context;
    MR_TRY(mr_calls_create(&calls, &options, NULL));
    const char *text = mr_calls_constraint(calls);
    const struct constraint_source source = {.kind = CONSTRAINT_CALLS, .text = {text, strlen(text)}};
    struct constraint *c = NULL;
    enum mr_status status = parse(calls);
    if (status == MR_OK)
        status = constraint_create(&c, &source, NULL);
    constraint_free(c);
    mr_calls_free(calls);
    return status;
}

static void calls_without_memory(void **state)
{
    (void)state;
    assert_true(check_every_allocation(attempt, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
