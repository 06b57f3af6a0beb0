/* trace_json.h: spans as the body of a request to a collector. */
#ifndef SERVER_TRACE_JSON_H
#define SERVER_TRACE_JSON_H

#include "server/trace_export.h"

/* offset_us: what added to clock_us gives microseconds since the epoch. NULL: no memory. *n_span: how many there are in it.
 * Free with free(). */
char *trace_json(const struct trace_span *span, int n, int64_t offset_us, int *n_span);

#endif
