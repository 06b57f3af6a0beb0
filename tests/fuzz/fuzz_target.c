/* fuzz_target.c: request lines: whatever is taken apart is UTF-8 within the bytes that came, and routes to at most one row. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "server/router.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_text(const char *s, size_t n_most) { check(strlen(s) <= n_most && utf8_is_valid(s, strlen(s))); }

/* "METHOD TARGET" */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct target t;
    struct route r;
    char *text = mem_string((const char *)bytes, n);
    check(text != NULL);
    char *target = strchr(text, ' ');
    if (target != NULL)
        *target++ = '\0';
    const char *method = target != NULL ? text : "GET";
    if (target_parse(&t, target != NULL ? target : text, NULL) == MR_OK) {
        for (int i = 0; i < t.n_segment; i++)
            check_text(t.segment[i], n);
        for (int i = 0; i < t.n_query; i++) {
            check_text(t.query[i].name, n);
            check_text(t.query[i].value, n);
            check(target_find_query(&t, t.query[i].name) != NULL);
        }
        route_find(&r, endpoint_table, method, &t);
        check(r.endpoint == NULL || r.methods[0] != '\0');
        check(r.endpoint == NULL || strcmp(r.endpoint->method, method) == 0 || strcmp(method, "HEAD") == 0);
        for (int i = 0; i < r.n_parameter; i++)
            check(r.parameter[i].value[0] != '\0');
    }
    target_release(&t);
    free(text);
    return 0;
}
