/* models.c: the models that this key may ask. */
#include "server/api/models.h"

#include <stdio.h>

#include "server/adapter_names.h"
#include "server/api_error.h"
#include "server/keys.h"
#include "server/server.h"

/* max_model_len is vLLM's, meta llama-server's; what a file has to be read for is told while the model is loaded. */
static json_t *describe(struct server *s, struct hosted_model *m)
{
    json_t *out = json_pack("{s:s, s:s, s:I, s:s}", "id", m->name, "object", "model", "created", (json_int_t)m->created,
                            "owned_by", "millrace");
    const bool is_loaded = server_peek_model(s, m);
    json_object_set_new(out, "status", json_pack("{s:s}", "value", is_loaded ? "loaded" : "unloaded"));
    if (!is_loaded)
        return out;
    json_object_set_new(out, "max_model_len", json_integer(m->n_ctx));
    json_object_set_new(out, "meta",
                        json_pack("{s:i, s:i, s:I, s:I, s:s, s:s}", "n_vocab", m->info.n_vocab, "n_ctx_train",
                                  m->info.n_ctx_train, "n_params", (json_int_t)m->info.n_parameters, "size",
                                  (json_int_t)m->info.weight_bytes, "family", m->info.family, "precision", m->info.precision));
    server_give_model(s, m);
    return out;
}

static bool is_allowed(const struct exchange *x, const struct hosted_model *m)
{
    return exchange_key(x) == NULL || api_key_allows(exchange_key(x), m->name);
}

/* They are models of their own to clients; parent is vLLM's. */
static void add_adapters(const struct exchange *x, json_t *list)
{
    const struct server *s = exchange_server(x);
    json_t *adapters = adapter_names_json(s->adapters), *a;
    size_t i;
    json_array_foreach(adapters, i, a)
    {
        if (is_allowed(x, &s->model[0]))
            json_array_append_new(list, json_pack("{s:O, s:s, s:I, s:s, s:s}", "id", json_object_get(a, "name"), "object",
                                                  "model", "created", (json_int_t)s->model[0].created, "owned_by", "millrace",
                                                  "parent", s->model[0].name));
    }
    json_decref(adapters);
}

void models_list(struct exchange *x)
{
    struct server *s = exchange_server(x);
    json_t *list = json_array();
    for (int i = 0; i < s->n_model; i++)
        if (is_allowed(x, &s->model[i]))
            json_array_append_new(list, describe(s, &s->model[i]));
    add_adapters(x, list);
    exchange_reply_json(x, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

void models_get(struct exchange *x)
{
    const char *id = exchange_parameter(x, "id");
    struct hosted_model *m = server_find_model(exchange_server(x), id);
    struct api_error e;
    if (m != NULL && is_allowed(x, m)) {
        exchange_reply_json(x, 200, describe(exchange_server(x), m));
        return;
    }
    api_error_set(&e, 404, "the model '%s' does not exist", id);
    e.code = "model_not_found";
    snprintf(e.param, sizeof e.param, "model");
    exchange_fail(x, &e);
}
