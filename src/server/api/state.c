/* state.c: what the server is and does. */
#include "server/api/state.h"

#include <stdio.h>

#include "server/api_error.h"
#include "server/engine_link.h"
#include "server/server.h"
#include "server/settings.h"

void state_version(struct exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "version", MILLRACE_VERSION)); }

static int32_t count_requests(struct server *s)
{
    int32_t n = 0;
    for (int i = 0; i < s->n_model; i++) {
        struct mr_engine_stats stats;
        if (!server_peek_model(s, &s->model[i]))
            continue;
        engine_link_stats(s->model[i].engine, &stats);
        server_give_model(s, &s->model[i]);
        n += stats.n_running + stats.n_waiting;
    }
    return n;
}

void state_load(struct exchange *x)
{
    exchange_reply_json(x, 200, json_pack("{s:i}", "server_load", count_requests(exchange_server(x))));
}

struct hosted_model *state_wanted_model(struct exchange *x)
{
    const char *name = exchange_query(x, "model");
    struct hosted_model *m = server_find_model(exchange_server(x), name);
    struct api_error e;
    if (m != NULL && server_peek_model(exchange_server(x), m))
        return m;
    if (m != NULL) {
        api_error_set(&e, 503, "the model '%s' is not loaded", m->name);
        exchange_fail(x, &e);
        return NULL;
    }
    api_error_set(&e, 404, "the model '%s' does not exist", name != NULL ? name : "");
    e.code = "model_not_found";
    snprintf(e.param, sizeof e.param, "model");
    exchange_fail(x, &e);
    return NULL;
}

void state_props(struct exchange *x)
{
    const struct server_settings *settings = exchange_server(x)->settings;
    struct hosted_model *m = state_wanted_model(x);
    if (m == NULL)
        return;
    json_t *props =
        json_pack("{s:{s:i}, s:i, s:s, s:s, s:s, s:s}", "default_generation_settings", "n_ctx", m->n_ctx, "total_slots",
                  settings->engine.max_running, "model_path", m->path, "model_alias", m->name, "chat_template",
                  m->chat != NULL ? chat_prompt_template(m->chat) : "", "build_info", "millrace " MILLRACE_VERSION);
    exchange_reply_json(x, 200, props);
    server_give_model(exchange_server(x), m);
}
