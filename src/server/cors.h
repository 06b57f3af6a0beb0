/* cors.h: which pages of other origins may read replies (Fetch standard, section 3.2). */
#ifndef SERVER_CORS_H
#define SERVER_CORS_H

#include <microhttpd.h>

struct exchange;

/* Add the reply's headers; of a preflight, too. Nothing where the setting cors_origin is not there or names another origin. */
void cors_add_headers(const struct exchange *x, struct MHD_Response *response);

#endif
