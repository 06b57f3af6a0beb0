/* test_call_parser.c: answers split into reasoning, content and calls, however they are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "text/call_parser.h"

/* What came out, as one text: "content|R:reasoning|C:name(arguments)." where the stop says that the call is complete. */
struct record {
    char text[4096];
    enum call_piece_kind last;
    bool any;
};

static void add(struct record *r, const char *s, size_t n)
{
    const size_t have = strlen(r->text);
    assert_true(have + n < sizeof r->text);
    memcpy(r->text + have, s, n);
    r->text[have + n] = '\0';
}

static void take(void *context, const struct call_piece *p)
{
    static const char *const begin[] = {"|", "|R:", "|C:", "(", ")."};
    struct record *r = context;
    if (!r->any || r->last != p->kind)
        add(r, begin[p->kind], strlen(begin[p->kind]));
    r->last = p->kind;
    r->any = true;
    add(r, p->text != NULL ? p->text : "", p->n);
}

struct sample {
    const char *format, *reasoning;
    bool has_begun;
    const char *text, *want;
    int n_complete, n_open;
};

static const char *const names[] = {"get_weather", "add"};

static void parse(const struct sample *s, size_t cut, struct record *r)
{
    struct call_parser *p;
    const struct call_parser_options options = {.format = s->format != NULL ? call_format_find(s->format) : NULL,
                                                .reasoning = s->reasoning != NULL ? reasoning_format_find(s->reasoning) : NULL,
                                                .has_begun = s->has_begun,
                                                .name = names,
                                                .n_name = 2};
    int n_complete, n_open;
    const size_t n = strlen(s->text);
    *r = (struct record){.any = false};
    assert_int_equal(call_parser_create(&p, &options, take, r, NULL), MR_OK);
    for (size_t at = 0; at < n; at += cut)
        assert_int_equal(call_parser_feed(p, s->text + at, n - at < cut ? n - at : cut, NULL), MR_OK);
    assert_int_equal(call_parser_end(p, &n_complete, &n_open, NULL), MR_OK);
    call_parser_free(p);
    if (s->n_open >= 0 && (n_complete != s->n_complete || n_open != s->n_open))
        fail_msg("%d complete, %d open in %s", n_complete, n_open, s->text);
}

#define CALL   "{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}"
#define HERMES "<tool_call>\n" CALL "\n</tool_call>"
#define RESULT "|C:add({\"a\": 1, \"b\": 2})."

static const struct sample samples[] = {
    /* plain */
    {"hermes", NULL, false, "", "", 0, 0},
    {"hermes", NULL, false, "  ", "|  ", 0, 0},
    {"hermes", NULL, false, "Hello < world", "|Hello < world", 0, 0},
    {"hermes", NULL, false, "a <tool_", "|a <tool_", 0, 0},
    {NULL, NULL, false, HERMES, "|" HERMES, 0, 0},
    /* one call in each format */
    {"hermes", NULL, false, HERMES, RESULT, 1, 0},
    {"hermes", NULL, false, "<tool_call>" CALL "</tool_call>", RESULT, 1, 0},
    {"llama3", NULL, false, "<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1, \"b\": 2}}", RESULT, 1, 0},
    {"llama3", NULL, false, "{\"name\": \"add\", \"parameters\": {\"a\": 1, \"b\": 2}}", RESULT, 1, 0},
    {"gemma", NULL, false, "\n{\"name\":\"add\",\"parameters\":{\"a\": 1, \"b\": 2}}\n", RESULT, 1, 0},
    {"json", NULL, false, CALL, RESULT, 1, 0},
    {"mistral", NULL, false, "[TOOL_CALLS][" CALL "]", RESULT, 1, 0},
    {"mistral", NULL, false, "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}, \"id\": \"abc}45678\"}]",
     RESULT, 1, 0},
    {"mistral-args", NULL, false, "[TOOL_CALLS]add[ARGS]{\"a\": 1, \"b\": 2}", RESULT, 1, 0},
    {"granite", NULL, false, "<|tool_call|>[" CALL "]", RESULT, 1, 0},
    {"deepseek", NULL, false,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1, \"b\": 2}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     RESULT, 1, 0},
    {"deepseek-v3.1", NULL, false,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1, \"b\": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     RESULT, 1, 0},
    /* several */
    {"hermes", NULL, false, "Sure.\n" HERMES "\n" HERMES "\n", "|Sure.\n" RESULT RESULT, 2, 0},
    {"llama3", NULL, false,
     "{\"name\": \"add\", \"parameters\": {}}; {\"name\": \"get_weather\", \"parameters\": {\"city\": \"}\\\"\"}}",
     "|C:add({}).|C:get_weather({\"city\": \"}\\\"\"}).", 2, 0},
    {"mistral", NULL, false, "[TOOL_CALLS][" CALL ", " CALL "]", RESULT RESULT, 2, 0},
    {"mistral-args", NULL, false, "[TOOL_CALLS]add[ARGS]{}[TOOL_CALLS]add[ARGS]{}", "|C:add({}).|C:add({}).", 2, 0},
    {"deepseek-v3.1", NULL, false,
     "x<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"
     "}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "|x|C:add({}).|C:add({}).", 2, 0},
    /* reasoning */
    {"hermes", "<think>", false, "<think>\nI add <tool_call>.\n</think>\n\n" HERMES, "|R:I add <tool_call>.\n" RESULT, 1, 0},
    {"hermes", "<think>", true, "I add.</think>3", "|R:I add.|3", 0, 0},
    {NULL, "<think>", false, "<think>a</think>b<think>c", "|R:a|b<think>c", 0, 0},
    {NULL, "<think>", false, "<think>a</thi", "|R:a</thi", 0, 0},
    {NULL, "<think>", false, "no <think>", "|no <think>", 0, 0},
    {"json", "[THINK]", false, "[THINK]{\"name\"[/THINK]" CALL, "|R:{\"name\"" RESULT, 1, 0},
    /* cut by the end */
    {"hermes", NULL, false, "<tool_call>\n{\"name\": \"ad", "", 0, 1},
    {"hermes", NULL, false, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1", "|C:add({\"a\": 1", 0, 1},
    {"hermes", NULL, false, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}", "|C:add({\"a\": 1}", 0, 1},
    {"hermes", NULL, false, "<tool_call>\n" CALL, RESULT, 1, 0},
    {"hermes", NULL, false, HERMES "\n<tool_call>\n{", RESULT, 1, 1},
    {"json", NULL, false, "{\"na", "", 0, 1},
    /* what is no call */
    {"hermes", NULL, false, "<tool_call>hello</tool_call>", "|<tool_call>hello</tool_call>", 0, 0},
    {"hermes", NULL, false, "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>",
     "|<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>", 0, 0},
    {"json", NULL, false, "{\"answer\": 42}", "|{\"answer\": 42}", 0, 0},
    {"json", NULL, false, "It is " CALL, "|It is " CALL, 0, 0},
    {"json", NULL, false, CALL " and more", RESULT "| and more", 1, 0},
    {"hermes", NULL, false, "<tool_call><tool_call>" CALL "</tool_call>", "|<tool_call>" RESULT, 1, 0},
    {"hermes", NULL, false, "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": oops}}</tool_call>!",
     "|C:add({\"a\": oops}|!", 0, 1},
};

static void any_cut_gives_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (size_t cut = 1; cut <= strlen(samples[i].text) || cut == 1; cut++) {
            static struct record r;
            parse(&samples[i], cut, &r);
            if (strcmp(r.text, samples[i].want) != 0)
                fail_msg("cut %zu: '%s' gave '%s', not '%s'", cut, samples[i].text, r.text, samples[i].want);
        }
}

/* Every beginning of an answer with one call: complete once its object is, never before. */
static void a_call_that_is_cut_is_never_complete(void **state)
{
    (void)state;
    static const char text[] = HERMES;
    const size_t whole = strlen("<tool_call>\n" CALL);
    for (size_t n = 0; n < sizeof text; n++) {
        char part[sizeof text];
        static struct record r;
        memcpy(part, text, n);
        part[n] = '\0';
        struct call_parser *p;
        int n_complete;
        const struct call_parser_options options = {.format = call_format_find("hermes"), .name = names, .n_name = 2};
        r = (struct record){.any = false};
        assert_int_equal(call_parser_create(&p, &options, take, &r, NULL), MR_OK);
        assert_int_equal(call_parser_feed(p, part, n, NULL), MR_OK);
        assert_int_equal(call_parser_end(p, &n_complete, NULL, NULL), MR_OK);
        assert_int_equal(n_complete, n >= whole);
        call_parser_free(p);
    }
}

static void long_texts_that_look_like_markers(void **state)
{
    (void)state;
    static const char *const part[] = {"<", "<tool_call>", " ", "<tool_call>{", "{\"name\"", "[TOOL_CALLS]"};
    for (int f = 0; call_format_at(f) != NULL; f++)
        for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
            struct sample s = {call_format_at(f)->name, "<think>", false, NULL, NULL, 0, -1};
            static char text[3000];
            static struct record r;
            text[0] = '\0';
            for (size_t n = 0; n + strlen(part[i]) + 8 < sizeof text; n += strlen(part[i]))
                strcat(text, part[i]);
            strcat(text, "x");
            s.text = text;
            parse(&s, 1, &r);
            assert_true(strlen(r.text) >= 1);
        }
}

static void the_template_tells_the_format(void **state)
{
    (void)state;
    static const struct {
        const char *chat, *format;
    } cases[] = {
        {"", "json"},
        {"<|im_start|>", "json"},
        {"within <tool_call></tool_call> ... \"arguments\"", "hermes"},
        {"<tool_call>{name}<arg_key> arguments", "json"},
        {"<|start_header_id|>ipython", "llama3"},
        {"[TOOL_CALLS][", "mistral"},
        {"[TOOL_CALLS] name [ARGS]", "mistral-args"},
        {"respond only with <|tool_call|> followed by a JSON list", "granite"},
        {"<｜tool▁sep｜> ```json", "deepseek"},
        {"<｜tool▁sep｜>", "deepseek-v3.1"},
        {"<start_of_turn>user", "gemma"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(call_format_detect(cases[i].chat, strlen(cases[i].chat))->name, cases[i].format);
    assert_null(reasoning_format_detect("", 0));
    assert_string_equal(reasoning_format_detect("a<think>", 8)->close, "</think>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_gives_the_same),
        cmocka_unit_test(a_call_that_is_cut_is_never_complete),
        cmocka_unit_test(long_texts_that_look_like_markers),
        cmocka_unit_test(the_template_tells_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
