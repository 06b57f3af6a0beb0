/* exchange_detach.h: an exchange that goes on without its client: what it generates is kept by its responder, and nothing of it
 * goes over a socket. Threads: any. */
#ifndef SERVER_EXCHANGE_DETACH_H
#define SERVER_EXCHANGE_DETACH_H

#include <stdint.h>

#include "server/exchange.h"

/* One of the same endpoint, key, id and times as x. NULL: no memory. exchange_generate it, then end with exchange_detach_end.
 */
struct exchange *exchange_detach(const struct exchange *x);
/* What is refused at once becomes the reply of x, and the ticket is 0. Else it lives until its answer has ended, and the ticket
 * names it meanwhile. */
uint64_t exchange_detach_end(struct exchange *detached, struct exchange *x);
/* The requests of that ticket end within one step; nothing happens where they have ended. */
void exchange_detach_cancel(struct server *s, uint64_t ticket);

#endif
