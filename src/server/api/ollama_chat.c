/* ollama_chat.c: POST /api/chat and /api/generate. A stream is JSON objects, one a line. */
#include <string.h>
#include <time.h>

#include "server/api/json_text.h"
#include "server/api/ollama.h"
#include "server/api/openai.h"
#include "server/api/prompt_fields.h"

struct own {
    bool is_generate; /* else chat */
};

static bool is_generate(const struct job *j) { return ((const struct own *)j->own)->is_generate; }

/* {"model", "created_at" */
static json_t *head(const struct job *j)
{
    char now[32];
    ollama_time(now, (int64_t)time(NULL));
    return json_pack("{s:s, s:s}", "model", j->model_name, "created_at", now);
}

static json_t *text(const char *s, size_t n) { return json_stringn_nocheck(n > 0 ? s : "", n); }

/* The calls that are complete, arguments as objects. */
static json_t *calls_json(const json_t *calls)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *f = json_object_get(json_array_get(calls, i), "function"), *text_of = json_object_get(f, "arguments");
        json_t *arguments = json_loadb(json_string_value(text_of), json_string_length(text_of), JSON_ALLOW_NUL, NULL);
        if (json_is_object(arguments))
            json_array_append_new(list, json_pack("{s:{s:i, s:O, s:o}}", "function", "index", (int)i, "name",
                                                  json_object_get(f, "name"), "arguments", arguments));
        else
            json_decref(arguments);
    }
    return list;
}

/* Takes the references; NULL: none. */
static void set_text(const struct job *j, json_t *reply, json_t *content, json_t *thinking, json_t *calls)
{
    json_t *to = reply;
    if (!is_generate(j)) {
        to = json_pack("{s:s}", "role", "assistant");
        json_object_set_new(reply, "message", to);
    }
    json_object_set_new(to, is_generate(j) ? "response" : "content", content);
    if (thinking != NULL)
        json_object_set_new(to, "thinking", thinking);
    if (json_array_size(calls) > 0)
        json_object_set(to, "tool_calls", calls);
    json_decref(calls);
}

static void write_line(struct string_buffer *out, json_t *value)
{
    json_text_value(out, value);
    string_buffer_puts(out, "\n");
}

/* Calls are told whole, when their arguments are complete. */
static void write_piece(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    json_t *reply, *one;
    if (p->kind == MR_PIECE_CALL || p->kind == MR_PIECE_ARGUMENTS)
        return;
    reply = head(j);
    if (p->kind == MR_PIECE_CALL_END) {
        one = json_pack("[O]", json_array_get(a->calls, (size_t)p->call));
        set_text(j, reply, text("", 0), NULL, calls_json(one));
        json_decref(one);
    } else if (p->kind == MR_PIECE_REASONING) {
        set_text(j, reply, text("", 0), text(p->text, p->n_text), NULL);
    } else {
        set_text(j, reply, text(p->text, p->n_text), NULL, NULL);
    }
    json_object_set_new(reply, "done", json_false());
    write_line(out, reply);
}

/* Durations are nanoseconds. */
static void set_end(json_t *reply, const struct answer *a)
{
    const struct mr_usage *u = &a->usage;
    const int64_t total = u->first_token_us + u->generate_us;
    json_object_set_new(reply, "done", json_true());
    json_object_set_new(reply, "done_reason", json_string(a->finish == MR_FINISH_STOP ? "stop" : "length"));
    json_object_set_new(reply, "total_duration", json_integer(total * 1000));
    json_object_set_new(reply, "load_duration", json_integer(0));
    json_object_set_new(reply, "prompt_eval_count", json_integer(u->n_prompt));
    json_object_set_new(reply, "prompt_eval_duration", json_integer(u->prompt_us * 1000));
    json_object_set_new(reply, "eval_count", json_integer(u->n_generated));
    json_object_set_new(reply, "eval_duration", json_integer(u->generate_us * 1000));
}

static void write_answer_end(struct job *j, struct answer *a, struct string_buffer *out)
{
    json_t *reply = head(j);
    set_text(j, reply, text("", 0), NULL, NULL);
    set_end(reply, a);
    write_line(out, reply);
}

static void write_end(struct job *j, struct string_buffer *out)
{
    (void)j;
    (void)out;
}

static void write_whole(struct job *j, struct string_buffer *out)
{
    const struct answer *a = &j->answer[0];
    json_t *reply = head(j);
    set_text(j, reply, text(a->content.s, a->content.n), a->reasoning.n > 0 ? text(a->reasoning.s, a->reasoning.n) : NULL,
             calls_json(a->calls));
    set_end(reply, a);
    json_text_value(out, reply);
}

static void fail(struct job *j, const struct api_error *e, struct string_buffer *out)
{
    (void)j;
    ollama_write_error(e, out);
    string_buffer_puts(out, "\n");
}

static const struct dialect dialect = {.stream_type = "application/x-ndjson",
                                       .piece = write_piece,
                                       .answer_end = write_answer_end,
                                       .end = write_end,
                                       .whole = write_whole,
                                       .fail = fail};

static struct job *open_job(struct exchange *x, bool generate)
{
    struct job *j = job_open(x, &dialect, "ollama-");
    struct own *own = j != NULL ? job_alloc(j, sizeof *own) : NULL;
    if (own == NULL) {
        if (j != NULL)
            job_fail(j);
        return NULL;
    }
    own->is_generate = generate;
    j->own = own;
    ollama_read_common(j);
    return j;
}

/* Reply to a request that only loads, which has been done, or unloads, which its end does. */
static void reply_loaded(struct job *j)
{
    json_t *reply = head(j);
    set_text(j, reply, text("", 0), NULL, NULL);
    json_object_set_new(reply, "done", json_true());
    json_object_set_new(reply, "done_reason", json_string(j->keep_alive_us == 0 ? "unload" : "load"));
    exchange_reply_json(j->x, 200, reply);
    job_free(j);
}

static void check_images(struct job *j, const struct json_fields *f)
{
    const json_t *images = NULL;
    if (json_fields_array(f, "images", &images) && json_array_size(images) > 0)
        json_fields_fail(f, "images", "are not supported");
    (void)j;
}

/* Ollama's messages carry no ids of calls; templates that want one get their order. */
static json_t *chat_request(struct job *j)
{
    json_t *request = openai_chat_request(j);
    json_t *messages = json_object_get(request, "messages"), *arguments = ollama_template_arguments(j);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        char path[32];
        snprintf(path, sizeof path, "messages[%zu]", i);
        const struct json_fields f = {.object = json_array_get(messages, i), .path = path, .error = &j->error};
        check_images(j, &f);
    }
    if (arguments != NULL && (request == NULL || json_object_set(request, "chat_template_kwargs", arguments) != 0))
        api_error_at(&j->error, 503, "", "no memory for the request");
    json_decref(arguments);
    return request;
}

void ollama_chat(struct exchange *x)
{
    struct job *j = open_job(x, false);
    const json_t *tools = NULL;
    if (j == NULL)
        return;
    const json_t *messages = json_fields_get(&j->fields, "messages");
    if (j->error.http == 0 && (messages == NULL || (json_is_array(messages) && json_array_size(messages) == 0))) {
        reply_loaded(j);
        return;
    }
    json_fields_array(&j->fields, "tools", &tools);
    json_t *request = chat_request(j);
    job_render_chat(j, request);
    json_decref(request);
    job_set_calls(j, tools, "auto", true, false);
    job_start(j);
}

/* The prompt as the user's message behind the system's, unless it is raw. */
static void render_generate(struct job *j, const char *prompt)
{
    const char *system = NULL;
    json_t *messages = json_array(), *arguments = ollama_template_arguments(j);
    if (json_fields_string(&j->fields, "system", &system) && *system != '\0')
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", system));
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", prompt));
    json_t *request = json_pack("{s:o, s:o*}", "messages", messages, "chat_template_kwargs", arguments);
    if (request == NULL)
        api_error_at(&j->error, 503, "", "no memory for the request");
    job_render_chat(j, request);
    json_decref(request);
    job_set_calls(j, NULL, "none", false, false);
}

void ollama_generate(struct exchange *x)
{
    struct job *j = open_job(x, true);
    const char *prompt = "", *refused = NULL;
    bool raw = false;
    if (j == NULL)
        return;
    json_fields_string(&j->fields, "prompt", &prompt);
    json_fields_bool(&j->fields, "raw", &raw);
    check_images(j, &j->fields);
    if (json_fields_string(&j->fields, "suffix", &refused) && *refused != '\0')
        json_fields_fail(&j->fields, "suffix", "is not supported; use /infill");
    if (json_fields_string(&j->fields, "template", &refused) && *refused != '\0')
        json_fields_fail(&j->fields, "template", "is not supported; use raw, or --chat-template");
    if (json_array_size(json_fields_get(&j->fields, "context")) > 0)
        json_fields_fail(&j->fields, "context", "is not supported; use /api/chat");
    if (j->error.http == 0 && *prompt == '\0') {
        reply_loaded(j);
        return;
    }
    if (raw || j->model->chat == NULL)
        prompt_fields_read(j, "prompt");
    else
        render_generate(j, prompt);
    job_start(j);
}
