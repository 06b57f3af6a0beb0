/* fake_exchange.h: an exchange without sockets: the request is a text, the reply is kept, and answers come from an engine that
 * is stepped here, or from a script. */
#ifndef TESTS_UNIT_SERVER_FAKE_EXCHANGE_H
#define TESTS_UNIT_SERVER_FAKE_EXCHANGE_H

#include <stdlib.h>
#include <string.h>

#include "server/exchange.h"
#include "server/exchange_detach.h"
#include "server/server.h"

/* The texts of the only answer's tokens, and how it ends. */
struct script {
    const char *const *text;
    int n_text;
    enum mr_finish finish;
};

struct exchange {
    struct server *server;
    const char *path, *body, *id_parameter;
    size_t n_body;
    struct mr_engine *engine; /* NULL: the script is played */
    struct script script;

    int http; /* of the reply; 0: none yet */
    char content_type[64];
    struct string_buffer out;
    struct api_error error; /* of a reply that is one */
    int n_reply, n_generated;
    int32_t max_tokens, n_prompt; /* of the last request that was generated */
};

static inline void fake_init(struct exchange *x, struct server *s, const char *body, size_t n)
{
    *x = (struct exchange){.server = s, .path = "/", .body = body, .n_body = n};
    string_buffer_init(&x->out);
}

static inline void fake_release(struct exchange *x) { string_buffer_release(&x->out); }

const char *exchange_method(const struct exchange *x)
{
    (void)x;
    return "POST";
}
const char *exchange_path(const struct exchange *x) { return x->path; }
const char *exchange_parameter(const struct exchange *x, const char *name)
{
    (void)name;
    return x->id_parameter;
}
const char *exchange_query(const struct exchange *x, const char *name)
{
    (void)x;
    (void)name;
    return NULL;
}
const char *exchange_header(const struct exchange *x, const char *name)
{
    (void)x;
    (void)name;
    return NULL;
}
const char *exchange_body(const struct exchange *x, size_t *n)
{
    *n = x->n_body;
    return x->body;
}
const char *exchange_id(const struct exchange *x)
{
    (void)x;
    return "req_0123";
}
const struct api_key *exchange_key(const struct exchange *x)
{
    (void)x;
    return NULL;
}
int64_t exchange_arrival_us(const struct exchange *x)
{
    (void)x;
    return 0;
}
struct server *exchange_server(const struct exchange *x) { return x->server; }

void exchange_reply(struct exchange *x, int http, const char *content_type, const void *bytes, size_t n)
{
    x->n_reply++;
    x->http = http;
    strncpy(x->content_type, content_type, sizeof x->content_type - 1);
    string_buffer_add(&x->out, bytes, n);
}

void exchange_reply_json(struct exchange *x, int http, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    exchange_reply(x, text != NULL ? http : 500, "application/json", text != NULL ? text : "", text != NULL ? strlen(text) : 0);
    free(text);
    json_decref(value);
}

void exchange_fail(struct exchange *x, const struct api_error *e)
{
    x->n_reply++;
    x->http = e->http;
    x->error = *e;
}

void exchange_fail_status(struct exchange *x, enum mr_status status, const struct mr_error *err)
{
    struct api_error e = {.http = status == MR_BAD_INPUT || status == MR_NO_SUPPORT ? 400 : status == MR_NO_MEMORY ? 503 : 500};
    memcpy(e.message, err->message, sizeof e.message);
    exchange_fail(x, &e);
}

void exchange_set_header(struct exchange *x, const char *name, const char *value)
{
    (void)x;
    (void)name;
    (void)value;
}

bool exchange_stages(const struct exchange *x, int i, int64_t stage_us[N_STAGES])
{
    (void)x;
    (void)i;
    for (int k = 0; k < N_STAGES; k++)
        stage_us[k] = 1000 * k;
    return true;
}

/* Nothing goes on by itself here. */
struct exchange *exchange_detach(const struct exchange *x)
{
    (void)x;
    return NULL;
}
uint64_t exchange_detach_end(struct exchange *detached, struct exchange *x)
{
    (void)detached;
    (void)x;
    return 0;
}
void exchange_detach_cancel(struct server *s, uint64_t ticket)
{
    (void)s;
    (void)ticket;
}

bool server_take_model(struct server *s, struct hosted_model *m)
{
    (void)s;
    (void)m;
    return true;
}

bool server_peek_model(struct server *s, struct hosted_model *m) { return server_take_model(s, m); }

void server_give_model(struct server *s, struct hosted_model *m)
{
    (void)s;
    (void)m;
}

void server_touch_model(struct server *s, struct hosted_model *m, int64_t keep_alive_us)
{
    (void)s;
    (void)m;
    (void)keep_alive_us;
}

void exchange_await(struct exchange *x, struct hosted_model *model)
{
    (void)x;
    (void)model;
    abort(); /* all models are loaded */
}

struct hosted_model *server_find_model(struct server *s, const char *name)
{
    if (name == NULL || *name == '\0')
        return s->model;
    for (int i = 0; i < s->n_model; i++)
        if (strcmp(s->model[i].name, name) == 0)
            return &s->model[i];
    return NULL;
}

/* Whether it goes on. */
static inline bool fake_give(struct exchange *x, const struct responder *r, void *self, int i, const struct mr_event *e)
{
    struct mr_error err = {{0}};
    if (e->finish == MR_FINISH_ERROR) {
        struct api_error told = {.http = e->status == MR_BAD_INPUT || e->status == MR_NO_SUPPORT ? 400 : 500};
        strncpy(told.message, e->error != NULL ? e->error : "", sizeof told.message - 1);
        strncpy(told.param, r->constraint != NULL ? r->constraint : "", sizeof told.param - 1);
        exchange_fail(x, &told);
        return false;
    }
    const enum mr_status status = r->event(self, i, e, &x->out, &err);
    if (status == MR_OK)
        return true;
    string_buffer_clear(&x->out);
    exchange_fail_status(x, status, &err);
    return false;
}

static inline bool fake_play(struct exchange *x, const struct responder *r, void *self)
{
    for (int k = 0; k <= x->script.n_text; k++) {
        const bool is_last = k == x->script.n_text;
        const char *text = is_last ? "" : x->script.text[k];
        const struct mr_event e = {.request = 1,
                                   .token = is_last ? -1 : (unsigned char)(*text != '\0' ? *text : ' '),
                                   .text = text,
                                   .n_text = strlen(text),
                                   .finish = is_last ? x->script.finish : MR_FINISH_NONE,
                                   .usage = {.n_prompt = 3, .n_generated = x->script.n_text}};
        if (!fake_give(x, r, self, 0, &e))
            return false;
    }
    return true;
}

static inline bool fake_run(struct exchange *x, const struct responder *r, void *self, const struct mr_request *request, int n)
{
    uint64_t id[64];
    struct mr_event e;
    struct mr_error err = {{0}};
    for (int i = 0; i < n && i < 64; i++) {
        const enum mr_status status = mr_engine_submit(x->engine, &request[i], &id[i], &err);
        if (status != MR_OK) {
            exchange_fail_status(x, status, &err);
            return false;
        }
    }
    bool goes_on = true;
    while (!mr_engine_is_idle(x->engine)) {
        mr_engine_step(x->engine);
        while (mr_engine_next_event(x->engine, &e)) {
            int i = 0;
            while (id[i] != e.request)
                i++;
            goes_on = goes_on && fake_give(x, r, self, i, &e);
        }
    }
    return goes_on;
}

void exchange_generate(struct exchange *x, struct hosted_model *model, const struct mr_request *request, int n,
                       const struct responder *responder, void *self)
{
    struct mr_error err = {{0}};
    (void)model;
    x->n_generated += n;
    x->max_tokens = request[0].max_tokens;
    x->n_prompt = request[0].n_prompt;
    const bool ok = x->engine != NULL ? fake_run(x, responder, self, request, n) : fake_play(x, responder, self);
    if (ok && responder->end(self, &x->out, &err) == MR_OK) {
        x->n_reply++;
        x->http = 200;
        strncpy(x->content_type, responder->content_type, sizeof x->content_type - 1);
    }
    responder->free(self);
}

#endif
