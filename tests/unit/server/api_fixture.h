/* api_fixture.h: endpoints over a small random model, asked without a socket. */
#ifndef TESTS_UNIT_SERVER_API_FIXTURE_H
#define TESTS_UNIT_SERVER_API_FIXTURE_H

#include "server/api/embedding_cache.h"
#include "server/api/stored_responses.h"
#include "server/settings.h"
#include "unit/engine/engine_fixture.h"
#include "unit/server/fake_exchange.h"

#define FIXTURE_TEMPLATE                                                                                                       \
    "{% for m in messages %}{{ '[' + m.role + '] ' + m.content }}{% endfor %}{{ '[assistant] ' }}{# <tool_call> arguments #}"

struct api_fixture {
    struct mr_model *model;
    struct mr_engine *engine;
    struct hosted_model hosted;
    struct server_settings settings;
    struct server server;
};

typedef void endpoint_fn(struct exchange *x);

static inline int api_setup(void **state)
{
    static struct api_fixture f;
    static char name[] = "tiny";
    struct mr_error err = {{0}};
    f = (struct api_fixture){.model = fixture_model(1)};
    f.engine = fixture_engine(f.model, 8, 64, 256);
    f.hosted = (struct hosted_model){.name = name, .model = f.model, .n_ctx = 256, .created = 1};
    check(chat_prompt_create(&f.hosted.chat, f.model, FIXTURE_TEMPLATE, strlen(FIXTURE_TEMPLATE), &err), &err);
    mr_model_info(f.model, &f.hosted.info);
    server_settings_defaults(&f.settings);
    f.server = (struct server){.model = &f.hosted,
                               .settings = &f.settings,
                               .n_model = 1,
                               .responses = stored_responses_create(1 << 20),
                               .embeddings = embedding_cache_create(1 << 20)};
    *state = &f;
    return 0;
}

static inline int api_teardown(void **state)
{
    struct api_fixture *f = *state;
    stored_responses_free(f->server.responses);
    embedding_cache_free(f->server.embeddings);
    chat_prompt_free(f->hosted.chat);
    mr_engine_free(f->engine);
    mr_model_close(f->model);
    return 0;
}

/* Ask, by the engine. Release x. */
static inline void api_ask(struct api_fixture *f, struct exchange *x, endpoint_fn *endpoint, const char *body)
{
    fake_init(x, &f->server, body, strlen(body));
    x->engine = f->engine;
    endpoint(x);
    assert_int_equal(x->n_reply, 1);
}

/* Ask, and let the script answer. */
static inline void api_play(struct api_fixture *f, struct exchange *x, endpoint_fn *endpoint, const char *body,
                            const char *const *text, int n_text, enum mr_finish finish)
{
    fake_init(x, &f->server, body, strlen(body));
    x->script = (struct script){text, n_text, finish};
    endpoint(x);
    assert_int_equal(x->n_reply, 1);
}

static inline json_t *api_json(const struct exchange *x)
{
    json_error_t why;
    json_t *value = json_loadb(x->out.s, x->out.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (value == NULL)
        fail_msg("no JSON: %s in %.*s", why.text, (int)x->out.n, x->out.s);
    return value;
}

/* The data of a stream's events, as an array; "[DONE]" is a string. */
static inline json_t *api_events(const struct exchange *x)
{
    json_t *list = json_array();
    json_error_t why;
    for (char *s = x->out.s, *end; s < x->out.s + x->out.n; s = end + 2) {
        end = strstr(s, "\n\n");
        assert_non_null(end);
        if (strncmp(s, "event: ", 7) == 0)
            s = strchr(s, '\n') + 1;
        assert_memory_equal(s, "data: ", 6);
        s += 6;
        json_t *value =
            strncmp(s, "[DONE]", 6) == 0 ? json_string("[DONE]") : json_loadb(s, (size_t)(end - s), JSON_ALLOW_NUL, &why);
        if (value == NULL)
            fail_msg("no JSON: %s in %.*s", why.text, (int)(end - s), s);
        json_array_append_new(list, value);
    }
    return list;
}

/* A member by its path: "choices.0.message.content". NULL: not there. */
static inline json_t *api_at(const json_t *v, const char *path)
{
    char name[64];
    const json_t *at = v;
    while (at != NULL && *path != '\0') {
        const size_t n = strcspn(path, ".");
        memcpy(name, path, n);
        name[n] = '\0';
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(name)) : json_object_get(at, name);
        path += n + (path[n] == '.');
    }
    return (json_t *)(uintptr_t)at;
}

static inline const char *api_string(const json_t *v, const char *path) { return json_string_value(api_at(v, path)); }

/* What a field of the body brought about. */
struct refused {
    const char *body, *param;
    int http;
};

static inline void assert_refused(struct api_fixture *f, endpoint_fn *endpoint, const struct refused *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct exchange x;
        api_ask(f, &x, endpoint, r[i].body);
        if (x.http != r[i].http || strcmp(x.error.param, r[i].param) != 0)
            fail_msg("%s: %d '%s' (%s), expected %d '%s'", r[i].body, x.http, x.error.param, x.error.message, r[i].http,
                     r[i].param);
        assert_int_equal(x.out.n, 0);
        fake_release(&x);
    }
}

#endif
