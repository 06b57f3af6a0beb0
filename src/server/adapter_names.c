/* adapter_names.c: a short list behind a lock. */
#include "server/adapter_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "server/engine_link.h"
#include "server/server.h"
#include "server/settings.h"

struct named {
    int32_t id;
    char *name, *path;
    float scale; /* for requests that say nothing of adapters */
};

struct adapter_names {
    pthread_mutex_t lock;
    struct named list[ADAPTER_NAMES_MAX];
    int n;
};

struct adapter_names *adapter_names_create(void)
{
    struct adapter_names *a = mem_zero_array(1, sizeof *a);
    if (a != NULL)
        pthread_mutex_init(&a->lock, NULL);
    return a;
}

static void release(struct named *n)
{
    free(n->name);
    free(n->path);
}

void adapter_names_free(struct adapter_names *a)
{
    if (a == NULL)
        return;
    for (int i = 0; i < a->n; i++)
        release(&a->list[i]);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static enum mr_status unload(struct server *s, int32_t id, struct mr_error *err)
{
    struct engine_order o = {.kind = ENGINE_ORDER_UNLOAD_ADAPTER, .model = s->model->model, .adapter = id};
    return engine_link_order(s->model->engine, &o, err);
}

/* The lock is held. */
static int index_of(const struct adapter_names *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->list[i].name, name) == 0)
            return i;
    return -1;
}

static enum mr_status add(struct adapter_names *a, struct named *added, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    pthread_mutex_lock(&a->lock);
    if (index_of(a, added->name) >= 0)
        status = mr_fail(err, MR_BAD_INPUT, "'%s' is loaded already", added->name);
    else if (a->n == ADAPTER_NAMES_MAX)
        status = mr_fail(err, MR_FULL, "%d adapters are loaded, which is the most", ADAPTER_NAMES_MAX);
    else
        a->list[a->n++] = *added;
    pthread_mutex_unlock(&a->lock);
    return status;
}

enum mr_status adapter_names_load(struct server *s, const char *name, const char *path, struct mr_error *err)
{
    struct engine_order load = {.kind = ENGINE_ORDER_LOAD_ADAPTER, .model = s->model->model, .path = path};
    if (!s->model->stays)
        return mr_fail(err, MR_NO_SUPPORT, "adapters lie over the model of --model, and there is none");
    if (*name == '\0' || strlen(name) > ADAPTER_NAME_MAX)
        return mr_fail(err, MR_BAD_INPUT, "a name must have 1 to %d bytes", ADAPTER_NAME_MAX);
    if (strcmp(name, s->model->name) == 0 || adapter_names_find(s->adapters, name) != 0)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is loaded already", name);
    MR_TRY(engine_link_order(s->model->engine, &load, err));
    struct named added = {load.adapter, mem_string(name, strlen(name)), mem_string(path, strlen(path)), 0};
    enum mr_status status = added.name != NULL && added.path != NULL
                                ? add(s->adapters, &added, err)
                                : mr_fail(err, MR_NO_MEMORY, "no memory for an adapter's name");
    if (status != MR_OK) {
        unload(s, load.adapter, NULL);
        release(&added);
    }
    return status;
}

enum mr_status adapter_names_unload(struct server *s, const char *name, struct mr_error *err)
{
    struct adapter_names *a = s->adapters;
    pthread_mutex_lock(&a->lock);
    const int i = index_of(a, name);
    struct named removed = i >= 0 ? a->list[i] : (struct named){0};
    if (i >= 0)
        a->list[i] = a->list[--a->n];
    pthread_mutex_unlock(&a->lock);
    if (i < 0)
        return mr_fail(err, MR_NOT_FOUND, "no adapter '%.80s' is loaded", name);
    release(&removed);
    return unload(s, removed.id, err);
}

int32_t adapter_names_find(struct adapter_names *a, const char *name)
{
    if (a == NULL)
        return 0;
    pthread_mutex_lock(&a->lock);
    const int i = index_of(a, name);
    const int32_t id = i >= 0 ? a->list[i].id : 0;
    pthread_mutex_unlock(&a->lock);
    return id;
}

int adapter_names_defaults(struct adapter_names *a, struct mr_adapter_use use[MR_ADAPTERS_MAX])
{
    int n = 0;
    if (a == NULL)
        return 0;
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->n && n < MR_ADAPTERS_MAX; i++)
        if (a->list[i].scale < 0 || a->list[i].scale > 0)
            use[n++] = (struct mr_adapter_use){.adapter = a->list[i].id, .scale = a->list[i].scale};
    pthread_mutex_unlock(&a->lock);
    return n;
}

/* The lock is held. The last scale that is given holds; NULL: none. */
static const struct mr_adapter_use *find_use(const struct mr_adapter_use *use, int n, int32_t id)
{
    while (n > 0 && use[n - 1].adapter != id)
        n--;
    return n > 0 ? &use[n - 1] : NULL;
}

/* The lock is held. */
static bool has_id(const struct adapter_names *a, int32_t id)
{
    int i = 0;
    while (i < a->n && a->list[i].id != id)
        i++;
    return i < a->n;
}

enum mr_status adapter_names_set_defaults(struct adapter_names *a, const struct mr_adapter_use *use, int n,
                                          struct mr_error *err)
{
    enum mr_status status = MR_OK;
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < n && status == MR_OK; i++)
        if (!has_id(a, use[i].adapter))
            status = mr_fail(err, MR_NOT_FOUND, "no adapter has the id %d", (int)use[i].adapter);
    for (int i = 0; i < a->n && status == MR_OK; i++) {
        const struct mr_adapter_use *found = find_use(use, n, a->list[i].id);
        a->list[i].scale = found != NULL ? found->scale : 0;
    }
    pthread_mutex_unlock(&a->lock);
    return status;
}

json_t *adapter_names_json(struct adapter_names *a)
{
    json_t *list = json_array();
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->n; i++)
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:f}", "id", a->list[i].id, "name", a->list[i].name, "path",
                                              a->list[i].path, "scale", (double)a->list[i].scale));
    pthread_mutex_unlock(&a->lock);
    return list;
}

/* "NAME=FILE", or the file's last part as the name. */
static enum mr_status load_one(struct server *s, const char *text, struct mr_error *err)
{
    const char *equals = strchr(text, '='), *path = equals != NULL ? equals + 1 : text, *slash = strrchr(path, '/');
    const char *from = equals != NULL ? text : slash != NULL ? slash + 1 : path;
    char *name = mem_string(from, equals != NULL ? (size_t)(equals - text) : strcspn(from, "."));
    const enum mr_status status =
        name != NULL ? adapter_names_load(s, name, path, err) : mr_fail(err, MR_NO_MEMORY, "no memory for an adapter's name");
    free(name);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "adapters.lora");
}

enum mr_status adapter_names_load_all(struct server *s, struct mr_error *err)
{
    for (int i = 0; i < s->settings->n_lora; i++)
        MR_TRY(load_one(s, s->settings->lora[i], err));
    return MR_OK;
}
