/* router.c: looks through the table, row by row: a row differs from a path in its first bytes, most often. */
#include "server/router.h"

#include <stdio.h>
#include <string.h>

/* Whether the path matches, and its parameters. */
static bool matches(const char *pattern, const struct target *target, struct route *out)
{
    out->n_parameter = 0;
    for (int i = 0; i < target->n_segment; i++) {
        if (*pattern++ != '/' || target->segment[i][0] == '\0')
            return false;
        const size_t n = strcspn(pattern, "/");
        if (n > 1 && *pattern == '{' && out->n_parameter < ROUTE_PARAMETERS_MAX)
            out->parameter[out->n_parameter++] =
                (struct route_parameter){.name = pattern + 1, .n_name = n - 2, .value = target->segment[i]};
        else if (strlen(target->segment[i]) != n || memcmp(pattern, target->segment[i], n) != 0)
            return false;
        pattern += n;
    }
    return *pattern == '\0' || (target->n_segment == 0 && strcmp(pattern, "/") == 0);
}

static void add_method(struct route *r, const char *method)
{
    if (strstr(r->methods, method) != NULL)
        return;
    const size_t n = strlen(r->methods);
    snprintf(r->methods + n, sizeof r->methods - n, "%s%s", n > 0 ? ", " : "", method);
}

void route_find(struct route *out, const struct endpoint *table, const char *method, const struct target *target)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *out = (struct route){0};
    for (const struct endpoint *e = table; e->method != NULL; e++) {
        struct route found = {.endpoint = e};
        if (!matches(e->path, target, &found))
            continue;
        add_method(out, e->method);
        if (strcmp(e->method, "GET") == 0)
            add_method(out, "HEAD");
        if (strcmp(e->method, wanted) != 0 || (out->endpoint != NULL && out->n_parameter <= found.n_parameter))
            continue;
        out->endpoint = e;
        out->n_parameter = found.n_parameter;
        memcpy(out->parameter, found.parameter, sizeof found.parameter);
    }
    if (out->methods[0] != '\0')
        add_method(out, "OPTIONS");
}

const char *route_parameter(const struct route *r, const char *name)
{
    for (int i = 0; i < r->n_parameter; i++)
        if (strlen(name) == r->parameter[i].n_name && memcmp(name, r->parameter[i].name, r->parameter[i].n_name) == 0)
            return r->parameter[i].value;
    return NULL;
}
