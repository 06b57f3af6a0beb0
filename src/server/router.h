/* router.h: which endpoint answers a method and a path. */
#ifndef SERVER_ROUTER_H
#define SERVER_ROUTER_H

#include "server/endpoint.h"
#include "server/target.h"

enum {
    ROUTE_PARAMETERS_MAX = 4,
    ROUTE_METHODS_MAX = 64 /* bytes of a list of methods */
};

struct route_parameter {
    const char *name; /* in the table: "{id}", n_name bytes without the braces */
    size_t n_name;
    const char *value; /* in the target */
};

struct route {
    const struct endpoint *endpoint; /* NULL: no such path, or methods is not empty: another method */
    struct route_parameter parameter[ROUTE_PARAMETERS_MAX];
    int n_parameter;
    char methods[ROUTE_METHODS_MAX]; /* that the path has: "GET, HEAD, OPTIONS"; "": no such path */
};

/* A path that is written out goes before one with parameters. HEAD is answered by the endpoint of GET. */
void route_find(struct route *out, const struct endpoint *table, const char *method, const struct target *target);
const char *route_parameter(const struct route *r, const char *name); /* NULL: none of that name */

#endif
