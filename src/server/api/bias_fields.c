/* bias_fields.c: logit_bias. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/sampling_fields.h"

struct biases {
    const struct json_fields *f;
    const struct tokenizer *t;
    struct mr_logit_bias *bias; /* [MR_LOGIT_BIAS_MAX] */
    int32_t n;
};

static void add(struct biases *b, int64_t token, float bias)
{
    if (b->n == MR_LOGIT_BIAS_MAX)
        json_fields_fail(b->f, "logit_bias", "has more than %d entries", MR_LOGIT_BIAS_MAX);
    else
        b->bias[b->n++] = (struct mr_logit_bias){.token = (int32_t)token, .bias = bias};
}

/* false: never. */
static bool read_bias(const struct biases *b, const char *name, const json_t *v, float *out)
{
    if (json_is_false(v)) {
        *out = -INFINITY;
        return true;
    }
    const double d = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(d >= -100 && d <= 100)) {
        json_fields_fail(b->f, "logit_bias", "[%.40s] must be a number from -100 to 100, or false", name);
        return false;
    }
    *out = (float)d;
    return true;
}

/* An id in digits alone. */
static bool read_id(const char *key, int32_t n_vocab, int64_t *out)
{
    const size_t n = strlen(key);
    if (n == 0 || n > 9 || strspn(key, "0123456789") != n)
        return false;
    *out = strtol(key, NULL, 10);
    return *out < n_vocab;
}

static void read_object(struct biases *b, const json_t *object)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        int64_t id;
        float bias;
        if (json_fields_failed(b->f))
            return;
        if (!read_id(key, tokenizer_n_vocab(b->t), &id))
            json_fields_fail(b->f, "logit_bias", "'%.40s' is no token id; they are from 0 to %d", key,
                             tokenizer_n_vocab(b->t) - 1);
        else if (read_bias(b, key, v, &bias))
            add(b, id, bias);
    }
}

/* The bias of each token that the text is cut into. */
static void add_text(struct biases *b, const json_t *text, float bias)
{
    struct token_list ids = {0};
    struct mr_error err;
    const struct text_run run = {.s = json_string_value(text), .n = json_string_length(text)};
    const enum mr_status status = run.n <= MR_STOP_BYTES_MAX
                                      ? tokenizer_encode(b->t, &run, 1, 0, &ids, &err)
                                      : mr_fail(&err, MR_BAD_INPUT, "a text has more than %d bytes", MR_STOP_BYTES_MAX);
    if (status != MR_OK)
        api_error_take_status(b->f->error, status, "logit_bias", &err);
    for (size_t i = 0; i < ids.n && !json_fields_failed(b->f); i++)
        add(b, ids.id[i], bias);
    token_list_release(&ids);
}

static void read_list(struct biases *b, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && !json_fields_failed(b->f); i++) {
        const json_t *pair = json_array_get(list, i), *what = json_array_get(pair, 0);
        char name[24];
        int64_t id;
        float bias;
        snprintf(name, sizeof name, "%zu", i);
        if (json_array_size(pair) != 2) {
            json_fields_fail(b->f, "logit_bias", "[%zu] must be a pair of a token id or text and a bias", i);
        } else if (read_bias(b, name, json_array_get(pair, 1), &bias)) {
            if (json_is_string(what))
                add_text(b, what, bias);
            else if (json_number_int(what, 0, tokenizer_n_vocab(b->t) - 1, &id))
                add(b, id, bias);
            else
                json_fields_fail(b->f, "logit_bias", "[%zu][0] is neither a text nor a token id, which are from 0 to %d", i,
                                 tokenizer_n_vocab(b->t) - 1);
        }
    }
}

void bias_fields_read(const struct json_fields *f, const struct tokenizer *t, struct arena *arena, struct mr_request *r)
{
    const json_t *v = json_fields_failed(f) ? NULL : json_fields_get(f, "logit_bias");
    if (v == NULL)
        return;
    struct biases b = {f, t, arena_alloc(arena, MR_LOGIT_BIAS_MAX * sizeof *b.bias), 0};
    if (b.bias == NULL)
        api_error_at(f->error, 503, "logit_bias", "no memory for the request");
    else if (json_is_object(v))
        read_object(&b, v);
    else if (json_is_array(v))
        read_list(&b, v);
    else
        json_fields_fail(f, "logit_bias", "must be an object of token ids and numbers");
    r->bias = b.bias;
    r->n_bias = b.n;
}
