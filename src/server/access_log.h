/* access_log.h: one line of JSON for each request, when its reply has gone out. Threads: any. */
#ifndef SERVER_ACCESS_LOG_H
#define SERVER_ACCESS_LOG_H

#include "base/status.h"

struct access_log;
struct exchange;

/* path: a file that is appended to, "-": standard output; NULL: no log, and *out is NULL. */
enum mr_status access_log_open(struct access_log **out, const char *path, struct mr_error *err);
void access_log_close(struct access_log *log); /* takes NULL */
void access_log_write(struct access_log *log, struct exchange *x, int64_t now_us);

#endif
