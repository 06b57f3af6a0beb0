/* response_store.h: whole answers by what was asked. Equal requests have equal answers (docs/architecture.md, "The numeric
 * rule"), so one that was answered before needs no step. Bounded; the least recently used answer goes first.
 * Threads: owned by the engine's. */
#ifndef ENGINE_RESPONSE_STORE_H
#define ENGINE_RESPONSE_STORE_H

#include "cache/prefix_index.h"
#include "engine/request_record.h"

struct event_record;
struct mr_engine;
struct stored_response;

struct response_store {
    size_t capacity, bytes; /* of events; capacity 0: off */
    struct stored_response *newest, *oldest;
    struct stored_response *open; /* of requests that are being answered */
    int64_t n_served;
};

void response_store_init(struct response_store *s, size_t capacity);
void response_store_release(struct response_store *s);

/* All that decides the answers to a request. seed: names the model, the adapters and the tenant. */
void response_key(struct prefix_key *out, const struct prefix_key *seed, const struct request_record *r);

/* Queue the events of an equal request as those of `id`. false: there is none, or no memory; nothing was queued. */
bool response_store_serve(struct mr_engine *e, const struct prefix_key *key, uint64_t id);
/* The request id, of this key, will be answered n times: keep its events. */
void response_store_open(struct response_store *s, const struct prefix_key *key, uint64_t id, int n);
/* An event of n bytes, as it lies in the queue. An answer that did not come to its own end is not kept. */
void response_store_note(struct response_store *s, const struct event_record *event, const void *bytes, size_t n);

#endif
