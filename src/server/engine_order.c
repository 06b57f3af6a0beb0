/* engine_order.c: orders obeyed, and as records. */
#include "server/engine_order.h"

#include <string.h>

#include "base/status.h"

enum mr_status engine_order_obey(struct mr_engine *engine, void *order, struct mr_error *err)
{
    struct engine_order *o = order;
    switch (o->kind) {
    case ENGINE_ORDER_LOAD_ADAPTER:
        return mr_adapter_load(o->model, o->path, &o->adapter, err);
    case ENGINE_ORDER_UNLOAD_ADAPTER:
        return mr_adapter_unload(o->model, o->adapter, err);
    case ENGINE_ORDER_TARGETS:
        return mr_engine_set_targets(engine, &o->targets, err);
    case N_ENGINE_ORDERS:
        break;
    }
    return mr_fail(err, MR_BAD_INPUT, "an order of the unknown kind %d", (int)o->kind);
}

static size_t path_bytes(const struct engine_order *o) { return o->path != NULL ? strlen(o->path) + 1 : 1; }

size_t engine_order_bytes(const struct engine_order *o) { return sizeof(struct engine_order_record) + path_bytes(o); }

void engine_order_write(void *out, const struct engine_order *o)
{
    struct engine_order_record r;
    memset(&r, 0, sizeof r); /* no bytes of this process between the fields */
    r.kind = (int32_t)o->kind;
    r.adapter = o->adapter;
    r.targets = o->targets;
    memcpy(out, &r, sizeof r);
    memcpy((char *)out + sizeof r, o->path != NULL ? o->path : "", path_bytes(o));
}

enum mr_status engine_order_read(struct engine_order *out, const void *record, size_t n, struct mr_error *err)
{
    struct engine_order_record r;
    const char *path = (const char *)record + sizeof r;
    if (n <= sizeof r || path[n - sizeof r - 1] != '\0')
        return mr_fail(err, MR_BAD_FORMAT, "an order has %zu bytes", n);
    memcpy(&r, record, sizeof r);
    if (r.kind < 0 || r.kind >= N_ENGINE_ORDERS)
        return mr_fail(err, MR_BAD_FORMAT, "an order of the unknown kind %d", (int)r.kind);
    *out =
        (struct engine_order){.kind = (enum engine_order_kind)r.kind, .path = path, .adapter = r.adapter, .targets = r.targets};
    return MR_OK;
}
