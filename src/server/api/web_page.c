/* web_page.c: GET / and /web/{name}: the chat, the jobs and the dashboard. */
#include "server/api/web_page.h"

#include "server/exchange.h"
#include "server/page.h"

static const struct {
    const char *name, *value;
} headers[] = {
    {"cache-control", "no-cache"}, /* kept, and asked for again with its etag: a new program's page is seen at once */
    {"content-security-policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"},
    {"x-content-type-options", "nosniff"},
    {"referrer-policy", "no-referrer"},
    {"cross-origin-opener-policy", "same-origin"},
    {"permissions-policy", "camera=(), geolocation=(), microphone=()"},
};

static void send_file(struct exchange *x, const char *name)
{
    const struct page_file *file = page_find(name);
    if (file == NULL) {
        exchange_fail(x, &(struct api_error){.http = 404, .message = "the page has no such file"});
        return;
    }
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        exchange_set_header(x, headers[i].name, headers[i].value);
    }
    exchange_set_header(x, "etag", file->etag);
    if (page_is_known(file, exchange_header(x, "if-none-match"))) {
        exchange_reply(x, 304, page_content_type(name), "", 0);
    } else {
        exchange_reply(x, 200, page_content_type(name), file->bytes, file->n);
    }
}

void web_page_index(struct exchange *x) { send_file(x, "index.html"); }

void web_page_file(struct exchange *x) { send_file(x, exchange_parameter(x, "name")); }
