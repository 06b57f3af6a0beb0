/* adapters.h: the adapters that requests name by their ids. A model keeps the list; an adapter that was unloaded stays until
 * the last request that names it has ended. */
#ifndef ENGINE_ADAPTERS_H
#define ENGINE_ADAPTERS_H

#include "engine/loaded_model.h"
#include "engine/request_record.h"
#include "model/adapter.h"

/* BAD_INPUT: the request names an adapter that is not loaded. */
enum mr_status adapters_check(const struct mr_model *m, const struct request_record *r, struct mr_error *err);
/* A checked request begins to use its adapters; it leaves them before its record is freed. */
void adapters_hold(struct mr_model *m, const struct request_record *r);
void adapters_leave(struct mr_model *m, const struct request_record *r);
/* Those that are loaded under these ids. */
void adapters_find(const struct mr_model *m, const struct mr_adapter_use *use, int n, struct adapter_set *out);

/* What stands in the key of cached blocks for an adapter and its scale. */
enum {
    ADAPTER_KEY_BYTES = 32 + (int)sizeof(float)
};
void adapter_key(char out[ADAPTER_KEY_BYTES], const struct adapter *a, float scale);

#endif
