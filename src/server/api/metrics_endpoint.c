/* metrics_endpoint.c: writes the metrics; no engine is waited for. */
#include "server/api/metrics_endpoint.h"

#include <stdio.h>

#include "server/api_error.h"
#include "server/metrics.h"
#include "server/server.h"

void metrics_show(struct exchange *x)
{
    struct server *s = exchange_server(x);
    struct string_buffer page;
    struct mr_error err;
    struct api_error e;
    string_buffer_init(&page);
    const enum mr_status status = metrics_write(s->metrics, exchange_query(x, "names"), &page, &err);
    if (status == MR_OK) {
        exchange_reply(x, 200, METRICS_CONTENT_TYPE, page.s, page.n);
    } else {
        api_error_set(&e, status == MR_NOT_FOUND ? 400 : 503, "%s", err.message);
        snprintf(e.param, sizeof e.param, status == MR_NOT_FOUND ? "names" : "");
        exchange_fail(x, &e);
    }
    string_buffer_release(&page);
}
