/* connections.h: how long connections take. A connection between two requests is idle for idle_timeout_s at most, and a request
 * is whole request_timeout_s after its first line, however slowly its bytes drip: who takes longer is cut off.
 * Threads: any. */
#ifndef SERVER_CONNECTIONS_H
#define SERVER_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct connections;
struct connection;

enum connection_phase {
    CONNECTION_IDLE,
    CONNECTION_SENDING, /* the client sends a request */
    CONNECTION_WAITING, /* for our reply: as long as it takes */
    CONNECTION_N_PHASES
};

struct connections *connections_create(int64_t idle_us, int64_t request_us); /* NULL: no memory */
void connections_free(struct connections *c);                                /* takes NULL */

struct connection *connections_add(struct connections *c, int fd, int64_t now_us); /* idle; NULL: no memory */
void connections_remove(struct connections *c, struct connection *k);              /* takes NULL */
void connections_set(struct connections *c, struct connection *k, enum connection_phase phase, int64_t now_us);

/* Cut off those whose time is over. Returns whether there are any to look after. */
bool connections_expire(struct connections *c, int64_t now_us);
int connections_all(struct connections *c); /* how many there are */

#endif
