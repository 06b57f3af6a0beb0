/* health.h: GET /livez, /readyz, /health, /v1/health, /ping: whether the process lives, and whether it answers requests. */
#ifndef SERVER_API_HEALTH_H
#define SERVER_API_HEALTH_H

struct exchange;

void health_live(struct exchange *x);  /* 200 as long as anything answers */
void health_ready(struct exchange *x); /* 200 once the model has answered a token; 503 before, and while the server drains */

#endif
