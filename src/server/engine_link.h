/* engine_link.h: the way to what computes, whoever that is: an engine on a thread of this process (engine_thread.h), or engine
 * processes (engine_pool.h). Threads: any may call, but for events. */
#ifndef SERVER_ENGINE_LINK_H
#define SERVER_ENGINE_LINK_H

#include "server/engine_order.h"

struct engine_link_kind;

struct engine_link {
    const struct engine_link_kind *kind;
};

void engine_link_free(struct engine_link *l); /* ends what still runs; takes NULL */

/* Queue a copy of the request. ticket: the caller's, comes back with its events; not 0 and not in use. What the engine refuses
 * comes back as one event with finish ERROR and the status, before any other. */
enum mr_status engine_link_submit(struct engine_link *l, uint64_t ticket, const struct mr_request *request,
                                  struct mr_error *err);
/* All answers of the ticket end within one step; no event comes after this call returns. */
void engine_link_cancel(struct engine_link *l, uint64_t ticket);

/* Readable while events wait. */
int engine_link_event_fd(const struct engine_link *l);
/* The oldest event, its request field being the ticket; strings are borrowed until the next call. retry_after_ms: of a refusal
 * (BUSY, FULL), when to come back; else 0. One thread. */
bool engine_link_next_event(struct engine_link *l, struct mr_event *out, int64_t *retry_after_ms);

/* As of the last step. */
void engine_link_stats(struct engine_link *l, struct mr_engine_stats *out);
int32_t engine_link_n_ctx(const struct engine_link *l);

/* Called after each step, by a thread that must not be held up; before the first request. */
void engine_link_set_observer(struct engine_link *l, void (*stepped)(void *context, const struct mr_engine_stats *stats),
                              void *context);

/* Have the order obeyed, by engines that begin later, too, and wait for it; an adapter that cannot be loaded everywhere is
 * loaded nowhere. */
enum mr_status engine_link_order(struct engine_link *l, struct engine_order *order, struct mr_error *err);

/* Run fn between two steps of the engine and wait for it. No event waits in the engine then. NO_SUPPORT: the engine is in
 * another process. */
enum mr_status engine_link_call(struct engine_link *l,
                                enum mr_status (*fn)(struct mr_engine *engine, void *context, struct mr_error *err),
                                void *context, struct mr_error *err);

/* What stands behind a link; each function as above. */
struct engine_link_kind {
    void (*free)(struct engine_link *l);
    enum mr_status (*submit)(struct engine_link *l, uint64_t ticket, const struct mr_request *request, struct mr_error *err);
    void (*cancel)(struct engine_link *l, uint64_t ticket);
    int (*event_fd)(const struct engine_link *l);
    bool (*next_event)(struct engine_link *l, struct mr_event *out, int64_t *retry_after_ms);
    void (*stats)(struct engine_link *l, struct mr_engine_stats *out);
    int32_t (*n_ctx)(const struct engine_link *l);
    void (*set_observer)(struct engine_link *l, void (*stepped)(void *context, const struct mr_engine_stats *stats),
                         void *context);
    enum mr_status (*call)(struct engine_link *l,
                           enum mr_status (*fn)(struct mr_engine *engine, void *context, struct mr_error *err), void *context,
                           struct mr_error *err);                                                     /* NULL: not possible */
    enum mr_status (*order)(struct engine_link *l, struct engine_order *order, struct mr_error *err); /* NULL: by call */
};

#endif
