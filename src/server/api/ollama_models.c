/* ollama_models.c: GET /api/tags, /api/ps, /api/version, POST /api/show. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/loaded_model.h"
#include "server/api/ollama.h"
#include "server/keys.h"

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

static json_t *model_json(const struct hosted_model *m)
{
    char when[32];
    ollama_time(when, m->created);
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:o}", "name", m->name, "model", m->name, "modified_at", when, "size",
                     (json_int_t)m->info.weight_bytes, "digest", "", "details", details(m));
}

/* The models that the key may ask. */
static void reply_list(struct exchange *x, bool is_running)
{
    const struct server *s = exchange_server(x);
    json_t *list = json_array();
    for (int i = 0; i < s->n_model; i++) {
        if (exchange_key(x) != NULL && !api_key_allows(exchange_key(x), s->model[i].name))
            continue;
        json_t *m = model_json(&s->model[i]);
        char when[32];
        ollama_time(when, (int64_t)time(NULL) + LOADED_FOR_S);
        if (is_running) {
            json_object_set_new(m, "expires_at", json_string(when));
            json_object_set_new(m, "size_vram", json_integer(0));
            json_object_set_new(m, "context_length", json_integer(s->model[i].n_ctx));
        }
        json_array_append_new(list, m);
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
