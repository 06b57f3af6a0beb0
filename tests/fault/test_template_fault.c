/* test_template_fault.c: compiling and rendering a chat template with no memory is an error, and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fault/failing_malloc.h"
#include "text/chat_renderer.h"

static const char *const source =
    "{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{% set ns = namespace(x='') %}{% for i in range(300) %}"
    "{% set ns.x = 'é' ~ ns.x ~ i %}{% endfor %}{% for m in messages %}{{ m.role ~ m.content | trim }}{{ m | tojson }}{% "
    "endfor %}"
    "{{ m(ns.x) | upper }}{{ [3, 1] | sort }}{{ {'a': 1} | dictsort }}{{ ns.x.split('1') | length }}";

static const char *const request_text =
    "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}]}, {\"role\": \"assistant\", "
    "\"content\": null, \"reasoning\": \"r\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}], "
    "\"tools\": [{}], \"chat_template_kwargs\": {\"a\": 1}}";

static enum mr_status compile_and_render(void *context)
{
    const json_t *request = context;
    struct chat_renderer *p;
    struct rendered r;
    struct mr_error err;
    const enum mr_status created = chat_renderer_create(&p, source, strlen(source), NULL, &err);
    if (created != MR_OK) {
        assert_null(p);
        return created;
    }
    const enum mr_status status = chat_renderer_render(p, request, 0, &r, &err);
    if (status == MR_OK)
        assert_true(r.n_run > 2);
    else
        assert_null(r.run);
    rendered_release(&r);
    chat_renderer_free(p);
    return status;
}

static void no_memory_is_an_error_wherever_it_ends(void **state)
{
    (void)state;
    json_t *request = json_loads(request_text, 0, NULL);
    assert_non_null(request);
    assert_true(check_every_allocation(compile_and_render, request) > 20);
    json_decref(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory_is_an_error_wherever_it_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
