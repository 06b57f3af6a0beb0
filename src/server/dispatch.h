/* dispatch.h: the thread that takes events to the exchanges, sees clients leave, and keeps time. An epoll of its own watches
 * the events of the engines and, for each exchange that generates, its socket for EPOLLRDHUP: libmicrohttpd does not look at
 * the socket of a suspended connection.
 * Threads: any may call. Locks: an exchange's may be held. */
#ifndef SERVER_DISPATCH_H
#define SERVER_DISPATCH_H

#include "base/status.h"

struct dispatch;
struct engine_link;
struct exchange;
struct connections;

enum mr_status dispatch_create(struct dispatch **out, struct mr_error *err);
void dispatch_free(struct dispatch *d); /* takes NULL; no exchange is registered any more */

/* Take events of this link, until dispatch_remove_link or dispatch_free. */
enum mr_status dispatch_add_link(struct dispatch *d, struct engine_link *l, struct mr_error *err);
/* Take none any more; it may then be freed. Waits for one that is being taken: no exchange's lock may be held. NULL: nothing.
 */
void dispatch_remove_link(struct dispatch *d, struct engine_link *l);
/* Look after the time that these connections take; NULL: no longer. */
void dispatch_set_connections(struct dispatch *d, struct connections *c);
/* There is something to keep time for. */
void dispatch_wake(struct dispatch *d);

/* Gives the exchange its serial number and watches its socket, until dispatch_remove; holds it meanwhile. NO_MEMORY, also once
 * it is closed. */
enum mr_status dispatch_add(struct dispatch *d, struct exchange *x);
void dispatch_remove(struct dispatch *d, struct exchange *x); /* nothing where it is not there */
void dispatch_close(struct dispatch *d);                      /* no exchange is added any more */
/* As if the client of that one had left; nothing where it is not there. */
void dispatch_leave(struct dispatch *d, uint64_t serial);
int dispatch_n_exchanges(struct dispatch *d);

/* Call fn for each exchange that is registered, its lock held. */
void dispatch_each(struct dispatch *d, void (*fn)(struct exchange *x));

enum {
    DISPATCH_REQUEST_BITS = 16 /* of a ticket: serial << 16 | index of the request */
};

#endif
