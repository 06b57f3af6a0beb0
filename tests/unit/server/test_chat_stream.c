/* test_chat_stream.c: the events of a streamed chat completion, and that they join to the whole one. */
#include "unit/server/api_fixture.h"

#include "server/api/openai.h"

#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"hi there\"}]"
#define TOOLS                                                                                                                  \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", "           \
    "\"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}}}]"

/* The deltas of one choice, joined. */
struct joined {
    struct string_buffer content, reasoning, arguments;
    const char *finish;
    int n_finish, n_scores;
};

static void append(struct string_buffer *b, const json_t *v)
{
    string_buffer_add(b, json_string_value(v) != NULL ? json_string_value(v) : "", json_string_length(v));
}

static struct joined join(const json_t *events, int index)
{
    struct joined j = {.finish = NULL};
    string_buffer_init(&j.content);
    string_buffer_init(&j.reasoning);
    string_buffer_init(&j.arguments);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *choice = api_at(json_array_get(events, i), "choices.0");
        if (choice == NULL || json_integer_value(api_at(choice, "index")) != index)
            continue;
        append(&j.content, api_at(choice, "delta.content"));
        append(&j.reasoning, api_at(choice, "delta.reasoning_content"));
        append(&j.arguments, api_at(choice, "delta.tool_calls.0.function.arguments"));
        j.n_scores += (int)json_array_size(api_at(choice, "logprobs.content"));
        assert_non_null(api_at(choice, "finish_reason"));
        if (json_is_string(api_at(choice, "finish_reason"))) {
            j.finish = api_string(choice, "finish_reason");
            j.n_finish++;
        }
    }
    return j;
}

static void joined_release(struct joined *j)
{
    string_buffer_release(&j->content);
    string_buffer_release(&j->reasoning);
    string_buffer_release(&j->arguments);
}

static void a_stream_joins_to_the_whole(void **state)
{
    static const char *const fields[] = {
        "\"max_tokens\": 20, \"temperature\": 0",
        "\"max_tokens\": 20, \"seed\": 7, \"n\": 3, \"logprobs\": true, \"top_logprobs\": 2",
        "\"max_tokens\": 0",
        "\"max_tokens\": 30, \"seed\": 8, \"logit_bias\": {\"228\": 6, \"189\": 6, \"160\": 6}, \"logprobs\": true",
        "\"max_tokens\": 40, \"seed\": 9, \"stop\": [\"a\", \"bc\"]",
        "\"seed\": 1, \"response_format\": {\"type\": \"json_object\"}",
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[512];
        struct exchange whole, stream;
        snprintf(body, sizeof body, "{" MESSAGES ", %s}", fields[i]);
        api_ask(*state, &whole, openai_chat_completions, body);
        snprintf(body, sizeof body, "{" MESSAGES ", \"stream\": true, \"stream_options\": {\"include_usage\": true}, %s}",
                 fields[i]);
        api_ask(*state, &stream, openai_chat_completions, body);
        assert_string_equal(stream.content_type, "text/event-stream");
        json_t *reply = api_json(&whole), *events = api_events(&stream);
        const size_t n_event = json_array_size(events);
        for (size_t k = 0; k < json_array_size(api_at(reply, "choices")); k++) {
            struct joined j = join(events, (int)k);
            const json_t *choice = json_array_get(api_at(reply, "choices"), k);
            assert_string_equal(j.content.n > 0 ? j.content.s : "", api_string(choice, "message.content"));
            assert_string_equal(j.finish, api_string(choice, "finish_reason"));
            assert_int_equal(j.n_finish, 1);
            assert_int_equal(j.n_scores, json_array_size(api_at(choice, "logprobs.content")));
            joined_release(&j);
        }
        assert_string_equal(json_string_value(json_array_get(events, n_event - 1)), "[DONE]");
        const json_t *last = json_array_get(events, n_event - 2);
        assert_int_equal(json_array_size(api_at(last, "choices")), 0);
        assert_true(json_equal(api_at(last, "usage.completion_tokens"), api_at(reply, "usage.completion_tokens")));
        json_decref(reply);
        json_decref(events);
        fake_release(&whole);
        fake_release(&stream);
    }
}

static void without_include_usage_no_chunk_tells_it(void **state)
{
    static const char *const options[] = {"", ", \"stream_options\": {\"include_usage\": false}", ", \"stream_options\": null"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char body[256];
        struct exchange x;
        snprintf(body, sizeof body, "{" MESSAGES ", \"stream\": true, \"max_tokens\": 2%s}", options[i]);
        api_ask(*state, &x, openai_chat_completions, body);
        assert_null(strstr(x.out.s, "usage"));
        json_t *events = api_events(&x);
        for (size_t k = 0; k + 1 < json_array_size(events); k++) {
            const json_t *e = json_array_get(events, k);
            assert_string_equal(api_string(e, "id"), api_string(json_array_get(events, 0), "id"));
            assert_int_equal(json_array_size(api_at(e, "choices")), 1);
        }
        assert_string_equal(api_string(json_array_get(events, 0), "choices.0.delta.role"), "assistant");
        json_decref(events);
        fake_release(&x);
    }
}

static const char *const call[] = {"<tool_call>", "{\"name\": \"a", "dd\", \"arguments\": {\"a\"", ": 1",
                                   "5}}",         "</tool_call>"};

static void a_call_is_streamed_with_its_id_and_name_first(void **state)
{
    struct exchange x;
    api_play(*state, &x, openai_chat_completions, "{" MESSAGES ", " TOOLS ", \"stream\": true, \"tool_choice\": \"required\"}",
             call, 6, MR_FINISH_STOP);
    json_t *events = api_events(&x);
    struct joined j = join(events, 0);
    assert_string_equal(j.arguments.s, "{\"a\": 15}");
    assert_string_equal(j.finish, "tool_calls");
    assert_int_equal(j.content.n, 0);
    const json_t *first = json_array_get(events, 1);
    assert_string_equal(api_string(first, "choices.0.delta.tool_calls.0.function.name"), "add");
    assert_string_equal(api_string(first, "choices.0.delta.tool_calls.0.type"), "function");
    assert_int_equal(strlen(api_string(first, "choices.0.delta.tool_calls.0.id")), 9);
    assert_true(json_is_null(api_at(json_array_get(events, 0), "choices.0.delta.content")));
    joined_release(&j);
    json_decref(events);
    fake_release(&x);
}

static void a_call_is_told_whole(void **state)
{
    struct exchange x;
    api_play(*state, &x, openai_chat_completions, "{" MESSAGES ", " TOOLS "}", call, 6, MR_FINISH_STOP);
    json_t *reply = api_json(&x);
    assert_true(json_is_null(api_at(reply, "choices.0.message.content")));
    assert_string_equal(api_string(reply, "choices.0.finish_reason"), "tool_calls");
    assert_string_equal(api_string(reply, "choices.0.message.tool_calls.0.function.arguments"), "{\"a\": 15}");
    json_decref(reply);
    fake_release(&x);
}

static void a_call_that_was_cut_is_not_reported_as_one(void **state)
{
    for (int n = 0; n <= 6; n++) {
        struct exchange whole, stream;
        api_play(*state, &whole, openai_chat_completions, "{" MESSAGES ", " TOOLS "}", call, n, MR_FINISH_LENGTH);
        api_play(*state, &stream, openai_chat_completions, "{" MESSAGES ", " TOOLS ", \"stream\": true}", call, n,
                 MR_FINISH_LENGTH);
        json_t *reply = api_json(&whole), *events = api_events(&stream);
        struct joined j = join(events, 0);
        const char *arguments = api_string(reply, "choices.0.message.tool_calls.0.function.arguments");
        assert_string_equal(api_string(reply, "choices.0.finish_reason"), "length");
        assert_string_equal(j.finish, "length");
        assert_string_equal(j.arguments.n > 0 ? j.arguments.s : "", arguments != NULL ? arguments : "");
        joined_release(&j);
        json_decref(reply);
        json_decref(events);
        fake_release(&whole);
        fake_release(&stream);
    }
}

static void wrong_tools_are_named(void **state)
{
    static const struct refused r[] = {
        {"{" MESSAGES ", \"tools\": 5}", "tools", 400},
        {"{" MESSAGES ", \"tools\": [5]}", "tools[0]", 400},
        {"{" MESSAGES ", \"tools\": [{\"type\": \"function\", \"function\": {}}]}", "tools[0].function.name", 400},
        {"{" MESSAGES ", " TOOLS ", \"tool_choice\": \"sub\"}", "tool_choice", 400},
        {"{" MESSAGES ", " TOOLS ", \"tool_choice\": 5}", "tool_choice", 400},
        {"{" MESSAGES ", " TOOLS ", \"tool_choice\": {\"type\": \"allowed_tools\"}}", "tool_choice", 400},
        {"{" MESSAGES ", \"tool_choice\": \"required\"}", "tool_choice", 400},
        {"{" MESSAGES ", " TOOLS ", \"response_format\": {\"type\": \"json_object\"}}", "response_format", 400},
        {"{" MESSAGES ", " TOOLS ", \"parallel_tool_calls\": 1}", "parallel_tool_calls", 400},
    };
    assert_refused(*state, openai_chat_completions, r, sizeof r / sizeof *r);
}

static void reasoning_is_split_off(void **state)
{
    static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}{# <think> </think> #}";
    static const char *const text[] = {"<think>", "let me", " see</th", "ink>", "42"};
    struct api_fixture *f = *state;
    struct chat_prompt *before = f->hosted.chat;
    struct mr_error err = {{0}};
    struct exchange x;
    check(chat_prompt_create(&f->hosted.chat, f->model, source, strlen(source), &err), &err);
    api_play(f, &x, openai_chat_completions, "{" MESSAGES "}", text, 5, MR_FINISH_STOP);
    json_t *reply = api_json(&x);
    assert_string_equal(api_string(reply, "choices.0.message.reasoning_content"), "let me see");
    assert_string_equal(api_string(reply, "choices.0.message.reasoning"), "let me see");
    assert_string_equal(api_string(reply, "choices.0.message.content"), "42");
    assert_true(json_integer_value(api_at(reply, "usage.completion_tokens_details.reasoning_tokens")) > 0);
    json_decref(reply);
    fake_release(&x);
    api_play(f, &x, openai_chat_completions, "{" MESSAGES ", \"reasoning_format\": \"none\"}", text, 5, MR_FINISH_STOP);
    reply = api_json(&x);
    assert_string_equal(api_string(reply, "choices.0.message.content"), "<think>let me see</think>42");
    json_decref(reply);
    fake_release(&x);
    chat_prompt_free(f->hosted.chat);
    f->hosted.chat = before;
}

static void bytes_that_are_no_character_stay_in_logprobs(void **state)
{
    struct exchange x;
    api_ask(*state, &x, openai_chat_completions,
            "{" MESSAGES ", \"max_tokens\": 3, \"logit_bias\": {\"129\": 100}, \"logprobs\": true, \"temperature\": 0}");
    json_t *reply = api_json(&x);
    assert_string_equal(api_string(reply, "choices.0.message.content"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    assert_int_equal(json_integer_value(api_at(reply, "choices.0.logprobs.content.0.bytes.0")), 129);
    assert_string_equal(api_string(reply, "choices.0.logprobs.content.0.token"), "\xef\xbf\xbd");
    json_decref(reply);
    fake_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_joins_to_the_whole),
        cmocka_unit_test(without_include_usage_no_chunk_tells_it),
        cmocka_unit_test(a_call_is_streamed_with_its_id_and_name_first),
        cmocka_unit_test(a_call_is_told_whole),
        cmocka_unit_test(a_call_that_was_cut_is_not_reported_as_one),
        cmocka_unit_test(wrong_tools_are_named),
        cmocka_unit_test(reasoning_is_split_off),
        cmocka_unit_test(bytes_that_are_no_character_stay_in_logprobs),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
