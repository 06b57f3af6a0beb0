/* fuzz_api_request.c: any bytes as the body of a request to any endpoint: each gets one reply, and one that
 * succeeds is JSON, or a stream whose data are. The first byte chooses the endpoint, the second how a scripted answer ends. */
#include <stdlib.h>
#include <string.h>

#include "engine/loaded_model.h"
#include "server/api/anthropic.h"
#include "server/api/completion.h"
#include "server/api/embedding_cache.h"
#include "server/api/embeddings.h"
#include "server/api/ollama.h"
#include "server/api/openai.h"
#include "server/api/responses.h"
#include "server/api/token_endpoints.h"
#include "server/settings.h"
#include "unit/server/fake_exchange.h"
#include "unit/text/vocabulary_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char chat_template[] =
    "{% for m in messages %}{{ '[' + m.role + '] ' + m.content }}{% endfor %}{# <tool_call> arguments <think></think> #}";

static void check(bool ok)
{
    if (!ok)
        abort();
}

static struct server *make_server(void)
{
    static struct mr_model model;
    static struct hosted_model hosted;
    static struct server_settings settings;
    static struct server server;
    static char name[] = "tiny";
    struct vocabulary_bytes b;
    if (server.n_model > 0)
        return &server;
    vb_byte_level(&b);
    b.pre = "gpt-2";
    check(vb_create(&b, &model.tokenizer, NULL) == MR_OK);
    vb_release(&b);
    hosted = (struct hosted_model){.name = name, .model = &model, .n_ctx = 512};
    check(chat_prompt_create(&hosted.chat, &model, chat_template, strlen(chat_template), NULL) == MR_OK);
    server_settings_defaults(&settings);
    server = (struct server){.model = &hosted,
                             .settings = &settings,
                             .n_model = 1,
                             .responses = stored_responses_create(1 << 16),
                             .embeddings = embedding_cache_create(1 << 16)};
    check(server.responses != NULL && server.embeddings != NULL);
    hosted.info = (struct mr_model_info){.n_embd = 8, .pooling = MR_POOLING_MEAN};
    return &server;
}

static void check_json(const char *s, size_t n)
{
    json_error_t why;
    json_t *value = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    check(value != NULL);
    json_decref(value);
}

static void check_reply(const struct exchange *x)
{
    check(x->n_reply == 1 && x->http >= 200 && x->http < 500 && x->out.s != NULL);
    if (strcmp(x->content_type, "application/json") == 0) {
        check_json(x->out.s, x->out.n);
        return;
    }
    if (strcmp(x->content_type, "application/x-ndjson") == 0) {
        for (char *s = x->out.s, *end; (end = strchr(s, '\n')) != NULL; s = end + 1)
            check_json(s, (size_t)(end - s));
        return;
    }
    for (char *s = x->out.s, *end; (end = strstr(s, "\n\n")) != NULL; s = end + 2) {
        char *from = strstr(s, "data: ");
        check(from != NULL && from < end);
        if (strncmp(from + 6, "[DONE]", 6) != 0)
            check_json(from + 6, (size_t)(end - from - 6));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const endpoint[])(struct exchange *) = {
        openai_chat_completions, openai_completions, anthropic_messages, responses_create, ollama_chat,
        ollama_generate,         completion_create,  tokenize_text,      tokenize_back,    tokenize_template,
        completion_infill,       embeddings_create,  embeddings_ollama};
    static const char *const text[] = {"<think>", "hm</think>", "so <tool_call>",
                                       "{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "</tool_call>"};
    struct exchange x;
    if (size < 2)
        return 0;
    fake_init(&x, make_server(), (const char *)data + 2, size - 2);
    x.script = (struct script){text, data[1] % 6, data[1] & 64 ? MR_FINISH_LENGTH : MR_FINISH_STOP};
    endpoint[data[0] % (sizeof endpoint / sizeof *endpoint)](&x);
    if (x.n_generated > 0 && x.http == 200)
        check_reply(&x);
    check(x.n_reply == 1 && x.http != 500);
    fake_release(&x);
    return 0;
}
