/* test_chat_messages.c: messages in the OpenAI form are checked and fitted to the template. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "text/chat_renderer.h"

static const char *const takes_text = "{% for m in messages %}[{{ m.role }}]{{ '' + m.content }}"
                                      "{% for c in m.tool_calls or [] %}<{{ c.function.name }}:{% for k, v in "
                                      "c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}>{% endfor %}{% endfor %}";
static const char *const takes_parts =
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "({{ p.text }}){% endfor %}{% endif %}{% for c in m.tool_calls or [] %}<{{ c.function.arguments }}>{% endfor %}{% endfor "
    "%}";

/* The rendered request, or the error; the caller frees it. */
static char *render(const char *source, const char *request_text)
{
    struct chat_renderer *p;
    struct rendered r;
    struct mr_error err = {""};
    json_t *request = json_loads(request_text, 0, NULL);
    assert_non_null(request);
    assert_int_equal(chat_renderer_create(&p, source, strlen(source), NULL, &err), MR_OK);
    const enum mr_status status = chat_renderer_render(p, request, 0, &r, &err);
    char *out = strdup(status != MR_OK ? err.message : r.text.n > 0 ? r.text.s : "");
    if (status != MR_OK)
        assert_int_equal(status, MR_BAD_INPUT);
    rendered_release(&r);
    chat_renderer_free(p);
    json_decref(request);
    return out;
}

static void expect(const char *source, const char *messages, const char *want)
{
    char request[1024];
    snprintf(request, sizeof request, "{\"messages\": [%s]}", messages);
    char *got = render(source, request);
    assert_string_equal(got, want);
    free(got);
}

#define CALL(arguments)                                                                                                        \
    "\"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": " arguments "}}]"

static void null_content_beside_tool_calls_is_empty_text(void **state)
{
    (void)state;
    expect(takes_text,
           "{\"role\": \"assistant\", \"content\": null, " CALL(
               "\"{\\\"a\\\": 1}\"") "}, {\"role\": \"tool\", \"content\": \"r\"}",
           "[assistant]<f:a=1>[tool]r");
}

static void missing_content_beside_tool_calls_is_empty_text(void **state)
{
    (void)state;
    expect(takes_text, "{\"role\": \"assistant\", " CALL("{\"a\": 1}") "}", "[assistant]<f:a=1>");
}

static void text_parts_are_joined_for_a_template_that_takes_strings(void **state)
{
    (void)state;
    expect(takes_text,
           "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"foo \"}, {\"type\": \"text\", \"text\": "
           "\"bar\"}]}",
           "[user]foo bar");
}

static void text_parts_stay_for_a_template_that_loops_over_them(void **state)
{
    (void)state;
    expect(takes_parts,
           "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"foo \"}, {\"type\": \"text\", \"text\": "
           "\"bar\"}]}",
           "[user](foo )(bar)");
}

static void what_is_no_content_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"role\": \"user\", \"content\": null}", "messages[0].content: "},
        {"{\"role\": \"user\"}", "messages[0].content: "},
        {"{\"role\": \"user\", \"content\": []}", "messages[0].content: "},
        {"{\"role\": \"user\", \"content\": 5}", "messages[0].content: "},
        {"{\"role\": \"assistant\", \"content\": null}", "messages[0].content: "},
        {"{\"role\": \"assistant\", \"tool_calls\": []}", "messages[0].content: "},
        {"{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"\"}, "
         "{\"type\": "
         "\"alien\"}]}",
         "messages[1].content[1].type: 'alien' "},
        {"{\"role\": \"user\", \"content\": [\"x\"]}", "messages[0].content[0]: "},
        {"{\"role\": \"user\", \"content\": [{\"text\": \"x\"}]}", "messages[0].content[0].type: "},
        {"{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}", "messages[0].content[0].text: "},
        {"{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}", "messages[0].content[0].type: 'image_url' "},
        {"{\"content\": \"x\"}", "messages[0].role: "},
        {"{\"role\": \"\", \"content\": \"x\"}", "messages[0].role: "},
        {"{\"role\": 1, \"content\": \"x\"}", "messages[0].role: "},
        {"5", "messages[0]: "},
        {"{}", "messages[0].role: "},
        {"", "messages: "},
        {"{\"role\": \"assistant\", \"tool_calls\": 5}", "messages[0].tool_calls: "},
        {"{\"role\": \"assistant\", \"tool_calls\": [5]}", "messages[0].tool_calls[0]: "},
        {"{\"role\": \"assistant\", \"tool_calls\": [{}]}", "messages[0].tool_calls[0].function.name: "},
        {"{\"role\": \"assistant\", " CALL("\"[1]\"") "}", "messages[0].tool_calls[0].function.arguments: "},
        {"{\"role\": \"assistant\", " CALL("\"{\"") "}", "messages[0].tool_calls[0].function.arguments: "},
        {"{\"role\": \"assistant\", " CALL("5") "}", "messages[0].tool_calls[0].function.arguments: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char request[1024];
        snprintf(request, sizeof request, "{\"messages\": [%s]}", cases[i][0]);
        char *got = render(takes_text, request);
        if (strncmp(got, cases[i][1], strlen(cases[i][1])) != 0)
            fail_msg("case %zu: %s", i, got);
        free(got);
    }
}

static void empty_content_is_legal(void **state)
{
    (void)state;
    expect(takes_text, "{\"role\": \"user\", \"content\": \"\"}", "[user]");
}

static void arguments_as_text_stay_for_a_template_that_prints_them(void **state)
{
    (void)state;
    expect(takes_parts, "{\"role\": \"assistant\", \"content\": \"\", " CALL("\"{ \\\"a\\\":1}\"") "}",
           "[assistant]<{ \"a\":1}>");
}

static void reasoning_is_given_under_both_names(void **state)
{
    (void)state;
    expect("{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.content }}{% endfor %}",
           "{\"role\": \"assistant\", \"reasoning\": \"hm\", \"thinking\": null}", "hm|hm|");
}

static void keys_that_are_null_are_dropped(void **state)
{
    (void)state;
    expect("{{ messages[0].tool_calls is defined }}", "{\"role\": \"user\", \"content\": \"\", \"tool_calls\": null}", "False");
}

static void a_request_sets_variables_but_not_the_template_s_own(void **state)
{
    (void)state;
    static const char *const source = "{{ tools is none }}{{ add_generation_prompt }}{{ x }}{{ reasoning_effort }}";
    static const char *const cases[][2] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": [], \"temperature\": 1}", "TrueTrue"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": [{}], \"add_generation_prompt\": false, "
         "\"chat_template_kwargs\": {\"x\": 5}, \"reasoning_effort\": \"low\"}",
         "FalseFalse5low"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"chat_template_kwargs\": {\"bos_token\": \"x\"}}",
         "chat_template_kwargs.bos_token: cannot be set this way"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"chat_template_kwargs\": {\"messages\": []}}",
         "chat_template_kwargs.messages: cannot be set this way"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": {}}", "tools: expected a list"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": [1]}", "tools[0]: expected an object"},
        {"{}", "messages: expected a list with at least one message"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = render(source, cases[i][0]);
        assert_string_equal(got, cases[i][1]);
        free(got);
    }
}

static void the_builtin_templates_compile_and_tell_roles_apart(void **state)
{
    (void)state;
    for (int i = 0; chat_template_builtin_at(i) != NULL; i++) {
        char *got =
            render(chat_template_builtin(chat_template_builtin_at(i)),
                   "{\"messages\": [{\"role\": \"system\", \"content\": \"sys\"}, {\"role\": \"user\", \"content\": \"one\"}, "
                   "{\"role\": \"assistant\", \"content\": \"two\"}, {\"role\": \"user\", \"content\": \"three\"}]}");
        const char *at = got;
        static const char *const order[] = {"sys", "one", "two", "three"};
        for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
            at = strstr(at, order[k]);
            assert_non_null(at);
        }
        free(got);
    }
    assert_null(chat_template_builtin("no such template"));
    assert_null(chat_template_builtin_at(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_content_beside_tool_calls_is_empty_text),
        cmocka_unit_test(missing_content_beside_tool_calls_is_empty_text),
        cmocka_unit_test(text_parts_are_joined_for_a_template_that_takes_strings),
        cmocka_unit_test(text_parts_stay_for_a_template_that_loops_over_them),
        cmocka_unit_test(what_is_no_content_is_refused_by_name),
        cmocka_unit_test(empty_content_is_legal),
        cmocka_unit_test(arguments_as_text_stay_for_a_template_that_prints_them),
        cmocka_unit_test(reasoning_is_given_under_both_names),
        cmocka_unit_test(keys_that_are_null_are_dropped),
        cmocka_unit_test(a_request_sets_variables_but_not_the_template_s_own),
        cmocka_unit_test(the_builtin_templates_compile_and_tell_roles_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
