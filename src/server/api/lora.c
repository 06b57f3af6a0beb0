/* lora.c: adapters over HTTP. */
#include "server/api/lora.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/adapter_names.h"
#include "server/settings.h"

static const struct dialect no_dialect = {0}; /* nothing is generated */

void lora_list(struct exchange *x) { exchange_reply_json(x, 200, adapter_names_json(exchange_server(x)->adapters)); }

/* One entry of a list of adapters, which the path names. */
static void read_use(const json_t *entry, const char *path, struct mr_adapter_use *use, struct api_error *error)
{
    const struct json_fields f = {.object = entry, .path = path, .error = error};
    use->scale = 1;
    json_fields_float(&f, "scale", -100, 100, &use->scale);
    if (!json_fields_int32(&f, "id", 1, INT32_MAX, &use->adapter))
        json_fields_fail(&f, "id", "is missing");
}

void lora_fields_read(struct job *j)
{
    const json_t *list = NULL;
    if (!json_fields_array(&j->fields, "lora", &list))
        return;
    const size_t n = json_array_size(list);
    if (n > MR_ADAPTERS_MAX)
        json_fields_fail(&j->fields, "lora", "has %zu adapters, at most %d are possible", n, MR_ADAPTERS_MAX);
    struct mr_adapter_use *use = job_alloc(j, (n + 1) * sizeof *use);
    for (size_t i = 0; use != NULL && i < n && j->error.http == 0; i++) {
        char path[32];
        snprintf(path, sizeof path, "lora[%zu]", i);
        read_use(json_array_get(list, i), path, &use[i], &j->error);
    }
    j->base.adapter = use;
    j->base.n_adapter = (int32_t)n;
}

/* The body: a list. Returns how many there are. */
static int read_scales(const json_t *list, struct mr_adapter_use use[MR_ADAPTERS_MAX], struct api_error *error)
{
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > MR_ADAPTERS_MAX)
        api_error_at(error, 400, "", "the body must be a list of at most %d adapters: [{\"id\": 1, \"scale\": 0.5}]",
                     MR_ADAPTERS_MAX);
    for (size_t i = 0; i < n && error->http == 0; i++) {
        char path[32];
        snprintf(path, sizeof path, "[%zu]", i);
        read_use(json_array_get(list, i), path, &use[i], error);
    }
    return (int)n;
}

void lora_scale(struct exchange *x)
{
    struct adapter_names *names = exchange_server(x)->adapters;
    struct mr_adapter_use use[MR_ADAPTERS_MAX];
    struct mr_error err = {{0}};
    struct api_error error = {0};
    size_t n_body;
    const char *body = exchange_body(x, &n_body);
    json_error_t why;
    json_t *list = json_loadb(body, n_body, JSON_REJECT_DUPLICATES, &why);
    const int n = read_scales(list, use, &error);
    json_decref(list);
    if (error.http == 0) {
        const enum mr_status status = adapter_names_set_defaults(names, use, n, &err);
        if (status != MR_OK)
            api_error_take_status(&error, status, "", &err);
    }
    if (error.http != 0)
        exchange_fail(x, &error);
    else
        exchange_reply_json(x, 200, json_pack("{s:b}", "success", 1));
}

/* The file that path names within the folder, real names of both. false: it is not there, or elsewhere. */
static bool confine(const char *folder, const char *path, char out[PATH_MAX])
{
    char root[PATH_MAX], joined[PATH_MAX];
    if (realpath(folder, root) == NULL)
        return false;
    const int n =
        *path == '/' ? snprintf(joined, sizeof joined, "%s", path) : snprintf(joined, sizeof joined, "%s/%s", folder, path);
    const size_t n_root = strlen(root);
    return n > 0 && n < PATH_MAX && realpath(joined, out) != NULL && strncmp(out, root, n_root) == 0 && out[n_root] == '/';
}

/* Unless the deployment says where adapters lie, clients load none. NULL: the reply has been made. */
static struct job *open_allowed(struct exchange *x)
{
    struct job *j = job_open(x, &no_dialect, "");
    if (j == NULL)
        return NULL;
    if (exchange_server(x)->settings->lora_dir == NULL)
        api_error_at(&j->error, 403, "", "adapters are loaded by clients only where adapters.dir (--lora-dir) says from where");
    if (j->error.http == 0)
        return j;
    job_fail(j);
    return NULL;
}

static void reply(struct job *j, const char *what, const char *name)
{
    char text[256];
    if (j->error.http != 0) {
        job_fail(j);
        return;
    }
    const int n = snprintf(text, sizeof text, "Success: LoRA adapter '%.128s' %s successfully.", name, what);
    exchange_reply(j->x, 200, "text/plain", text, (size_t)n);
    job_free(j);
}

void lora_load(struct exchange *x)
{
    struct job *j = open_allowed(x);
    const char *name = NULL, *path = NULL;
    char file[PATH_MAX];
    struct mr_error err = {{0}};
    if (j == NULL)
        return;
    if (!json_fields_string(&j->fields, "lora_name", &name))
        json_fields_fail(&j->fields, "lora_name", "is missing");
    if (!json_fields_string(&j->fields, "lora_path", &path))
        json_fields_fail(&j->fields, "lora_path", "is missing");
    if (j->error.http == 0 && !confine(exchange_server(x)->settings->lora_dir, path, file))
        json_fields_fail(&j->fields, "lora_path", "must be a file in the folder for adapters");
    if (j->error.http == 0) {
        const enum mr_status status = adapter_names_load(exchange_server(x), name, file, &err);
        if (status != MR_OK)
            api_error_take_status(&j->error,
                                  status == MR_NOT_FOUND || status == MR_IO || status == MR_BAD_FORMAT ? MR_BAD_INPUT : status,
                                  "lora_path", &err);
    }
    reply(j, "added", name);
}

void lora_unload(struct exchange *x)
{
    struct job *j = open_allowed(x);
    const char *name = NULL;
    struct mr_error err = {{0}};
    if (j == NULL)
        return;
    if (!json_fields_string(&j->fields, "lora_name", &name))
        json_fields_fail(&j->fields, "lora_name", "is missing");
    if (j->error.http == 0) {
        const enum mr_status status = adapter_names_unload(exchange_server(x), name, &err);
        if (status != MR_OK)
            api_error_take_status(&j->error, status, "lora_name", &err);
    }
    reply(j, "removed", name);
}
