/* engine_link.c: calls go to what stands behind the link. */
#include "server/engine_link.h"

#include "base/status.h"

void engine_link_free(struct engine_link *l)
{
    if (l != NULL)
        l->kind->free(l);
}

enum mr_status engine_link_submit(struct engine_link *l, uint64_t ticket, const struct mr_request *request,
                                  struct mr_error *err)
{
    return l->kind->submit(l, ticket, request, err);
}

void engine_link_cancel(struct engine_link *l, uint64_t ticket) { l->kind->cancel(l, ticket); }

int engine_link_event_fd(const struct engine_link *l) { return l->kind->event_fd(l); }

bool engine_link_next_event(struct engine_link *l, struct mr_event *out, int64_t *retry_after_ms)
{
    return l->kind->next_event(l, out, retry_after_ms);
}

void engine_link_stats(struct engine_link *l, struct mr_engine_stats *out) { l->kind->stats(l, out); }

int32_t engine_link_n_ctx(const struct engine_link *l) { return l->kind->n_ctx(l); }

void engine_link_set_observer(struct engine_link *l, void (*stepped)(void *context, const struct mr_engine_stats *stats),
                              void *context)
{
    l->kind->set_observer(l, stepped, context);
}

enum mr_status engine_link_order(struct engine_link *l, struct engine_order *order, struct mr_error *err)
{
    return l->kind->order != NULL ? l->kind->order(l, order, err) : l->kind->call(l, engine_order_obey, order, err);
}

enum mr_status engine_link_call(struct engine_link *l,
                                enum mr_status (*fn)(struct mr_engine *engine, void *context, struct mr_error *err),
                                void *context, struct mr_error *err)
{
    if (l->kind->call == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "the engine is in another process");
    return l->kind->call(l, fn, context, err);
}
