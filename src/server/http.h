/* http.h: the transport: libmicrohttpd with a thread of its own, which reads requests whole, calls handlers of short ones, and
 * writes replies. Whoever else has something to send resumes the connection. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "base/status.h"

struct http;
struct server;

/* Listen as the settings say. BAD_INPUT, IO: the message names the setting. */
enum mr_status http_create(struct http **out, struct server *s, struct mr_error *err);
/* Ends every connection; takes NULL. No exchange generates any more, and no worker works. */
void http_free(struct http *h);

int http_port(const struct http *h);
int http_n_connections(const struct http *h);
int http_n_open(struct http *h); /* requests that have begun and whose replies have not gone out */

#endif
