/* wire_check.c: whether a record that another process sent may be read: every count has its bytes, every text its end, and
 * every field a value that it can have. */
#include <string.h>

#include "base/utf8.h"
#include "server/wire.h"

/* What is left of a record. */
struct reader {
    const char *p;
    size_t n;
};

static bool skip(struct reader *r, int32_t count, size_t size)
{
    if (count < 0 || (size_t)count > r->n / size)
        return false;
    r->p += (size_t)count * size;
    r->n -= (size_t)count * size;
    return true;
}

static bool skip_text(struct reader *r)
{
    const char *end = memchr(r->p, '\0', r->n);
    if (end == NULL)
        return false;
    r->n -= (size_t)(end + 1 - r->p);
    r->p = end + 1;
    return true;
}

bool wire_is_bool(const void *field)
{
    unsigned char byte;
    memcpy(&byte, field, 1);
    return byte <= 1;
}

/* The same for an enum below n. */
static bool is_below(const void *field, unsigned n)
{
    unsigned value;
    memcpy(&value, field, sizeof value);
    return value < n;
}

/* Pointers only say whether there is something. */
static bool is_set(const void *field)
{
    uintptr_t value;
    memcpy(&value, field, sizeof value);
    return value != 0;
}

static enum mr_status damaged(struct mr_error *err, const char *what)
{
    return mr_fail(err, MR_BAD_FORMAT, "a record is damaged: %s", what);
}

static bool request_lists_fit(struct reader *in, const struct mr_request *r)
{
    return r->n_prompt >= 1 && r->n_bias <= MR_LOGIT_BIAS_MAX && r->n_stop_token <= MR_STOP_TOKENS_MAX &&
           r->n_adapter <= MR_ADAPTERS_MAX && skip(in, r->n_prompt, sizeof *r->prompt) &&
           skip(in, r->n_bias, sizeof *r->bias) && skip(in, r->n_stop_token, sizeof *r->stop_token) &&
           skip(in, r->n_adapter, sizeof *r->adapter) && skip(in, r->n_prediction, sizeof *r->prediction);
}

static bool request_texts_fit(struct reader *in, const struct mr_request *r)
{
    if (r->n_stop < 0 || r->n_stop > MR_STOP_MAX || r->n_bad_word < 0 || r->n_bad_word > MR_BAD_WORDS_MAX)
        return false;
    int n = r->n_stop + r->n_bad_word;
    n += is_set(&r->constraint_text) ? 1 : 0;
    n += is_set(&r->cache_salt) ? 1 : 0;
    for (int i = 0; i < n; i++)
        if (!skip_text(in))
            return false;
    return in->n == 0;
}

enum mr_status wire_request_check(const void *record, size_t n, struct mr_error *err)
{
    const struct mr_request *r = record;
    if (n < sizeof *r)
        return damaged(err, "no request");
    struct reader in = {(const char *)record + sizeof *r, n - sizeof *r};
    if (!wire_is_bool(&r->ignore_eos) || !wire_is_bool(&r->show_special) || !wire_is_bool(&r->normalize) ||
        !wire_is_bool(&r->token_healing) || !wire_is_bool(&r->background) ||
        !is_below(&r->constraint, MR_CONSTRAINT_CALLS + 1) || !is_below(&r->pooling, MR_N_POOLINGS) ||
        !is_below(&r->speculation, MR_N_SPECULATIONS) || r->n < 1 || r->n > MR_N_MAX)
        return damaged(err, "a field of a request");
    if (!request_lists_fit(&in, r))
        return damaged(err, "a list of a request");
    return request_texts_fit(&in, r) ? MR_OK : damaged(err, "a text of a request");
}

static bool is_token(int32_t token, const struct wire_limits *l) { return token >= 0 && token < l->n_vocab; }

static bool event_fields_hold(const struct mr_event *e, const struct wire_limits *l)
{
    const struct mr_usage *u = &e->usage;
    return wire_is_bool(&e->is_prompt) && wire_is_bool(&u->from_store) && wire_is_bool(&u->is_bound) &&
           is_below(&e->finish, MR_FINISH_TIMEOUT + 1) && is_below(&e->status, MR_BUSY + 1) &&
           is_below(&u->cache_miss, MR_CACHE_WINDOW + 1) && e->sample >= 0 && e->sample < l->n &&
           (e->token == -1 || is_token(e->token, l)) && e->n_top >= 0 && e->n_top <= MR_TOP_LOGPROBS_MAX &&
           (is_set(&e->embedding) ? e->n_embedding == l->n_embd : e->n_embedding == 0) &&
           (e->finish == MR_FINISH_ERROR) == is_set(&e->error) && (e->finish != MR_FINISH_ERROR || e->status != MR_OK);
}

static bool usage_holds(const struct mr_usage *u)
{
    const int64_t us[] = {u->queue_us,  u->prompt_us, u->generate_us,      u->first_token_us,
                          u->memory_us, u->sample_us, u->prompt_memory_us, u->prompt_sample_us};
    for (size_t i = 0; i < sizeof us / sizeof *us; i++)
        if (us[i] < 0 || us[i] > INT64_MAX / 16)
            return false;
    return u->n_prompt >= 0 && u->n_generated >= 0 && u->n_cached >= 0 && u->n_cached <= u->n_prompt && u->n_drafted >= 0 &&
           u->n_accepted >= 0 && u->n_preempted >= 0 && u->n_discarded >= 0 && u->n_restored >= 0;
}

enum mr_status wire_event_check(const void *record, size_t n, const struct wire_limits *limits, struct mr_error *err)
{
    const struct mr_event *e = record;
    if (n < sizeof *e)
        return damaged(err, "no event");
    struct reader in = {(const char *)record + sizeof *e, n - sizeof *e};
    if (!event_fields_hold(e, limits) || !usage_holds(&e->usage))
        return damaged(err, "a field of an event");
    const struct mr_logprob *top = (const struct mr_logprob *)(const void *)in.p;
    if (!skip(&in, e->n_top, sizeof *e->top) || !skip(&in, e->n_embedding, sizeof *e->embedding))
        return damaged(err, "a list of an event");
    for (int32_t i = 0; i < e->n_top; i++)
        if (!is_token(top[i].token, limits))
            return damaged(err, "a token of an event");
    if (e->n_text >= in.n || !utf8_is_valid(in.p, e->n_text) || in.p[e->n_text] != '\0')
        return damaged(err, "the text of an event");
    in.p += e->n_text + 1;
    in.n -= e->n_text + 1;
    const char *message = in.p;
    if (is_set(&e->error) && (!skip_text(&in) || !utf8_is_valid(message, strlen(message))))
        return damaged(err, "the message of an event");
    return in.n == 0 ? MR_OK : damaged(err, "there is more than an event");
}
