/* workers.h: threads that call handlers of requests with long bodies and write the pieces of files that come, so that reading,
 * tokenising and disks hold up no other request. First in, first out. Threads: any may call. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/status.h"

struct workers;
struct exchange;

enum mr_status workers_create(struct workers **out, struct mr_error *err);
void workers_free(struct workers *w); /* waits for what has begun; takes NULL */

/* Call the exchange's handler, or upload_take where its body is not whole; holds the exchange meanwhile. The exchange's lock
 * may be held. */
void workers_add(struct workers *w, struct exchange *x);

#endif
