/* target.h: the target of a request line (RFC 9112, section 3.2): path and query, percent-encoding taken out. */
#ifndef SERVER_TARGET_H
#define SERVER_TARGET_H

#include "base/status.h"

enum {
    TARGET_SEGMENTS_MAX = 16,
    TARGET_QUERIES_MAX = 32,
    TARGET_BYTES_MAX = 8192
};

struct target_query {
    const char *name, *value;
};

/* Strings lead into text and are UTF-8 without NUL. A segment may hold a slash that was written as %2F. */
struct target {
    char *text;
    const char *path; /* as it was sent, without the query; printable ASCII */
    const char *segment[TARGET_SEGMENTS_MAX];
    int n_segment; /* "/" has none; a slash at the end counts for nothing */
    struct target_query query[TARGET_QUERIES_MAX];
    int n_query;
};

/* BAD_INPUT: what is wrong with it. Release it on failure, too. */
enum mr_status target_parse(struct target *out, const char *text, struct mr_error *err);
void target_release(struct target *t);

const char *target_find_query(const struct target *t, const char *name); /* the first of that name; NULL: none */

#endif
