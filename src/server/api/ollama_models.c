/* ollama_models.c: GET /api/tags, /api/ps, /api/version, POST /api/show. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "engine/loaded_model.h"
#include "server/api/ollama.h"
#include "server/keys.h"
#include "server/model_store.h"

enum {
    LOADED_FOR_S = 365 * 86400 /* what has no end is told to end then */
};

/* "134.5M" */
static void parameter_size(char out[16], int64_t n)
{
    if (n >= 1000000000)
        snprintf(out, 16, "%.1fB", (double)n / 1e9);
    else
        snprintf(out, 16, "%.2fM", (double)n / 1e6);
}

/* "Q4_1" at the end of a file's stem, behind a point or hyphen; "" where nothing looks like it. */
static const char *quantization(const char *name)
{
    const char *point = strrchr(name, '.'), *hyphen = strrchr(name, '-');
    const char *last = point == NULL || (hyphen != NULL && hyphen > point) ? hyphen : point;
    return last != NULL && strpbrk(last, "0123456789") != NULL ? last + 1 : "";
}

static json_t *details(const struct hosted_model *m)
{
    char size[16];
    parameter_size(size, m->info.n_parameters);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "gguf", "family", m->info.family,
                     "families", m->info.family, "parameter_size", size, "quantization_level", quantization(m->name));
}

/* is_loaded: the model is taken; else it is known by its file alone. */
static json_t *model_json(const struct hosted_model *m, bool is_loaded)
{
    char when[32];
    ollama_time(when, m->created);
    json_t *about = is_loaded ? details(m)
                              : json_pack("{s:s, s:s, s:s}", "parent_model", "", "format", "gguf", "quantization_level",
                                          quantization(m->name));
    const int64_t bytes = is_loaded ? (int64_t)m->info.weight_bytes : m->file_bytes;
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:o}", "name", m->name, "model", m->name, "modified_at", when, "size",
                     (json_int_t)bytes, "digest", "", "details", about);
}

static void add_running(const struct server *s, const struct hosted_model *m, json_t *json)
{
    char when[32];
    const int64_t expires_us = s->store != NULL ? model_store_expires_us(s->store, m) : INT64_MAX;
    const int64_t left_s = expires_us == INT64_MAX ? LOADED_FOR_S : (expires_us - clock_us()) / 1000000;
    ollama_time(when, (int64_t)time(NULL) + (left_s > 0 ? left_s : 0));
    json_object_set_new(json, "expires_at", json_string(when));
    json_object_set_new(json, "size_vram", json_integer(0));
    json_object_set_new(json, "context_length", json_integer(m->n_ctx));
}

/* The models that the key may ask; is_running: those that are loaded. */
static void reply_list(struct exchange *x, bool is_running)
{
    struct server *s = exchange_server(x);
    json_t *list = json_array();
    for (int i = 0; i < s->n_model; i++) {
        struct hosted_model *m = &s->model[i];
        if (exchange_key(x) != NULL && !api_key_allows(exchange_key(x), m->name))
            continue;
        const bool is_loaded = server_peek_model(s, m);
        if (is_loaded || !is_running) {
            json_t *json = model_json(m, is_loaded);
            if (is_running)
                add_running(s, m, json);
            json_array_append_new(list, json);
        }
        if (is_loaded)
            server_give_model(s, m);
    }
    exchange_reply_json(x, 200, json_pack("{s:o}", "models", list));
}

void ollama_tags(struct exchange *x) { reply_list(x, false); }

void ollama_ps(struct exchange *x) { reply_list(x, true); }

void ollama_version(struct exchange *x) { exchange_reply_json(x, 200, json_pack("{s:s}", "version", MILLRACE_VERSION)); }

static const struct dialect no_dialect = {0}; /* nothing is generated */

void ollama_show(struct exchange *x)
{
    struct job *j = job_open(x, &no_dialect, "");
    char key[64];
    if (j == NULL)
        return;
    if (json_fields_get(&j->fields, "model") == NULL)
        json_fields_fail(&j->fields, "model", "is missing");
    if (j->error.http != 0) {
        job_fail(j);
        return;
    }
    const struct hosted_model *m = j->model;
    json_t *info = json_pack("{s:s, s:I}", "general.architecture", m->info.family, "general.parameter_count",
                             (json_int_t)m->info.n_parameters);
    snprintf(key, sizeof key, "%.40s.context_length", m->info.family);
    json_object_set_new(info, key, json_integer(m->info.n_ctx_train));
    json_t *abilities = json_pack("[s]", "completion");
    if (m->chat != NULL)
        json_array_append_new(abilities, json_string("tools"));
    exchange_reply_json(x, 200,
                        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "modelfile", "", "parameters", "", "template",
                                  m->chat != NULL ? chat_prompt_template(m->chat) : "", "details", details(m), "model_info",
                                  info, "capabilities", abilities));
    job_free(j);
}
