/* health.c: what orchestrators ask. */
#include "server/api/health.h"

#include "server/api_error.h"
#include "server/engine_pool.h"
#include "server/server.h"

static void reply_ok(struct exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "status", "ok")); }

void health_live(struct exchange *x) { reply_ok(x); }

/* NULL: it can answer now. */
static const char *why_not(struct server *s)
{
    const enum server_phase phase = server_get_phase(s);
    if (phase != SERVER_READY)
        return phase == SERVER_LOADING ? "Loading model" : "the server shuts down";
    if (s->n_model == 0 || !s->model[0].stays || !engine_link_is_pool(s->model[0].engine))
        return NULL;
    struct engine_pool_counts counts;
    engine_pool_counts(s->model[0].engine, &counts);
    return counts.n_active > 0 ? NULL : "no engine process is ready";
}

void health_ready(struct exchange *x)
{
    struct api_error e;
    const char *why = why_not(exchange_server(x));
    if (why == NULL) {
        reply_ok(x);
        return;
    }
    api_error_set(&e, 503, "%s", why);
    exchange_fail(x, &e);
}
