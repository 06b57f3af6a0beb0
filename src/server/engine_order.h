/* engine_order.h: what engines are told beside requests: adapters and targets. An order is obeyed between two steps. */
#ifndef SERVER_ENGINE_ORDER_H
#define SERVER_ENGINE_ORDER_H

#include "millrace.h"

enum engine_order_kind {
    ENGINE_ORDER_LOAD_ADAPTER,
    ENGINE_ORDER_UNLOAD_ADAPTER,
    ENGINE_ORDER_TARGETS,
    N_ENGINE_ORDERS
};

struct engine_order {
    enum engine_order_kind kind;
    struct mr_model *model; /* of an engine in this process */
    const char *path;       /* of the adapter to load */
    int32_t adapter;        /* the id: set where it is loaded, given to unload it */
    struct mr_targets targets;
};

/* On the engine's thread; order: a struct engine_order. Errors are those of mr_adapter_load, mr_adapter_unload,
 * mr_engine_set_targets. */
enum mr_status engine_order_obey(struct mr_engine *engine, void *order, struct mr_error *err);

/* An order on its way to an engine process, with the adapter's path and a NUL behind it. */
struct engine_order_record {
    int32_t kind;
    int32_t adapter; /* the pool's id */
    struct mr_targets targets;
};
size_t engine_order_bytes(const struct engine_order *o);
void engine_order_write(void *out, const struct engine_order *o);
/* Borrows the record of n bytes. BAD_FORMAT: it is none. */
enum mr_status engine_order_read(struct engine_order *out, const void *record, size_t n, struct mr_error *err);

#endif
