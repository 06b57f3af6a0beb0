/* adapters.c: adapters of a model, by id. */
#include "engine/adapters.h"

#include <string.h>

#include "base/memory.h"

_Static_assert((int)MR_ADAPTERS_MAX == (int)ADAPTERS_MAX, "a request may name as many adapters as a row takes");

static struct loaded_adapter *find(const struct mr_model *m, int32_t id)
{
    for (int i = 0; i < m->n_adapter; i++)
        if (m->adapter[i].id == id)
            return &m->adapter[i];
    return NULL;
}

static struct loaded_adapter *find_loaded(const struct mr_model *m, int32_t id)
{
    struct loaded_adapter *a = find(m, id);
    return a != NULL && !a->is_unloaded ? a : NULL;
}

enum mr_status mr_adapter_load(struct mr_model *m, const char *path, int32_t *id, struct mr_error *err)
{
    struct gguf *g;
    *id = 0;
    if (m->last_adapter_id == INT32_MAX ||
        !mem_grow(&m->adapter, &m->adapter_capacity, (size_t)m->n_adapter + 1, sizeof *m->adapter))
        return mr_fail(err, MR_NO_MEMORY, "no memory for one more adapter");
    MR_TRY(gguf_open(&g, path, err));
    struct adapter *adapter;
    const enum mr_status status = adapter_load(&adapter, m->model, g, err);
    gguf_close(g);
    if (status != MR_OK)
        return mr_fail_in(err, status, "'%s'", path);
    *id = ++m->last_adapter_id;
    m->adapter[m->n_adapter++] = (struct loaded_adapter){.id = *id, .adapter = adapter};
    return MR_OK;
}

static void free_unused(struct mr_model *m, struct loaded_adapter *a)
{
    if (!a->is_unloaded || a->n_user > 0)
        return;
    adapter_free(a->adapter);
    *a = m->adapter[--m->n_adapter];
}

enum mr_status mr_adapter_unload(struct mr_model *m, int32_t id, struct mr_error *err)
{
    struct loaded_adapter *a = find_loaded(m, id);
    if (a == NULL)
        return mr_fail(err, MR_NOT_FOUND, "there is no adapter %d", id);
    a->is_unloaded = true;
    free_unused(m, a);
    return MR_OK;
}

enum mr_status mr_adapter_info(const struct mr_model *m, int32_t id, struct mr_adapter_info *out, struct mr_error *err)
{
    const struct loaded_adapter *a = find_loaded(m, id);
    *out = (struct mr_adapter_info){0};
    if (a == NULL)
        return mr_fail(err, MR_NOT_FOUND, "there is no adapter %d", id);
    const struct adapter_info *info = adapter_info(a->adapter);
    *out = (struct mr_adapter_info){
        .bytes = info->bytes, .rank = info->rank, .n_products = info->n_product, .alpha = info->alpha, .n_requests = a->n_user};
    return MR_OK;
}

enum mr_status adapters_check(const struct mr_model *m, const struct request_record *r, struct mr_error *err)
{
    const struct mr_adapter_use *use = request_record_adapter(r);
    for (int32_t i = 0; i < r->n_adapter; i++)
        if (find_loaded(m, use[i].adapter) == NULL)
            return mr_fail(err, MR_BAD_INPUT, "adapter[%d] is %d, which is not loaded", i, use[i].adapter);
    return MR_OK;
}

void adapters_hold(struct mr_model *m, const struct request_record *r)
{
    for (int32_t i = 0; i < r->n_adapter; i++)
        find(m, request_record_adapter(r)[i].adapter)->n_user++;
}

void adapters_leave(struct mr_model *m, const struct request_record *r)
{
    for (int32_t i = 0; i < r->n_adapter; i++) {
        struct loaded_adapter *a = find(m, request_record_adapter(r)[i].adapter);
        a->n_user--;
        free_unused(m, a);
    }
}

void adapters_find(const struct mr_model *m, const struct mr_adapter_use *use, int n, struct adapter_set *out)
{
    *out = (struct adapter_set){.n = n};
    for (int i = 0; i < n; i++) {
        out->adapter[i] = find(m, use[i].adapter)->adapter;
        out->scale[i] = use[i].scale;
    }
}

void adapter_key(char out[ADAPTER_KEY_BYTES], const struct adapter *a, float scale)
{
    const struct adapter_info *info = adapter_info(a);
    memcpy(out, info->digest, sizeof info->digest);
    memcpy(out + sizeof info->digest, &scale, sizeof scale);
}
