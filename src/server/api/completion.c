/* completion.c: a text is continued. */
#include "server/api/completion.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "server/exchange.h"
#include "server/server.h"

struct completion {
    bool is_stream;
    struct string_buffer text; /* of an answer that is not streamed */
    enum mr_finish finish;
    struct mr_usage usage;
};

static enum mr_status add_json(struct string_buffer *out, json_t *value, bool is_event, struct mr_error *err)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(value);
    if (text == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the reply");
    string_buffer_puts(out, is_event ? "data: " : "");
    string_buffer_puts(out, text);
    string_buffer_puts(out, is_event ? "\n\n" : "");
    free(text);
    return MR_OK;
}

static json_t *finish_json(const struct completion *c, const char *text, size_t n)
{
    const char *type = c->finish == MR_FINISH_LENGTH ? "limit" : "eos";
    return json_pack("{s:s%, s:b, s:s, s:i, s:i, s:i, s:{s:i, s:i, s:f, s:f}}", "content", text, n, "stop", 1, "stop_type",
                     type, "tokens_predicted", c->usage.n_generated, "tokens_evaluated", c->usage.n_prompt, "tokens_cached",
                     c->usage.n_cached, "timings", "prompt_n", c->usage.n_prompt, "predicted_n", c->usage.n_generated,
                     "prompt_ms", (double)c->usage.prompt_us / 1e3, "predicted_ms", (double)c->usage.generate_us / 1e3);
}

static enum mr_status take_event(void *self, int i, const struct mr_event *event, struct string_buffer *out,
                                 struct mr_error *err)
{
    struct completion *c = self;
    (void)i;
    c->finish = event->finish;
    c->usage = event->usage;
    if (!c->is_stream)
        string_buffer_add(&c->text, event->text, event->n_text);
    else if (event->n_text > 0)
        return add_json(out, json_pack("{s:s%, s:b}", "content", event->text, event->n_text, "stop", 0), true, err);
    return MR_OK;
}

static enum mr_status finish(void *self, struct string_buffer *out, struct mr_error *err)
{
    const struct completion *c = self;
    const char *text = c->text.s != NULL ? c->text.s : "";
    return add_json(out, finish_json(c, text, c->text.n), c->is_stream, err);
}

static void fail(void *self, const struct api_error *e, struct string_buffer *out)
{
    (void)self;
    add_json(out, json_pack("{s:{s:s, s:i}}", "error", "message", e->message, "code", e->http), true, NULL);
}

static void free_completion(void *self)
{
    struct completion *c = self;
    string_buffer_release(&c->text);
    free(c);
}

/* The body's fields into the request and its responder; *prompt is freed by the caller. */
static enum mr_status read_fields(const struct hosted_model *m, json_t *body, struct mr_request *request, int32_t **prompt,
                                  struct completion *c, struct mr_error *err)
{
    const char *text;
    size_t n_text;
    int stream = 0, ignore_eos = 0, n_predict = -1;
    json_int_t seed = 0;
    double temperature = (double)request->sampling.temperature;
    json_error_t fault;
    *prompt = NULL;
    if (json_unpack_ex(body, &fault, 0, "{s:s%, s?b, s?i, s?b, s?F, s?I}", "prompt", &text, &n_text, "stream", &stream,
                       "n_predict", &n_predict, "ignore_eos", &ignore_eos, "temperature", &temperature, "seed", &seed) != 0)
        return mr_fail(err, MR_BAD_INPUT, "%s", fault.text);
    MR_TRY(mr_tokenize(m->model, text, n_text, false, prompt, &request->n_prompt, err));
    request->prompt = *prompt;
    request->max_tokens = n_predict;
    request->ignore_eos = ignore_eos;
    request->sampling.seed = (uint64_t)seed;
    request->sampling.temperature = (float)temperature;
    c->is_stream = stream;
    return MR_OK;
}

void completion_create(struct exchange *x)
{
    struct hosted_model *m = server_find_model(exchange_server(x), NULL);
    struct responder responder = {.event = take_event, .end = finish, .fail = fail, .free = free_completion};
    struct completion *c = mem_zero_array(1, sizeof *c);
    struct mr_request request;
    struct mr_error err = {{0}};
    int32_t *prompt = NULL;
    size_t n;
    json_error_t fault;
    const char *bytes = exchange_body(x, &n);
    json_t *body = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &fault);
    enum mr_status status = c != NULL ? MR_OK : MR_NO_MEMORY;
    mr_request_defaults(&request);
    if (body == NULL)
        status = mr_fail(&err, MR_BAD_INPUT, "the body is not JSON: %s", fault.text);
    if (status == MR_OK)
        status = read_fields(m, body, &request, &prompt, c, &err);
    if (status == MR_OK) {
        responder.is_stream = c->is_stream;
        responder.content_type = c->is_stream ? "text/event-stream" : "application/json";
        responder.keep_alive = c->is_stream ? ": keep-alive\n\n" : NULL;
        exchange_generate(x, m, &request, 1, &responder, c);
    } else {
        exchange_fail_status(x, status, &err);
        if (c != NULL)
            free_completion(c);
    }
    mr_tokens_free(prompt);
    json_decref(body);
}
