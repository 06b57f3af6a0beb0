/* cors.c: cors_origin is "*" or a list of origins with commas between. */
#include "server/cors.h"

#include <string.h>

#include "server/exchange_state.h"
#include "server/server.h"
#include "server/settings.h"

static bool list_holds(const char *list, const char *origin)
{
    const size_t n = strlen(origin);
    for (const char *p = list; *p != '\0';) {
        const char *next = strchr(p, ',');
        size_t n_this = next != NULL ? (size_t)(next - p) : strlen(p);
        while (n_this > 0 && *p == ' ')
            p++, n_this--;
        if (n_this == n && memcmp(p, origin, n) == 0)
            return true;
        p += n_this + (next != NULL);
    }
    return false;
}

void cors_add_headers(const struct exchange *x, struct MHD_Response *response)
{
    const char *allowed = x->server->settings->cors_origin;
    const char *origin = exchange_header(x, "Origin");
    if (allowed == NULL || origin == NULL)
        return;
    const bool any = strcmp(allowed, "*") == 0;
    MHD_add_response_header(response, "Vary", "Origin");
    if (!any && !list_holds(allowed, origin))
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", any ? "*" : origin);
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "x-request-id, Retry-After, retry-after-ms");
    if (strcmp(x->method, "OPTIONS") != 0)
        return;
    const char *wanted = exchange_header(x, "Access-Control-Request-Headers");
    MHD_add_response_header(response, "Access-Control-Allow-Methods", x->route.methods);
    MHD_add_response_header(response, "Access-Control-Allow-Headers", wanted != NULL ? wanted : "authorization, content-type");
    MHD_add_response_header(response, "Access-Control-Max-Age", "86400");
}
