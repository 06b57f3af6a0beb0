/* request_record.c: checks a request and makes it flat. */
#include "engine/request_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/drafter.h"
#include "sample/constraint.h"
#include "sample/sampler.h"

void mr_request_defaults(struct mr_request *request)
{
    *request = (struct mr_request){.max_tokens = -1, .n = 1, .prompt_logprobs = -1, .normalize = true};
    mr_sampling_defaults(&request->sampling);
}

static enum mr_status check_numbers(const struct mr_request *r, struct mr_error *err)
{
    const struct {
        const char *name;
        int32_t value, low, high;
    } field[] = {
        {"n", r->n, 1, MR_N_MAX},
        {"priority", r->priority, -MR_PRIORITY_MAX, MR_PRIORITY_MAX},
        {"deadline_ms", r->deadline_ms, 0, INT32_MAX},
        {"n_retry", r->n_retry, 0, INT32_MAX},
        {"prompt_logprobs", r->prompt_logprobs, -1, MR_TOP_LOGPROBS_MAX},
        {"best_of", r->best_of, 0, MR_N_MAX},
        {"speculation", (int32_t)r->speculation, 0, MR_N_SPECULATIONS - 1},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (field[i].value < field[i].low || field[i].value > field[i].high)
            return mr_fail(err, MR_BAD_INPUT, "%s is %d, must be from %d to %d", field[i].name, field[i].value, field[i].low,
                           field[i].high);
    if (r->best_of > 0 && r->best_of < r->n)
        return mr_fail(err, MR_BAD_INPUT, "best_of is %d, fewer than the %d answers of n", r->best_of, r->n);
    if (r->max_tokens < -1)
        return mr_fail(err, MR_BAD_INPUT, "max_tokens is %d, must be -1 (until the context is full) or more", r->max_tokens);
    MR_TRY(drafts_check((int)r->speculation, err));
    if (r->arrival_us < 0)
        return mr_fail(err, MR_BAD_INPUT, "arrival_us is %lld, must be 0 (now) or more", (long long)r->arrival_us);
    return MR_OK;
}

static enum mr_status check_prompt(const struct mr_request *r, const struct request_limits *limits, struct mr_error *err)
{
    if (r->n_prompt < 1)
        return mr_fail(err, MR_BAD_INPUT, "the prompt is empty");
    if (r->pooling != MR_POOLING_NONE && r->n_prompt > limits->n_ctx)
        return mr_fail(err, MR_BAD_INPUT, "the prompt has %d tokens and the context %d", r->n_prompt, limits->n_ctx);
    if (r->pooling == MR_POOLING_NONE && r->n_prompt >= limits->n_ctx)
        return mr_fail(err, MR_BAD_INPUT, "the prompt has %d tokens and the context %d, which leaves no room for an answer",
                       r->n_prompt, limits->n_ctx);
    for (int32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= limits->n_vocab)
            return mr_fail(err, MR_BAD_INPUT, "prompt[%d] is %d, token ids are from 0 to %d", i, r->prompt[i],
                           limits->n_vocab - 1);
    return MR_OK;
}

static enum mr_status check_ends(const struct mr_request *r, const struct request_limits *limits, struct mr_error *err)
{
    if (r->n_stop_token < 0 || r->n_stop_token > MR_STOP_TOKENS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "stop_token has %d ids, at most %d are possible", r->n_stop_token,
                       MR_STOP_TOKENS_MAX);
    for (int32_t i = 0; i < r->n_stop_token; i++)
        if (r->stop_token[i] < 0 || r->stop_token[i] >= limits->n_vocab)
            return mr_fail(err, MR_BAD_INPUT, "stop_token[%d] is %d, token ids are from 0 to %d", i, r->stop_token[i],
                           limits->n_vocab - 1);
    if (r->min_tokens < 0 || (r->max_tokens >= 0 && r->min_tokens > r->max_tokens))
        return mr_fail(err, MR_BAD_INPUT, "min_tokens is %d, must be from 0 to max_tokens", r->min_tokens);
    if (r->min_tokens > 0 && r->constraint != MR_CONSTRAINT_NONE)
        return mr_fail(err, MR_BAD_INPUT, "min_tokens and a constraint exclude each other: what obeys has an end");
    return MR_OK;
}

/* A vector is no answer. */
static enum mr_status check_pooling(const struct mr_request *r, struct mr_error *err)
{
    if ((unsigned)r->pooling >= MR_N_POOLINGS)
        return mr_fail(err, MR_BAD_INPUT, "pooling is %d, which is no kind of pooling", (int)r->pooling);
    if (r->pooling != MR_POOLING_NONE &&
        (r->n > 1 || r->best_of > 1 || r->prompt_logprobs >= 0 || r->token_healing || r->constraint != MR_CONSTRAINT_NONE))
        return mr_fail(err, MR_BAD_INPUT,
                       "pooling excludes n and best_of above 1, prompt_logprobs, token_healing and a constraint");
    return MR_OK;
}

/* *bytes: of all strings with their NUL. */
static enum mr_status check_stop(const struct mr_request *r, size_t *bytes, struct mr_error *err)
{
    *bytes = 0;
    if (r->n_stop < 0 || r->n_stop > MR_STOP_MAX)
        return mr_fail(err, MR_BAD_INPUT, "stop has %d strings, at most %d are possible", r->n_stop, MR_STOP_MAX);
    for (int32_t i = 0; i < r->n_stop; i++) {
        const size_t n = strnlen(r->stop[i], MR_STOP_BYTES_MAX + 1);
        if (n == 0 || n > MR_STOP_BYTES_MAX)
            return mr_fail(err, MR_BAD_INPUT, "stop[%d] is %s, must have 1 to %d bytes", i, n == 0 ? "empty" : "too long",
                           MR_STOP_BYTES_MAX);
        *bytes += n + 1;
    }
    return MR_OK;
}

/* *bytes: of the constraint's text. */
static enum mr_status check_constraint(const struct mr_request *r, size_t *bytes, struct mr_error *err)
{
    *bytes = 0;
    if (r->constraint == MR_CONSTRAINT_NONE)
        return MR_OK;
    if ((unsigned)r->constraint > MR_CONSTRAINT_CALLS)
        return mr_fail(err, MR_BAD_INPUT, "constraint is %d, which is no kind of constraint", (int)r->constraint);
    if (r->ignore_eos)
        return mr_fail(err, MR_BAD_INPUT, "ignore_eos and a constraint exclude each other: what obeys has an end");
    if (r->constraint == MR_CONSTRAINT_JSON_OBJECT)
        return MR_OK;
    if (r->constraint_text == NULL)
        return mr_fail(err, MR_BAD_INPUT, "constraint_text is missing");
    *bytes = strnlen(r->constraint_text, CONSTRAINT_TEXT_MAX + 1);
    if (*bytes > CONSTRAINT_TEXT_MAX)
        return mr_fail(err, MR_BAD_INPUT, "constraint_text has more than %d bytes", CONSTRAINT_TEXT_MAX);
    return MR_OK;
}

/* *bytes: of the salt. */
static enum mr_status check_salt(const struct mr_request *r, size_t *bytes, struct mr_error *err)
{
    *bytes = r->cache_salt != NULL ? strnlen(r->cache_salt, MR_SALT_BYTES_MAX + 1) : 0;
    return *bytes <= MR_SALT_BYTES_MAX ? MR_OK
                                       : mr_fail(err, MR_BAD_INPUT, "cache_salt has more than %d bytes", MR_SALT_BYTES_MAX);
}

static enum mr_status check_adapters(const struct mr_request *r, struct mr_error *err)
{
    if (r->n_adapter < 0 || r->n_adapter > MR_ADAPTERS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "adapter has %d entries, at most %d are possible", r->n_adapter, MR_ADAPTERS_MAX);
    for (int32_t i = 0; i < r->n_adapter; i++)
        if (!(r->adapter[i].scale >= -100 && r->adapter[i].scale <= 100))
            return mr_fail(err, MR_BAD_INPUT, "adapter[%d]: scale is %g, must be from -100 to 100", i,
                           (double)r->adapter[i].scale);
    return MR_OK;
}

/* *n: of its tokens, those that an answer has room for. */
static enum mr_status check_prediction(const struct mr_request *r, const struct request_limits *limits, int32_t *n,
                                       struct mr_error *err)
{
    *n = r->n_prediction < limits->n_ctx ? r->n_prediction : limits->n_ctx;
    if (r->n_prediction < 0)
        return mr_fail(err, MR_BAD_INPUT, "n_prediction is %d, must be 0 or more", r->n_prediction);
    for (int32_t i = 0; i < *n; i++)
        if (r->prediction[i] < 0 || r->prediction[i] >= limits->n_vocab)
            return mr_fail(err, MR_BAD_INPUT, "prediction[%d] is %d, token ids are from 0 to %d", i, r->prediction[i],
                           limits->n_vocab - 1);
    return MR_OK;
}

/* *bytes: of all words with their NUL. */
static enum mr_status check_bad_words(const struct mr_request *r, size_t *bytes, struct mr_error *err)
{
    *bytes = 0;
    if (r->n_bad_word < 0 || r->n_bad_word > MR_BAD_WORDS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "bad_word has %d words, at most %d are possible", r->n_bad_word, MR_BAD_WORDS_MAX);
    for (int32_t i = 0; i < r->n_bad_word; i++) {
        const size_t n = strnlen(r->bad_word[i], MR_BAD_WORD_BYTES_MAX + 1);
        if (n == 0 || n > MR_BAD_WORD_BYTES_MAX)
            return mr_fail(err, MR_BAD_INPUT, "bad_word[%d] is %s, must have 1 to %d bytes", i, n == 0 ? "empty" : "too long",
                           MR_BAD_WORD_BYTES_MAX);
        *bytes += n + 1;
    }
    if (r->token_healing && (r->n_bad_word > 0 || r->constraint != MR_CONSTRAINT_NONE))
        return mr_fail(err, MR_BAD_INPUT,
                       "token_healing excludes bad_word and a constraint: the first token belongs to the prompt");
    return MR_OK;
}

/* Bytes of the texts behind a record, and tokens of its prediction. */
struct tail_bytes {
    size_t stop, constraint, salt, bad_word;
    int32_t n_prediction;
};

/* Each with its NUL; returns where they end. */
static char *copy_strings(char *p, const char *const *s, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const size_t bytes = strlen(s[i]) + 1;
        memcpy(p, s[i], bytes);
        p += bytes;
    }
    return p;
}

static void copy_tail(struct request_record *record, const struct mr_request *r, const struct tail_bytes *bytes)
{
    char *p = (char *)(record + 1);
    memcpy(p, r->prompt, (size_t)r->n_prompt * sizeof *r->prompt);
    p += (size_t)r->n_prompt * sizeof *r->prompt;
    if (r->n_bias > 0)
        memcpy(p, r->bias, (size_t)r->n_bias * sizeof *r->bias);
    p += (size_t)r->n_bias * sizeof *r->bias;
    if (r->n_stop_token > 0)
        memcpy(p, r->stop_token, (size_t)r->n_stop_token * sizeof *r->stop_token);
    p += (size_t)r->n_stop_token * sizeof *r->stop_token;
    if (r->n_adapter > 0)
        memcpy(p, r->adapter, (size_t)r->n_adapter * sizeof *r->adapter);
    p += (size_t)r->n_adapter * sizeof *r->adapter;
    if (bytes->n_prediction > 0)
        memcpy(p, r->prediction, (size_t)bytes->n_prediction * sizeof *r->prediction);
    p += (size_t)bytes->n_prediction * sizeof *r->prediction;
    p = copy_strings(p, r->stop, r->n_stop);
    if (bytes->constraint > 0)
        memcpy(p, r->constraint_text, bytes->constraint);
    p += bytes->constraint;
    if (bytes->salt > 0)
        memcpy(p, r->cache_salt, bytes->salt);
    copy_strings(p + bytes->salt, r->bad_word, r->n_bad_word);
}

enum mr_status request_record_create(struct request_record **out, const struct mr_request *r,
                                     const struct request_limits *limits, struct mr_error *err)
{
    *out = NULL;
    struct tail_bytes tail;
    MR_TRY(check_prompt(r, limits, err));
    MR_TRY(check_stop(r, &tail.stop, err));
    MR_TRY(check_constraint(r, &tail.constraint, err));
    MR_TRY(check_salt(r, &tail.salt, err));
    MR_TRY(check_bad_words(r, &tail.bad_word, err));
    MR_TRY(sampling_check(&r->sampling, r->bias, r->n_bias, limits->n_vocab, err));
    MR_TRY(check_numbers(r, err));
    MR_TRY(check_ends(r, limits, err));
    MR_TRY(check_adapters(r, err));
    MR_TRY(check_pooling(r, err));
    MR_TRY(check_prediction(r, limits, &tail.n_prediction, err));
    /* No sum overflows: a prompt is shorter than the context, the rest is bounded above. */
    const size_t bytes = sizeof **out + (size_t)r->n_prompt * sizeof *r->prompt + (size_t)r->n_bias * sizeof *r->bias +
                         (size_t)r->n_stop_token * sizeof *r->stop_token + (size_t)r->n_adapter * sizeof *r->adapter +
                         (size_t)tail.n_prediction * sizeof *r->prediction + tail.stop + tail.constraint + tail.salt +
                         tail.bad_word;
    struct request_record *record = mem_array(bytes, 1);
    if (record == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a request of %d tokens", r->n_prompt);
    *record = (struct request_record){.sampling = r->sampling,
                                      .n_prompt = r->n_prompt,
                                      .max_tokens = r->pooling == MR_POOLING_NONE ? r->max_tokens : 0,
                                      .n_bias = r->n_bias,
                                      .n_stop_token = r->n_stop_token,
                                      .n_stop = r->n_stop,
                                      .min_tokens = r->min_tokens,
                                      .constraint = (int32_t)r->constraint,
                                      .n_constraint = (int32_t)tail.constraint,
                                      .n_salt = (int32_t)tail.salt,
                                      .n_adapter = r->n_adapter,
                                      .n_bad_word = (int32_t)tail.bad_word,
                                      .prompt_logprobs = r->prompt_logprobs,
                                      .speculation = (int32_t)r->speculation,
                                      .n_prediction = tail.n_prediction,
                                      .pooling = (int32_t)r->pooling,
                                      .normalize = r->normalize,
                                      .background = r->background,
                                      .n = r->best_of > 0 ? r->best_of : r->n,
                                      .n_return = r->n,
                                      .n_open = r->best_of > 0 ? r->best_of : r->n,
                                      .priority = r->priority,
                                      .key = r->key,
                                      .arrival_us = r->arrival_us,
                                      .n_retry = r->n_retry,
                                      .ignore_eos = r->ignore_eos,
                                      .show_end = r->show_special,
                                      .show_special = r->show_special || r->constraint == MR_CONSTRAINT_CALLS};
    if (record->n_return < record->n && r->sampling.n_logprobs < 0)
        record->sampling.n_logprobs = 0; /* what the best is measured by */
    copy_tail(record, r, &tail);
    *out = record;
    return MR_OK;
}

bool request_record_needs_all_rows(const struct request_record *r)
{
    return r->prompt_logprobs >= 0 || r->pooling == MR_POOLING_MEAN || r->pooling == MR_POOLING_CLS;
}

const int32_t *request_record_prompt(const struct request_record *r) { return (const int32_t *)(r + 1); }

const struct mr_logit_bias *request_record_bias(const struct request_record *r)
{
    return (const struct mr_logit_bias *)(request_record_prompt(r) + r->n_prompt);
}

const int32_t *request_record_stop_token(const struct request_record *r)
{
    return (const int32_t *)(request_record_bias(r) + r->n_bias);
}

const struct mr_adapter_use *request_record_adapter(const struct request_record *r)
{
    return (const struct mr_adapter_use *)(request_record_stop_token(r) + r->n_stop_token);
}

const int32_t *request_record_prediction(const struct request_record *r)
{
    return (const int32_t *)(request_record_adapter(r) + r->n_adapter);
}

void request_record_stop(const struct request_record *r, const char *stop[MR_STOP_MAX])
{
    const char *p = (const char *)(request_record_prediction(r) + r->n_prediction);
    for (int32_t i = 0; i < r->n_stop; i++) {
        stop[i] = p;
        p += strlen(p) + 1;
    }
}

const char *request_record_constraint(const struct request_record *r)
{
    const char *p = (const char *)(request_record_prediction(r) + r->n_prediction);
    for (int32_t i = 0; i < r->n_stop; i++)
        p += strlen(p) + 1;
    return p;
}

const char *request_record_salt(const struct request_record *r) { return request_record_constraint(r) + r->n_constraint; }

const char *request_record_bad_word(const struct request_record *r) { return request_record_salt(r) + r->n_salt; }
