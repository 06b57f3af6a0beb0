/* record_list.h: what the endpoints of files and batches have in common: whose they are, and lists by pages. */
#ifndef SERVER_API_RECORD_LIST_H
#define SERVER_API_RECORD_LIST_H

#include "server/batch/batch_service.h"
#include "server/exchange.h"

/* The server's, or NULL, and the reply says that it has none. */
struct batch_service *record_service(struct exchange *x);
uint64_t record_owner(const struct exchange *x);

/* The record of the path's {id}, if it is this client's; false: the reply says why not. Release it. */
bool record_of_path(struct exchange *x, struct batch_service *b, enum batch_record_kind kind, struct batch_record *out);
/* The reply of a failure. */
void record_fail(struct exchange *x, enum mr_status status, const struct mr_error *err, const char *param);

/* Reply with {"object": "list", "data", "first_id", "last_id", "has_more"}, as the query's after, limit and order say. each may
 * be NULL. */
void record_list(struct exchange *x, struct batch_service *b, struct batch_listing *listing, int max_limit,
                 void (*each)(struct batch_service *b, json_t *body));

#endif
