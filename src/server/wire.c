/* wire.c: a record is the struct itself, its pointers cleared, and behind it what they pointed to. */
#include "server/wire.h"

#include <string.h>

/* What a pointer of a request leads to, in the record's order: lists by their bytes, texts with their NUL. */
struct wire_writer {
    char *p; /* NULL: only count */
    size_t n;
};

static void put(struct wire_writer *w, const void *bytes, size_t n)
{
    if (w->p != NULL && n > 0)
        memcpy(w->p + w->n, bytes, n);
    w->n += n;
}

static void put_text(struct wire_writer *w, const char *s) { put(w, s, strlen(s) + 1); }

/* Lists of larger elements first, so that all of them are aligned. */
static void put_tail(struct wire_writer *w, const struct mr_request *r)
{
    put(w, r->prompt, (size_t)r->n_prompt * sizeof *r->prompt);
    put(w, r->bias, (size_t)r->n_bias * sizeof *r->bias);
    put(w, r->stop_token, (size_t)r->n_stop_token * sizeof *r->stop_token);
    put(w, r->adapter, (size_t)r->n_adapter * sizeof *r->adapter);
    put(w, r->prediction, (size_t)r->n_prediction * sizeof *r->prediction);
    for (int32_t i = 0; i < r->n_stop; i++)
        put_text(w, r->stop[i]);
    for (int32_t i = 0; i < r->n_bad_word; i++)
        put_text(w, r->bad_word[i]);
    if (r->constraint_text != NULL)
        put_text(w, r->constraint_text);
    if (r->cache_salt != NULL)
        put_text(w, r->cache_salt);
}

enum mr_status wire_request_bytes(size_t *bytes, const struct mr_request *r, struct mr_error *err)
{
    const struct {
        const char *name;
        int32_t n, low, high;
    } list[] = {
        {"bias", r->n_bias, 0, MR_LOGIT_BIAS_MAX},
        {"stop", r->n_stop, 0, MR_STOP_MAX},
        {"stop_token", r->n_stop_token, 0, MR_STOP_TOKENS_MAX},
        {"adapter", r->n_adapter, 0, MR_ADAPTERS_MAX},
        {"bad_word", r->n_bad_word, 0, MR_BAD_WORDS_MAX},
        {"prediction", r->n_prediction, 0, INT32_MAX},
    };
    *bytes = 0;
    if (r->n_prompt < 1)
        return mr_fail(err, MR_BAD_INPUT, "the prompt is empty");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].n < list[i].low || list[i].n > list[i].high)
            return mr_fail(err, MR_BAD_INPUT, "%s has %d entries, at most %d are possible", list[i].name, list[i].n,
                           list[i].high);
    struct wire_writer w = {.n = sizeof *r};
    put_tail(&w, r);
    *bytes = w.n;
    return MR_OK;
}

void wire_request_write(void *out, const struct mr_request *r)
{
    struct wire_writer w = {.p = out};
    put(&w, r, sizeof *r);
    put_tail(&w, r);
}

static const char *next_text(const char **p)
{
    const char *s = *p;
    *p += strlen(s) + 1;
    return s;
}

void wire_request_read(struct wire_request *out, const void *record)
{
    struct mr_request *r = &out->request;
    const char *p = record;
    memcpy(r, p, sizeof *r);
    p += sizeof *r;
    r->prompt = (const int32_t *)(const void *)p;
    p += (size_t)r->n_prompt * sizeof *r->prompt;
    r->bias = (const struct mr_logit_bias *)(const void *)p;
    p += (size_t)r->n_bias * sizeof *r->bias;
    r->stop_token = (const int32_t *)(const void *)p;
    p += (size_t)r->n_stop_token * sizeof *r->stop_token;
    r->adapter = (const struct mr_adapter_use *)(const void *)p;
    p += (size_t)r->n_adapter * sizeof *r->adapter;
    r->prediction = (const int32_t *)(const void *)p;
    p += (size_t)r->n_prediction * sizeof *r->prediction;
    for (int32_t i = 0; i < r->n_stop; i++)
        out->stop[i] = next_text(&p);
    for (int32_t i = 0; i < r->n_bad_word; i++)
        out->bad_word[i] = next_text(&p);
    r->stop = out->stop;
    r->bad_word = out->bad_word;
    r->constraint_text = r->constraint_text != NULL ? next_text(&p) : NULL; /* only whether it was there came along */
    r->cache_salt = r->cache_salt != NULL ? next_text(&p) : NULL;
}

size_t wire_event_bytes(const struct mr_event *event)
{
    return sizeof *event + (size_t)event->n_top * sizeof *event->top + (size_t)event->n_embedding * sizeof *event->embedding +
           event->n_text + 1 + (event->error != NULL ? strlen(event->error) + 1 : 0);
}

void wire_event_write(void *out, const struct mr_event *event)
{
    struct wire_writer w = {.p = out};
    put(&w, event, sizeof *event);
    put(&w, event->top, (size_t)event->n_top * sizeof *event->top);
    put(&w, event->embedding, (size_t)event->n_embedding * sizeof *event->embedding);
    put(&w, event->text, event->n_text);
    put(&w, "", 1);
    if (event->error != NULL)
        put_text(&w, event->error);
}

void wire_event_read(struct mr_event *out, const void *record)
{
    const char *p = record;
    memcpy(out, p, sizeof *out);
    p += sizeof *out;
    out->top = (const struct mr_logprob *)(const void *)p;
    p += (size_t)out->n_top * sizeof *out->top;
    out->embedding = out->embedding != NULL ? (const float *)(const void *)p : NULL;
    p += (size_t)out->n_embedding * sizeof *out->embedding;
    out->text = p;
    out->error = out->error != NULL ? p + out->n_text + 1 : NULL;
}
