/* test_completion_request.c: text completions: prompts in all forms, echo and log probabilities. */
#include "unit/server/api_fixture.h"

#include "server/api/openai.h"

static void a_wrong_prompt_is_named(void **state)
{
    static const struct refused r[] = {
        {"{}", "prompt", 400},
        {"{\"prompt\": null}", "prompt", 400},
        {"{\"prompt\": {}}", "prompt", 400},
        {"{\"prompt\": 5}", "prompt", 400},
        {"{\"prompt\": \"\"}", "prompt", 400},
        {"{\"prompt\": []}", "prompt", 400},
        {"{\"prompt\": [\"\"]}", "prompt[0]", 400},
        {"{\"prompt\": [\"a\", \"\"]}", "prompt[1]", 400},
        {"{\"prompt\": [[]]}", "prompt[0]", 400},
        {"{\"prompt\": [-1]}", "prompt[0]", 400},
        {"{\"prompt\": [65, 256]}", "prompt[1]", 400},
        {"{\"prompt\": [[65], [4294967297]]}", "prompt[1][0]", 400},
        {"{\"prompt\": [1.5]}", "prompt[0]", 400},
        {"{\"prompt\": [65, []]}", "prompt[1]", 400},
        {"{\"prompt\": [null]}", "prompt[0]", 400},
        {"{\"prompt\": \"a\", \"suffix\": \"b\"}", "suffix", 400},
        {"{\"prompt\": \"a\", \"logprobs\": 21}", "logprobs", 400},
        {"{\"prompt\": \"a\", \"echo\": 1}", "echo", 400},
        {"{\"prompt\": \"a\", \"prompt_logprobs\": 1, \"stream\": true}", "prompt_logprobs", 400},
        {"{\"prompt\": \"a\", \"use_beam_search\": true}", "use_beam_search", 400},
    };
    assert_refused(*state, openai_completions, r, sizeof r / sizeof *r);
}

static void prompts_have_one_meaning_in_all_forms(void **state)
{
    static const char *const form[] = {"\"abc\"",      "[97, 98, 99]", "[\"abc\"]",     "[[97, 98, 99]]",
                                       "[\"ab\", 99]", "[97, \"bc\"]", "[97.0, 98, 99]"};
    char first[64] = "";
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        char body[128];
        struct exchange x;
        snprintf(body, sizeof body, "{\"prompt\": %s, \"temperature\": 0, \"max_tokens\": 5}", form[i]);
        api_ask(*state, &x, openai_completions, body);
        json_t *reply = api_json(&x);
        const char *text = api_string(reply, "choices.0.text");
        if (i == 0)
            snprintf(first, sizeof first, "%s", text);
        assert_string_equal(text, first);
        assert_int_equal(json_integer_value(api_at(reply, "usage.prompt_tokens")), 3);
        json_decref(reply);
        fake_release(&x);
    }
}

static void several_prompts_have_a_choice_each(void **state)
{
    struct exchange x;
    api_ask(*state, &x, openai_completions, "{\"prompt\": [\"abc\", \"de\"], \"n\": 2, \"max_tokens\": 2, \"echo\": true}");
    json_t *reply = api_json(&x);
    assert_int_equal(json_array_size(api_at(reply, "choices")), 4);
    assert_memory_equal(api_string(reply, "choices.1.text"), "abc", 3);
    assert_memory_equal(api_string(reply, "choices.2.text"), "de", 2);
    assert_int_equal(json_integer_value(api_at(reply, "choices.3.index")), 3);
    assert_int_equal(json_integer_value(api_at(reply, "usage.prompt_tokens")), 5);
    json_decref(reply);
    fake_release(&x);
}

static void echo_with_no_tokens_scores_the_prompt(void **state)
{
    struct exchange x;
    api_ask(*state, &x, openai_completions,
            "{\"prompt\": \"abc\", \"max_tokens\": 0, \"echo\": true, \"logprobs\": 2, \"temperature\": 0}");
    json_t *reply = api_json(&x);
    const json_t *l = api_at(reply, "choices.0.logprobs");
    assert_string_equal(api_string(reply, "choices.0.text"), "abc");
    assert_int_equal(json_array_size(api_at(l, "tokens")), 3);
    assert_string_equal(api_string(l, "tokens.2"), "c");
    assert_true(json_is_null(api_at(l, "token_logprobs.0")));
    assert_true(json_number_value(api_at(l, "token_logprobs.1")) < 0);
    assert_true(json_is_null(api_at(l, "top_logprobs.0")));
    assert_true(json_object_size(api_at(l, "top_logprobs.2")) >= 1);
    assert_int_equal(json_integer_value(api_at(l, "text_offset.2")), 2);
    assert_int_equal(json_integer_value(api_at(reply, "usage.completion_tokens")), 0);
    json_decref(reply);
    fake_release(&x);
}

static void a_stream_with_echo_joins_to_the_whole(void **state)
{
    static const char fields[] = "\"prompt\": [\"abc\", [100, 101]], \"max_tokens\": 6, \"echo\": true, \"logprobs\": 1, "
                                 "\"seed\": 3";
    char body[256];
    struct exchange whole, stream;
    snprintf(body, sizeof body, "{%s}", fields);
    api_ask(*state, &whole, openai_completions, body);
    snprintf(body, sizeof body, "{%s, \"stream\": true}", fields);
    api_ask(*state, &stream, openai_completions, body);
    json_t *reply = api_json(&whole), *events = api_events(&stream);
    for (int k = 0; k < 2; k++) {
        struct string_buffer text;
        json_t *offsets = json_array();
        string_buffer_init(&text);
        for (size_t i = 0; i < json_array_size(events); i++) {
            const json_t *c = api_at(json_array_get(events, i), "choices.0");
            if (c == NULL || json_integer_value(api_at(c, "index")) != k)
                continue;
            string_buffer_puts(&text, api_string(c, "text"));
            json_array_extend(offsets, api_at(c, "logprobs.text_offset"));
        }
        const json_t *choice = json_array_get(api_at(reply, "choices"), (size_t)k);
        assert_string_equal(text.s, api_string(choice, "text"));
        assert_true(json_equal(offsets, api_at(choice, "logprobs.text_offset")));
        json_decref(offsets);
        string_buffer_release(&text);
    }
    json_decref(reply);
    json_decref(events);
    fake_release(&whole);
    fake_release(&stream);
}

static void prompt_logprobs_have_the_token_s_own(void **state)
{
    struct exchange x;
    api_ask(*state, &x, openai_completions, "{\"prompt\": \"abc\", \"max_tokens\": 1, \"prompt_logprobs\": 0}");
    json_t *reply = api_json(&x);
    const json_t *list = api_at(reply, "choices.0.prompt_logprobs");
    assert_int_equal(json_array_size(list), 3);
    assert_true(json_is_null(json_array_get(list, 0)));
    assert_string_equal(api_string(list, "1.98.decoded_token"), "b");
    json_decref(reply);
    fake_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_prompt_is_named),
        cmocka_unit_test(prompts_have_one_meaning_in_all_forms),
        cmocka_unit_test(several_prompts_have_a_choice_each),
        cmocka_unit_test(echo_with_no_tokens_scores_the_prompt),
        cmocka_unit_test(a_stream_with_echo_joins_to_the_whole),
        cmocka_unit_test(prompt_logprobs_have_the_token_s_own),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
