/* model_store.h: which of the server's models are in memory. A model is loaded when it is asked for, one at a time, and
 * unloaded when nobody has asked for so long as it is kept alive, or when another needs its place: the least recently used
 * first. One that is in use is waited for, and takes no new requests meanwhile, so that nobody waits for ever. Threads: any.
 * Locks: an exchange's may be held, but not in model_store_wait. */
#ifndef SERVER_MODEL_STORE_H
#define SERVER_MODEL_STORE_H

#include "server/server.h"

struct model_store;
struct exchange;

/* The server's models by their names, from its settings: s->model, none loaded. BAD_INPUT: no file, or a name that stands
 * twice. */
enum mr_status model_store_list(struct server *s, struct mr_error *err);
/* Whether the draft model goes with each of s->model that can be read; those that cannot fail when they are asked for.
 * BAD_INPUT names the first difference. */
enum mr_status model_store_check_drafts(const struct server *s, struct mr_error *err);
/* With a thread of its own, where there is anything to load later. */
enum mr_status model_store_create(struct model_store **out, struct server *s, struct mr_error *err);
/* Nothing is loaded or unloaded any more; who waits fails, now and later. Takes NULL. */
void model_store_stop(struct model_store *st);
/* It has been stopped, and no model is used any more. Takes NULL. */
void model_store_free(struct model_store *st);

/* Load the one that the settings name first, and keep it. progress: as in mr_options, or NULL. */
enum mr_status model_store_load_first(struct model_store *st, bool (*progress)(void *context, size_t done, size_t total),
                                      void *context, struct mr_error *err);

/* false: it is not loaded. Else it stays until it is given back. */
bool model_store_take(struct model_store *st, struct hosted_model *m);
/* The same to look at it, also while it takes no new requests. */
bool model_store_peek(struct model_store *st, struct hosted_model *m);
void model_store_give(struct model_store *st, struct hosted_model *m);
/* It was used. keep_alive_us: from now on; negative: for ever; SERVER_KEEP_ALIVE: as the settings say. */
void model_store_touch(struct model_store *st, struct hosted_model *m, int64_t keep_alive_us);
/* When it will be unloaded: INT64_MAX: never. By clock_us. */
int64_t model_store_expires_us(struct model_store *st, const struct hosted_model *m);

/* The exchange waits for its model (x->awaited); its handler is then called again on a worker, or it fails. It is suspended. */
void model_store_wait(struct model_store *st, struct exchange *x);

#endif
