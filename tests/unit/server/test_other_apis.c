/* test_other_apis.c: the same answers in the words of Anthropic, Ollama, llama-server and OpenAI's responses. */
#include "unit/server/api_fixture.h"

#include "server/api/anthropic.h"
#include "server/api/completion.h"
#include "server/api/ollama.h"
#include "server/api/responses.h"
#include "server/api/token_endpoints.h"

#define SCHEMA "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}"
#define USER   "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"

static const char *const call[] = {"<tool_call>", "{\"name\": \"a", "dd\", \"arguments\": {\"a\"", ": 1",
                                   "5}}",         "</tool_call>"};

static void a_wrong_field_is_named(void **state)
{
    static const struct refused anthropic[] = {
        {"{" USER "}", "max_tokens", 400},
        {"{\"max_tokens\": 5}", "messages", 400},
        {"{\"max_tokens\": 5, \"messages\": [{\"role\": \"system\", \"content\": \"x\"}]}", "messages[0].role", 400},
        {"{\"max_tokens\": 5, \"messages\": [{\"role\": \"user\", \"content\": []}]}", "messages[0].content", 400},
        {"{\"max_tokens\": 5, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "messages[0].content[0].type", 400},
        {"{\"max_tokens\": 5, " USER ", \"system\": 5}", "system", 400},
        {"{\"max_tokens\": 5, " USER ", \"tools\": [{}]}", "tools[0].input_schema", 400},
        {"{\"max_tokens\": 5, " USER ", \"tool_choice\": {\"type\": \"some\"}}", "tool_choice.type", 400},
        {"{\"max_tokens\": 5, " USER ", \"stop_sequences\": [5]}", "stop_sequences", 400},
    };
    static const struct refused responses[] = {
        {"{}", "input", 400},
        {"{\"input\": []}", "input", 400},
        {"{\"input\": [5]}", "input[0]", 400},
        {"{\"input\": [{\"type\": \"image\"}]}", "input[0].type", 400},
        {"{\"input\": [{\"role\": \"user\"}]}", "input[0].content", 400},
        {"{\"input\": [{\"role\": \"alien\", \"content\": \"x\"}]}", "input[0].role", 400},
        {"{\"input\": \"x\", \"background\": true, \"stream\": true}", "stream", 400},
        {"{\"input\": \"x\", \"background\": true, \"store\": false}", "store", 400},
        {"{\"input\": \"x\", \"truncation\": \"auto\"}", "truncation", 400},
        {"{\"input\": \"x\", \"previous_response_id\": \"resp_x\"}", "previous_response_id", 404},
        {"{\"input\": \"x\", \"tools\": [{\"type\": \"web_search\"}]}", "tools[0].type", 400},
        {"{\"input\": \"x\", \"text\": {\"format\": {\"type\": \"json_schema\"}}}", "text.format.schema", 400},
        {"{\"input\": \"x\", \"text\": {\"format\": {\"type\": \"json_schema\", \"schema\": false}}}", "text.format", 400},
    };
    static const struct refused ollama[] = {
        {"{" USER "}", "model", 400},
        {"{\"model\": \"other\", " USER "}", "model", 404},
        {"{\"model\": \"tiny\", " USER ", \"format\": \"xml\"}", "format", 400},
        {"{\"model\": \"tiny\", " USER ", \"options\": {\"temperature\": -1}}", "options.temperature", 400},
        {"{\"model\": \"tiny\", " USER ", \"options\": {\"mirostat\": 1}}", "options.mirostat", 400},
        {"{\"model\": \"tiny\", \"messages\": [{\"role\": \"user\", \"content\": \"x\", \"images\": [\"a\"]}]}",
         "messages[0].images", 400},
        {"{\"model\": \"tiny\", " USER ", \"think\": 5}", "think", 400},
    };
    assert_refused(*state, anthropic_messages, anthropic, sizeof anthropic / sizeof *anthropic);
    assert_refused(*state, responses_create, responses, sizeof responses / sizeof *responses);
    assert_refused(*state, ollama_chat, ollama, sizeof ollama / sizeof *ollama);
}

static void anthropic_tells_a_call_as_a_block(void **state)
{
    struct exchange x;
    api_play(*state, &x, anthropic_messages,
             "{\"max_tokens\": 9, " USER ", \"tools\": [{\"name\": \"add\", \"input_schema\": " SCHEMA "}]}", call, 6,
             MR_FINISH_STOP);
    json_t *reply = api_json(&x);
    assert_string_equal(api_string(reply, "stop_reason"), "tool_use");
    assert_string_equal(api_string(reply, "content.0.name"), "add");
    assert_int_equal(json_integer_value(api_at(reply, "content.0.input.a")), 15);
    json_decref(reply);
    fake_release(&x);
    api_play(*state, &x, anthropic_messages,
             "{\"max_tokens\": 9, \"stream\": true, " USER ", \"tools\": [{\"name\": \"add\", \"input_schema\": " SCHEMA "}]}",
             call, 6, MR_FINISH_STOP);
    json_t *events = api_events(&x);
    static const char *const order[] = {"message_start",      "content_block_start", "content_block_delta",
                                        "content_block_stop", "message_delta",       "message_stop"};
    struct string_buffer input;
    size_t at = 0;
    string_buffer_init(&input);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        at += i > 0 && strcmp(api_string(e, "type"), order[at]) != 0;
        assert_string_equal(api_string(e, "type"), order[at]);
        if (api_string(e, "delta.partial_json") != NULL)
            string_buffer_puts(&input, api_string(e, "delta.partial_json"));
    }
    assert_int_equal(at, 5);
    assert_string_equal(input.s, "{\"a\": 15}");
    string_buffer_release(&input);
    json_decref(events);
    fake_release(&x);
}

static void anthropic_tells_which_sequence_stopped_it(void **state)
{
    struct exchange x;
    api_ask(*state, &x, anthropic_messages,
            "{\"max_tokens\": 50, " USER ", \"temperature\": 0, \"stop_sequences\": [\"zzzz\", \"a\", \"e\", \"i\", \"o\", "
            "\"u\", \"t\", \"]\", \"X\", \"Q\", \"B\"]}");
    json_t *reply = api_json(&x);
    const bool stopped = strcmp(api_string(reply, "stop_reason"), "stop_sequence") == 0;
    assert_int_equal(stopped, json_is_string(api_at(reply, "stop_sequence")));
    json_decref(reply);
    fake_release(&x);
}

static void a_response_is_kept_and_gone_on_from(void **state)
{
    static const char *const text[] = {"he", "llo"};
    struct api_fixture *f = *state;
    struct exchange x;
    char body[160];
    api_play(f, &x, responses_create, "{\"input\": \"hi\"}", text, 2, MR_FINISH_STOP);
    json_t *first = api_json(&x);
    assert_string_equal(api_string(first, "status"), "completed");
    assert_string_equal(api_string(first, "output.0.content.0.text"), "hello");
    const int n_prompt = x.n_prompt;
    fake_release(&x);
    snprintf(body, sizeof body, "{\"input\": \"more\", \"previous_response_id\": \"%s\"}", api_string(first, "id"));
    api_play(f, &x, responses_create, body, text, 2, MR_FINISH_LENGTH);
    assert_true(x.n_prompt > n_prompt + 5);
    json_t *second = api_json(&x);
    assert_string_equal(api_string(second, "status"), "incomplete");
    fake_release(&x);
    fake_init(&x, &f->server, "", 0);
    x.id_parameter = api_string(first, "id");
    responses_get(&x);
    json_t *got = api_json(&x);
    assert_true(json_equal(got, first));
    fake_release(&x);
    for (int i = 0; i < 2; i++) {
        fake_init(&x, &f->server, "", 0);
        x.id_parameter = api_string(first, "id");
        responses_delete(&x);
        assert_int_equal(x.http, i == 0 ? 200 : 404);
        fake_release(&x);
    }
    json_decref(got);
    json_decref(first);
    json_decref(second);
}

static void events_of_a_response_are_numbered_and_join(void **state)
{
    static const char *const text[] = {"he", "llo"};
    struct exchange x;
    api_play(*state, &x, responses_create, "{\"input\": \"hi\", \"stream\": true, \"store\": false}", text, 2, MR_FINISH_STOP);
    json_t *events = api_events(&x);
    struct string_buffer joined;
    string_buffer_init(&joined);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        assert_int_equal(json_integer_value(api_at(e, "sequence_number")), i);
        if (strcmp(api_string(e, "type"), "response.output_text.delta") == 0)
            string_buffer_puts(&joined, api_string(e, "delta"));
    }
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(joined.s, "hello");
    assert_string_equal(api_string(last, "type"), "response.completed");
    assert_string_equal(api_string(last, "response.output.0.content.0.text"), "hello");
    string_buffer_release(&joined);
    json_decref(events);
    fake_release(&x);
}

static void a_running_response_can_be_cancelled(void **state)
{
    (void)state;
    struct stored_responses *s = stored_responses_create(1 << 16);
    bool was_running;
    uint64_t ticket;
    struct stored_response *r = stored_responses_begin(s, "resp_1", 7, "{}");
    assert_false(stored_responses_cancel(s, "resp_1", 8, "{}", &was_running, &ticket)); /* another's */
    assert_false(stored_response_is_cancelled(r));
    assert_true(stored_responses_cancel(s, "resp_1", 7, "{}", &was_running, &ticket));
    assert_true(was_running && ticket == 0 && stored_response_is_cancelled(r));
    stored_response_drop(s, r);
    assert_false(stored_responses_delete(s, "resp_1", 7, &ticket)); /* it never ended */
    for (int i = 0; i < 2 * STORED_RESPONSES_MAX; i++) {
        char id[32];
        snprintf(id, sizeof id, "resp_%d", i);
        r = stored_responses_begin(s, id, 0, "{}");
        stored_responses_finish(s, r, "{\"a\":1}", "[]");
        stored_response_drop(s, r);
    }
    struct string_buffer text;
    string_buffer_init(&text);
    assert_false(stored_responses_get(s, "resp_1", 0, &text)); /* the oldest went */
    assert_true(stored_responses_get(s, "resp_2047", 0, &text));
    string_buffer_release(&text);
    stored_responses_free(s);
}

/* What GET gives. */
static void assert_stored(struct stored_responses *s, const char *id, const char *expected)
{
    struct string_buffer text;
    string_buffer_init(&text);
    assert_int_equal(stored_responses_get(s, id, 7, &text), expected != NULL);
    if (expected != NULL)
        assert_string_equal(text.s, expected);
    string_buffer_release(&text);
}

static void a_response_in_the_background_is_kept_when_it_is_cancelled(void **state)
{
    (void)state;
    struct stored_responses *s = stored_responses_create(1 << 16);
    bool was_running;
    uint64_t ticket;
    struct stored_response *r = stored_responses_begin(s, "resp_1", 7, "queued");
    stored_responses_set_ticket(s, "resp_1", 7, 99);
    stored_responses_update(s, r, "in progress", false);
    assert_stored(s, "resp_1", "in progress");
    assert_true(stored_responses_cancel(s, "resp_1", 7, "cancelled", &was_running, &ticket));
    assert_true(was_running && ticket == 99);
    stored_responses_update(s, r, "failed", true); /* what comes too late changes nothing */
    stored_responses_finish(s, r, "done", "[]");
    stored_response_drop(s, r);
    assert_stored(s, "resp_1", "cancelled");
    assert_true(stored_responses_cancel(s, "resp_1", 7, "again", &was_running, &ticket));
    assert_true(!was_running && ticket == 0);
    assert_stored(s, "resp_1", "cancelled");
    r = stored_responses_begin(s, "resp_2", 7, "queued");
    stored_responses_set_ticket(s, "resp_2", 7, 100);
    stored_responses_update(s, r, "failed", true);
    stored_response_drop(s, r);
    assert_stored(s, "resp_2", "failed");
    r = stored_responses_begin(s, "resp_3", 7, "queued");
    stored_responses_set_ticket(s, "resp_3", 7, 101);
    assert_true(stored_responses_delete(s, "resp_3", 7, &ticket) && ticket == 101);
    stored_responses_finish(s, r, "done", "[]");
    stored_response_drop(s, r);
    assert_stored(s, "resp_3", NULL);
    stored_responses_free(s);
}

static void ollama_s_stream_is_lines(void **state)
{
    struct exchange x;
    api_play(*state, &x, ollama_chat,
             "{\"model\": \"tiny:latest\", " USER ", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"add\", "
             "\"parameters\": " SCHEMA "}}]}",
             call, 6, MR_FINISH_STOP);
    assert_string_equal(x.content_type, "application/x-ndjson");
    json_t *first = json_loadb(x.out.s, (size_t)(strchr(x.out.s, '\n') - x.out.s), 0, NULL);
    assert_int_equal(json_integer_value(api_at(first, "message.tool_calls.0.function.arguments.a")), 15);
    json_decref(first);
    fake_release(&x);
    api_ask(*state, &x, ollama_generate, "{\"model\": \"tiny\"}");
    json_t *loaded = api_json(&x);
    assert_string_equal(api_string(loaded, "done_reason"), "load");
    json_decref(loaded);
    fake_release(&x);
}

static void the_native_form_tells_why_it_stopped(void **state)
{
    static const struct {
        const char *fields, *type, *word;
    } row[] = {{"\"n_predict\": 3, \"logit_bias\": {\"65\": 100}", "limit", ""},
               {"\"n_predict\": 9, \"logit_bias\": {\"65\": 100}, \"stop\": [\"AAA\", \"AAAA\"]", "word", "AAA"},
               {"\"n_predict\": 9, \"logit_bias\": {\"0\": 100}, \"stop\": [\"AAA\"]", "eos", ""}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char body[256];
        struct exchange x;
        snprintf(body, sizeof body, "{\"prompt\": \"ab\", \"temperature\": 0, %s}", row[i].fields);
        api_ask(*state, &x, completion_create, body);
        json_t *reply = api_json(&x);
        assert_string_equal(api_string(reply, "stop_type"), row[i].type);
        assert_string_equal(api_string(reply, "stopping_word"), row[i].word);
        json_decref(reply);
        fake_release(&x);
    }
}

static void texts_and_ids_go_both_ways(void **state)
{
    struct exchange x;
    api_ask(*state, &x, tokenize_text, "{\"content\": \"ab\\u00e9\", \"with_pieces\": true}");
    json_t *reply = api_json(&x);
    assert_int_equal(json_array_size(api_at(reply, "tokens")), 4);
    assert_string_equal(api_string(reply, "tokens.0.piece"), "a");
    assert_int_equal(json_integer_value(api_at(reply, "tokens.2.piece.0")), 0xc3);
    json_decref(reply);
    fake_release(&x);
    api_ask(*state, &x, tokenize_back, "{\"tokens\": [97, 98, 195, 169]}");
    reply = api_json(&x);
    assert_string_equal(api_string(reply, "content"), "ab\xc3\xa9");
    json_decref(reply);
    fake_release(&x);
    static const struct refused r[] = {{"{\"tokens\": [256]}", "tokens", 400}, {"{}", "tokens", 400}};
    assert_refused(*state, tokenize_back, r, 2);
    api_ask(*state, &x, tokenize_template, "{" USER "}");
    reply = api_json(&x);
    assert_string_equal(api_string(reply, "prompt"), "[user] hi[assistant] ");
    json_decref(reply);
    fake_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_field_is_named),
        cmocka_unit_test(anthropic_tells_a_call_as_a_block),
        cmocka_unit_test(anthropic_tells_which_sequence_stopped_it),
        cmocka_unit_test(a_response_is_kept_and_gone_on_from),
        cmocka_unit_test(events_of_a_response_are_numbered_and_join),
        cmocka_unit_test(a_running_response_can_be_cancelled),
        cmocka_unit_test(a_response_in_the_background_is_kept_when_it_is_cancelled),
        cmocka_unit_test(ollama_s_stream_is_lines),
        cmocka_unit_test(the_native_form_tells_why_it_stopped),
        cmocka_unit_test(texts_and_ids_go_both_ways),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
