/* metrics_endpoint.h: GET /metrics: the page that Prometheus reads. */
#ifndef SERVER_API_METRICS_ENDPOINT_H
#define SERVER_API_METRICS_ENDPOINT_H

#include "server/exchange.h"

void metrics_show(struct exchange *x); /* ?names=vllm, ?names=llamacpp: under the names of those servers */

#endif
