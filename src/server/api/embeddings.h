/* embeddings.h: POST /v1/embeddings, /embeddings, Ollama's /api/embed and /api/embeddings: texts as vectors. */
#ifndef SERVER_API_EMBEDDINGS_H
#define SERVER_API_EMBEDDINGS_H

struct exchange;

void embeddings_create(struct exchange *x);
void embeddings_ollama(struct exchange *x);
void embeddings_ollama_one(struct exchange *x); /* the older form, of one prompt */

#endif
