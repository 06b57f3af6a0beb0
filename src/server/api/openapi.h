/* openapi.h: GET /openapi.json: the endpoints for machines (OpenAPI 3.1). The text is openapi.json, built in. */
#ifndef SERVER_API_OPENAPI_H
#define SERVER_API_OPENAPI_H

#include <stddef.h>

struct exchange;

extern const unsigned char openapi_json[];
extern const size_t openapi_json_bytes;

void openapi_show(struct exchange *x);

#endif
