/* batches.h: /v1/batches, as OpenAI has them (docs/batch.md). */
#ifndef SERVER_API_BATCHES_H
#define SERVER_API_BATCHES_H

struct exchange;

void batches_create(struct exchange *x);
void batches_list(struct exchange *x);
void batches_get(struct exchange *x);
void batches_cancel(struct exchange *x);

#endif
