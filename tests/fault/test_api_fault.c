/* test_api_fault.c: requests of every API with no memory: 503 or a whole reply, and nothing leaks. */
#include "fault/failing_malloc.h"
#include "unit/server/api_fixture.h"

#include "server/api/anthropic.h"
#include "server/api/completion.h"
#include "server/api/ollama.h"
#include "server/api/openai.h"
#include "server/api/responses.h"

#define USER "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"
#define TOOLS                                                                                                                  \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", "           \
    "\"properties\": {\"a\": {\"type\": \"integer\"}}}}}]"

static const struct row {
    endpoint_fn *endpoint;
    const char *body;
} rows[] = {
    {openai_chat_completions, "{" USER ", " TOOLS ", \"stop\": [\"a\", \"b\"], \"logit_bias\": [[\"x\", 1]]}"},
    {openai_chat_completions, "{" USER ", " TOOLS ", \"stream\": true, \"stream_options\": {\"include_usage\": true}}"},
    {openai_completions, "{\"prompt\": \"abc\", \"echo\": true, \"logprobs\": 1, \"guided_choice\": [\"a\"]}"},
    {anthropic_messages, "{\"max_tokens\": 5, \"system\": \"s\", " USER "}"},
    {anthropic_messages, "{\"max_tokens\": 5, \"stream\": true, " USER "}"},
    {responses_create, "{\"input\": \"hi\", \"stream\": true}"},
    {responses_create, "{\"input\": [{\"role\": \"user\", \"content\": \"hi\"}], \"instructions\": \"i\"}"},
    {ollama_chat, "{\"model\": \"tiny\", " USER ", " TOOLS "}"},
    {ollama_generate, "{\"model\": \"tiny\", \"prompt\": \"a\", \"stream\": false}"},
    {completion_create, "{\"prompt\": \"abc\", \"stop\": [\"x\"]}"},
};

static struct api_fixture *fixture;

static enum mr_status ask(void *context)
{
    static const char *const text[] = {"so ", "<tool_call>", "{\"name\": \"add\", \"arguments\": {\"a\": 1}}", "</tool_call>"};
    const struct row *r = context;
    struct exchange x;
    fake_init(&x, &fixture->server, r->body, strlen(r->body));
    x.script = (struct script){text, 4, MR_FINISH_STOP};
    r->endpoint(&x);
    const int http = x.n_reply == 1 ? x.http : 503; /* the end had no memory */
    fake_release(&x);
    return http == 200 ? MR_OK : http == 503 ? MR_NO_MEMORY : MR_BAD_INPUT;
}

static void requests_without_memory(void **state)
{
    fixture = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct row r = rows[i];
        assert_true(check_every_allocation(ask, &r) > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_without_memory)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
