/* sampling_fields.c: numbers by a table, lists into the arena. */
#include "server/api/sampling_fields.h"

#include <string.h>

#include "base/random.h"

static const struct {
    const char *name;
    double low, high;
    size_t offset; /* in struct mr_sampling */
} number[] = {
    {"temperature", 0, 100, offsetof(struct mr_sampling, temperature)},
    {"top_p", 0, 1, offsetof(struct mr_sampling, top_p)},
    {"min_p", 0, 1, offsetof(struct mr_sampling, min_p)},
    {"typical_p", 0, 1, offsetof(struct mr_sampling, typical_p)},
    {"repeat_penalty", 0.01, 100, offsetof(struct mr_sampling, repeat_penalty)},
    {"repetition_penalty", 0.01, 100, offsetof(struct mr_sampling, repeat_penalty)},
    {"presence_penalty", -100, 100, offsetof(struct mr_sampling, presence_penalty)},
    {"frequency_penalty", -100, 100, offsetof(struct mr_sampling, frequency_penalty)},
};

/* Whole numbers of the request; the later one of two names wins. */
static const struct {
    const char *name;
    int32_t low, high;
    size_t offset; /* in struct mr_request */
} whole[] = {
    {"n", 1, MR_N_MAX, offsetof(struct mr_request, n)},
    {"best_of", 1, MR_N_MAX, offsetof(struct mr_request, best_of)},
    {"min_tokens", 0, INT32_MAX, offsetof(struct mr_request, min_tokens)},
    {"n_predict", -1, INT32_MAX, offsetof(struct mr_request, max_tokens)},
    {"max_tokens", -1, INT32_MAX, offsetof(struct mr_request, max_tokens)},
    {"max_completion_tokens", -1, INT32_MAX, offsetof(struct mr_request, max_tokens)},
    {"repeat_last_n", -1, INT32_MAX, offsetof(struct mr_request, sampling.repeat_last_n)},
    {"prompt_logprobs", 0, MR_TOP_LOGPROBS_MAX, offsetof(struct mr_request, prompt_logprobs)},
    {"priority", -MR_PRIORITY_MAX, MR_PRIORITY_MAX, offsetof(struct mr_request, priority)},
};

static void read_numbers(const struct json_fields *f, struct mr_request *r)
{
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        json_fields_float(f, number[i].name, number[i].low, number[i].high, (float *)((char *)&r->sampling + number[i].offset));
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        json_fields_int32(f, whole[i].name, whole[i].low, whole[i].high, (int32_t *)((char *)r + whole[i].offset));
    if (json_fields_int32(f, "top_k", -1, INT32_MAX, &r->sampling.top_k) && r->sampling.top_k < 0)
        r->sampling.top_k = 0; /* vLLM's word for all */
    json_fields_bool(f, "ignore_eos", &r->ignore_eos);
    if (r->best_of > 0 && r->best_of < r->n)
        json_fields_fail(f, "best_of", "must not be less than n, which is %d", r->n);
    if (r->min_tokens > 0 && r->max_tokens >= 0 && r->min_tokens > r->max_tokens)
        json_fields_fail(f, "min_tokens", "must not be more than max_tokens, which is %d", r->max_tokens);
}

void sampling_read_seed(const struct json_fields *f, struct mr_request *r)
{
    int64_t seed = -1;
    json_fields_int(f, "seed", INT64_MIN, INT64_MAX, &seed);
    r->sampling.seed = seed == -1 ? random_seed() >> 1 : (uint64_t)seed;
}

static void read_service_tier(const struct json_fields *f, struct mr_request *r)
{
    static const struct {
        const char *name;
        int32_t priority;
    } tier[] = {{"auto", 0}, {"default", 0}, {"flex", -10}, {"priority", 10}};
    const char *name;
    if (!json_fields_string(f, "service_tier", &name))
        return;
    for (size_t i = 0; i < sizeof tier / sizeof *tier; i++) {
        if (strcmp(name, tier[i].name) == 0) {
            if (json_fields_get(f, "priority") == NULL)
                r->priority = tier[i].priority;
            return;
        }
    }
    json_fields_fail(f, "service_tier", "must be 'auto', 'default', 'flex' or 'priority'");
}

static void read_salt(const struct json_fields *f, struct mr_request *r)
{
    if (json_fields_string(f, "cache_salt", &r->cache_salt) && strlen(r->cache_salt) > MR_SALT_BYTES_MAX)
        json_fields_fail(f, "cache_salt", "must have at most %d bytes", MR_SALT_BYTES_MAX);
}

static bool is_word(const json_t *v, size_t most)
{
    const size_t n = json_string_length(v);
    return json_is_string(v) && n > 0 && n <= most && strlen(json_string_value(v)) == n;
}

void string_list_read(const struct json_fields *f, const char *name, int32_t most, size_t most_bytes, struct arena *arena,
                      const char *const **out, int32_t *n)
{
    const json_t *v = json_fields_failed(f) ? NULL : json_fields_get(f, name);
    if (v == NULL)
        return;
    const size_t count = json_is_string(v) ? 1 : json_array_size(v);
    if (!json_is_string(v) && !json_is_array(v))
        json_fields_fail(f, name, "must be a string or a list of strings");
    if (count > (size_t)most)
        json_fields_fail(f, name, "has %zu strings, at most %d are possible", count, most);
    if (json_fields_failed(f))
        return;
    const char **list = arena_alloc(arena, (count + 1) * sizeof *list);
    if (list == NULL) {
        api_error_at(f->error, 503, name, "no memory for the request");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *word = json_is_string(v) ? v : json_array_get(v, i);
        if (!is_word(word, most_bytes)) {
            json_fields_fail(f, name, "[%zu] must be a string of 1 to %zu bytes without NUL", i, most_bytes);
            return;
        }
        list[i] = json_string_value(word);
    }
    *out = list;
    *n = (int32_t)count;
}

void token_list_read(const struct json_fields *f, const char *name, int32_t most, int32_t n_vocab, struct arena *arena,
                     const int32_t **out, int32_t *n)
{
    const json_t *v;
    if (!json_fields_array(f, name, &v))
        return;
    const size_t count = json_array_size(v);
    if (count > (size_t)most) {
        json_fields_fail(f, name, "has %zu ids, at most %d are possible", count, most);
        return;
    }
    int32_t *list = arena_alloc(arena, (count + 1) * sizeof *list);
    if (list == NULL)
        api_error_at(f->error, 503, name, "no memory for the request");
    for (size_t i = 0; i < count && !json_fields_failed(f); i++) {
        int64_t id = 0;
        if (!json_number_int(json_array_get(v, i), 0, n_vocab - 1, &id))
            json_fields_fail(f, name, "[%zu] is no token id; they are from 0 to %d", i, n_vocab - 1);
        else
            list[i] = (int32_t)id;
    }
    if (json_fields_failed(f))
        return;
    *out = list;
    *n = (int32_t)count;
}

void sampling_fields_read(const struct json_fields *f, const struct tokenizer *t, struct arena *arena, struct mr_request *r)
{
    read_numbers(f, r);
    sampling_read_seed(f, r);
    read_service_tier(f, r);
    read_salt(f, r);
    string_list_read(f, "stop", MR_STOP_MAX, MR_STOP_BYTES_MAX, arena, &r->stop, &r->n_stop);
    string_list_read(f, "bad_words", MR_BAD_WORDS_MAX, MR_BAD_WORD_BYTES_MAX, arena, &r->bad_word, &r->n_bad_word);
    token_list_read(f, "stop_token_ids", MR_STOP_TOKENS_MAX, tokenizer_n_vocab(t), arena, &r->stop_token, &r->n_stop_token);
    bias_fields_read(f, t, arena, r);
    refused_fields_check(f);
}
