/* openapi.c: the description of the API. */
#include "server/api/openapi.h"

#include "server/exchange.h"

void openapi_show(struct exchange *x) { exchange_reply(x, 200, "application/json", openapi_json, openapi_json_bytes); }
