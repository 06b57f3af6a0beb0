/* test_chat_request.c: what a chat request may say, and what is said to one that may not. */
#include "unit/server/api_fixture.h"

#include "server/api/openai.h"

#define HI "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"

static void a_wrong_field_is_named(void **state)
{
    static const struct refused r[] = {
        {"", "", 400},
        {"{", "", 400},
        {"[]", "", 400},
        {"{\"messages\": \"\xff\"}", "", 400},
        {"{" HI ", \"temperature\": 1e999}", "", 400},
        {"{" HI ", \"seed\": 1, \"seed\": 2}", "", 400},
        {"{\"model\": \"other\", " HI "}", "model", 404},
        {"{\"model\": 5, " HI "}", "model", 400},
        {"{\"model\": \"a\\u0000b\", " HI "}", "model", 400},
        {"{}", "messages", 400},
        {"{\"messages\": []}", "messages", 400},
        {"{\"messages\": null}", "messages", 400},
        {"{\"messages\": {}}", "messages", 400},
        {"{\"messages\": [{}]}", "messages[0].role", 400},
        {"{\"messages\": [5]}", "messages[0]", 400},
        {"{\"messages\": [{\"role\": \"alien\", \"content\": \"x\"}]}", "messages[0].role", 400},
        {"{\"messages\": [{\"role\": \"user\"}]}", "messages[0].content", 400},
        {"{\"messages\": [{\"role\": \"user\", \"content\": null}]}", "messages[0].content", 400},
        {"{\"messages\": [{\"role\": \"user\", \"content\": []}]}", "messages[0].content", 400},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 5}]}", "messages[0].content", 400},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}", "messages[0].content[0].type",
         400},
        {"{" HI ", \"temperature\": -1}", "temperature", 400},
        {"{" HI ", \"temperature\": 101}", "temperature", 400},
        {"{" HI ", \"temperature\": \"hot\"}", "temperature", 400},
        {"{" HI ", \"top_p\": 1.5}", "top_p", 400},
        {"{" HI ", \"top_k\": 1.5}", "top_k", 400},
        {"{" HI ", \"min_p\": true}", "min_p", 400},
        {"{" HI ", \"n\": 0}", "n", 400},
        {"{" HI ", \"n\": 129}", "n", 400},
        {"{" HI ", \"n\": 3, \"best_of\": 2}", "best_of", 400},
        {"{" HI ", \"max_tokens\": -2}", "max_tokens", 400},
        {"{" HI ", \"max_tokens\": 1e30}", "max_tokens", 400},
        {"{" HI ", \"max_completion_tokens\": \"9\"}", "max_completion_tokens", 400},
        {"{" HI ", \"min_tokens\": 5, \"max_tokens\": 4}", "min_tokens", 400},
        {"{" HI ", \"stream\": 1}", "stream", 400},
        {"{" HI ", \"stream_options\": true}", "stream_options", 400},
        {"{" HI ", \"stream_options\": {\"include_usage\": 1}}", "stream_options.include_usage", 400},
        {"{" HI ", \"stop\": 5}", "stop", 400},
        {"{" HI ", \"stop\": [\"\"]}", "stop", 400},
        {"{" HI ", \"stop\": [\"a\", 5]}", "stop", 400},
        {"{" HI ", \"stop\": \"a\\u0000\"}", "stop", 400},
        {"{" HI ", \"stop_token_ids\": [256]}", "stop_token_ids", 400},
        {"{" HI ", \"stop_token_ids\": 5}", "stop_token_ids", 400},
        {"{" HI ", \"bad_words\": [null]}", "bad_words", 400},
        {"{" HI ", \"top_logprobs\": 21, \"logprobs\": true}", "top_logprobs", 400},
        {"{" HI ", \"top_logprobs\": -1, \"logprobs\": true}", "top_logprobs", 400},
        {"{" HI ", \"top_logprobs\": 5}", "top_logprobs", 400},
        {"{" HI ", \"service_tier\": \"gold\"}", "service_tier", 400},
        {"{" HI ", \"priority\": 101}", "priority", 400},
        {"{" HI ", \"mirostat\": 2}", "mirostat", 400},
        {"{" HI ", \"functions\": [{}]}", "functions", 400},
        {"{" HI ", \"modalities\": [\"text\", \"audio\"]}", "modalities", 400},
        {"{" HI ", \"reasoning_format\": \"other\"}", "reasoning_format", 400},
    };
    assert_refused(*state, openai_chat_completions, r, sizeof r / sizeof *r);
}

static void biases_name_tokens_of_the_vocabulary(void **state)
{
    static const struct refused r[] = {
        {"{" HI ", \"logit_bias\": {\"99999999\": -100}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"256\": 1}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"-3\": 5}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"+3\": 5}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"\": 5}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"AI\": -100}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"10\": 1e9}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"10\": \"x\"}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": {\"10\": true}}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": [5]}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": [[300, 1]]}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": [[[], 1]]}", "logit_bias", 400},
        {"{" HI ", \"logit_bias\": \"10\"}", "logit_bias", 400},
    };
    assert_refused(*state, openai_chat_completions, r, sizeof r / sizeof *r);
}

static void a_bias_of_100_decides_in_each_of_its_forms(void **state)
{
    static const char *const bias[] = {"{\"65\": 100}", "[[65, 100]]", "[[\"A\", 100]]", "{\"65\": 100, \"66\": -100}",
                                       "[[66, false], [65, 100]]"};
    for (size_t i = 0; i < sizeof bias / sizeof *bias; i++) {
        char body[256];
        struct exchange x;
        snprintf(body, sizeof body, "{%s, \"max_tokens\": 4, \"temperature\": 0, \"logit_bias\": %s}", HI, bias[i]);
        api_ask(*state, &x, openai_chat_completions, body);
        json_t *reply = api_json(&x);
        assert_string_equal(api_string(reply, "choices.0.message.content"), "AAAA");
        assert_string_equal(api_string(reply, "choices.0.finish_reason"), "length");
        json_decref(reply);
        fake_release(&x);
    }
}

static void a_constraint_that_cannot_be_enforced_is_refused(void **state)
{
    static const struct refused r[] = {
        {"{" HI ", \"response_format\": \"json\"}", "response_format", 400},
        {"{" HI ", \"response_format\": {}}", "response_format.type", 400},
        {"{" HI ", \"response_format\": {\"type\": \"yaml\"}}", "response_format.type", 400},
        {"{" HI ", \"response_format\": {\"type\": \"json_schema\", \"schema\": {}}}", "response_format.json_schema", 400},
        {"{" HI ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\"}}}",
         "response_format.json_schema.schema", 400},
        {"{" HI ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": 5}}}",
         "response_format.json_schema.schema", 400},
        {"{" HI ", \"structured_outputs\": {}}", "structured_outputs", 400},
        {"{" HI ", \"structured_outputs\": {\"regex\": \"a\", \"json\": {}}}", "structured_outputs.regex", 400},
        {"{" HI ", \"structured_outputs\": {\"choice\": []}}", "structured_outputs.choice", 400},
        {"{" HI ", \"structured_outputs\": {\"choice\": [5]}}", "structured_outputs.choice", 400},
        {"{" HI ", \"grammar\": \"root ::= \\\"a\\\"\", \"response_format\": {\"type\": \"json_object\"}}", "grammar", 400},
        {"{" HI ", \"guided_regex\": 5}", "guided_regex", 400},
        {"{" HI ", \"json_schema\": 5}", "json_schema", 400},
        /* what the compiler finds */
        {"{" HI ", \"guided_regex\": \"(\"}", "guided_regex", 400},
        {"{" HI ", \"guided_regex\": \"lamp**\"}", "guided_regex", 400},
        {"{" HI ", \"guided_regex\": \"[z-a]\"}", "guided_regex", 400},
        {"{" HI ", \"guided_regex\": \"^(?<=x)*$\"}", "guided_regex", 400},
        {"{" HI ", \"grammar\": \"root ::= other\"}", "grammar", 400},
        {"{" HI ", \"grammar\": \"root ::= root \\\"a\\\"\", \"stream\": true}", "grammar", 400},
        {"{" HI ", \"grammar\": \"notroot ::= \\\"a\\\"\"}", "grammar", 400},
        {"{" HI ", \"json_schema\": {\"type\": \"notatype\"}, \"stream\": true}", "json_schema", 400},
        {"{" HI ", \"json_schema\": {\"properties\": {\"a\": \"bar\"}}}", "json_schema", 400},
        {"{" HI ", \"json_schema\": false}", "json_schema", 400},
    };
    assert_refused(*state, openai_chat_completions, r, sizeof r / sizeof *r);
}

static void an_answer_obeys_in_each_spelling(void **state)
{
    static const char *const spelling[] = {
        "\"structured_outputs\": {\"choice\": [\"x\\\"y\"]}",
        "\"structured_outputs\": {\"regex\": \"x\\\"y\"}",
        "\"structured_outputs\": {\"grammar\": \"root ::= \\\"x\\\\\\\"y\\\"\"}",
        "\"guided_choice\": [\"x\\\"y\"]",
        "\"guided_regex\": \"x\\\"y\"",
        "\"grammar\": \"root ::= \\\"x\\\\\\\"y\\\"\"",
    };
    for (size_t i = 0; i < sizeof spelling / sizeof *spelling; i++) {
        char body[256];
        struct exchange x;
        snprintf(body, sizeof body, "{%s, %s}", HI, spelling[i]);
        api_ask(*state, &x, openai_chat_completions, body);
        json_t *reply = api_json(&x);
        assert_string_equal(api_string(reply, "choices.0.message.content"), "x\"y");
        assert_string_equal(api_string(reply, "choices.0.finish_reason"), "stop");
        json_decref(reply);
        fake_release(&x);
    }
}

static void a_prompt_too_long_tells_both_numbers(void **state)
{
    struct exchange x;
    char body[600] = "{\"messages\": [{\"role\": \"user\", \"content\": \"";
    memset(body + strlen(body), 'a', 300);
    strcat(body, "\"}]}");
    api_ask(*state, &x, openai_chat_completions, body);
    assert_int_equal(x.http, 400);
    assert_string_equal(x.error.type, "exceed_context_size_error");
    assert_int_equal(x.error.n_ctx, 256);
    assert_true(x.error.n_prompt > 300);
    fake_release(&x);
}

static void the_template_s_own_refusal_is_told(void **state)
{
    static const char source[] = "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}x";
    struct api_fixture *f = *state;
    struct chat_prompt *before = f->hosted.chat;
    struct mr_error err = {{0}};
    struct exchange x;
    check(chat_prompt_create(&f->hosted.chat, f->model, source, strlen(source), &err), &err);
    api_ask(f, &x, openai_chat_completions,
            "{\"stream\": true, \"messages\": [{\"role\": \"system\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": "
            "\"x\"}]}");
    assert_int_equal(x.http, 400);
    assert_non_null(strstr(x.error.message, "no system here"));
    assert_int_equal(x.n_generated, 0);
    fake_release(&x);
    chat_prompt_free(f->hosted.chat);
    f->hosted.chat = NULL;
    api_ask(f, &x, openai_chat_completions, "{" HI "}");
    assert_int_equal(x.http, 400);
    assert_non_null(strstr(x.error.message, "template"));
    fake_release(&x);
    f->hosted.chat = before;
}

static void contents_may_be_missing_or_in_parts(void **state)
{
    static const char *const messages[] = {
        "[{\"role\": \"user\", \"content\": \"foo bar\"}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"foo \"}, {\"type\": \"text\", \"text\": "
        "\"bar\"}]}]",
    };
    char text[2][64];
    for (size_t i = 0; i < 2; i++) {
        char body[256];
        struct exchange x;
        snprintf(body, sizeof body, "{\"messages\": %s, \"max_tokens\": 3, \"temperature\": 0}", messages[i]);
        api_ask(*state, &x, openai_chat_completions, body);
        json_t *reply = api_json(&x);
        snprintf(text[i], sizeof text[i], "%s", api_string(reply, "choices.0.message.content"));
        json_decref(reply);
        fake_release(&x);
    }
    assert_string_equal(text[0], text[1]);
    struct exchange x;
    api_ask(*state, &x, openai_chat_completions,
            "{\"max_tokens\": 1, \"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"a\", "
            "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}, {\"role\": \"tool\", "
            "\"tool_call_id\": \"a\", \"content\": \"5\"}, {\"role\": \"developer\", \"content\": \"\"}]}");
    assert_int_equal(x.http, 200);
    fake_release(&x);
}

static void depth_and_size_end_in_an_error(void **state)
{
    enum {
        DEPTH = 100000
    };
    char *body = malloc(2 * DEPTH + 64);
    struct exchange x;
    strcpy(body, "{" HI ", \"x\": ");
    memset(body + strlen(body), '[', DEPTH + 1);
    body[strlen("{" HI ", \"x\": ") + DEPTH] = '\0';
    api_ask(*state, &x, openai_chat_completions, body);
    assert_int_equal(x.http, 400);
    fake_release(&x);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_field_is_named),
        cmocka_unit_test(biases_name_tokens_of_the_vocabulary),
        cmocka_unit_test(a_bias_of_100_decides_in_each_of_its_forms),
        cmocka_unit_test(a_constraint_that_cannot_be_enforced_is_refused),
        cmocka_unit_test(an_answer_obeys_in_each_spelling),
        cmocka_unit_test(a_prompt_too_long_tells_both_numbers),
        cmocka_unit_test(the_template_s_own_refusal_is_told),
        cmocka_unit_test(contents_may_be_missing_or_in_parts),
        cmocka_unit_test(depth_and_size_end_in_an_error),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
