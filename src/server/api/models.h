/* models.h: GET /v1/models and /v1/models/{id}, as OpenAI's API describes them. */
#ifndef SERVER_API_MODELS_H
#define SERVER_API_MODELS_H

struct exchange;

void models_list(struct exchange *x);
void models_get(struct exchange *x); /* 404 with the code model_not_found */

#endif
