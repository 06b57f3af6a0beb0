/* listen.h: where the server listens. */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include <sys/socket.h>

#include "base/status.h"

struct server_settings;

/* A socket that listens at the settings' host and port; *port: the one it got. BAD_INPUT: the host is no address of this
 * machine, or is not the loopback's while there is neither a key nor `insecure`. IO: the port is taken, ... */
enum mr_status listen_open(int *fd, int *port, const struct server_settings *settings, struct mr_error *err);

/* Let the process have as many descriptors as n connections need, as far as the hard limit goes. Returns for how many
 * connections there are. */
int listen_raise_limit(int n);

#endif
