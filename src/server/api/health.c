/* health.c: what orchestrators ask. */
#include "server/api/health.h"

#include "server/api_error.h"
#include "server/server.h"

static void reply_ok(struct exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "status", "ok")); }

void health_live(struct exchange *x) { reply_ok(x); }

void health_ready(struct exchange *x)
{
    struct api_error e;
    const enum server_phase phase = server_get_phase(exchange_server(x));
    if (phase == SERVER_READY) {
        reply_ok(x);
        return;
    }
    api_error_set(&e, 503, phase == SERVER_LOADING ? "Loading model" : "the server shuts down");
    exchange_fail(x, &e);
}
