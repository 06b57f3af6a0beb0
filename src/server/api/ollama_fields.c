/* ollama_fields.c: fields that Ollama's endpoints share. */
#include <string.h>
#include <time.h>

#include "base/number_text.h"
#include "engine/loaded_model.h"
#include "server/api/json_text.h"
#include "server/api/ollama.h"
#include "server/api/sampling_fields.h"
#include "server/server.h"

void ollama_write_error(const struct api_error *e, struct string_buffer *out)
{
    json_text_value(out, json_pack("{s:s}", "error", e->message));
}

void ollama_time(char out[32], int64_t seconds)
{
    const time_t t = (time_t)seconds;
    struct tm parts;
    gmtime_r(&t, &parts);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* Ollama's defaults, then the options. */
static void read_options(struct job *j)
{
    struct json_fields options;
    struct mr_request *r = &j->base;
    r->sampling.top_p = 0.9F;
    r->sampling.min_p = 0;
    r->sampling.repeat_penalty = 1.1F;
    if (json_fields_object(&j->fields, "options", "options", &options)) {
        sampling_fields_read(&options, j->model->model->tokenizer, &j->arena, r);
        if (json_fields_int32(&options, "num_predict", -2, INT32_MAX, &r->max_tokens) && r->max_tokens < 0)
            r->max_tokens = -1;
        if (r->n != 1 || r->best_of > 1 || r->prompt_logprobs >= 0)
            json_fields_fail(&options, "n", "is not supported here");
    } else {
        sampling_read_seed(&options, r);
    }
}

/* "json", or a schema. */
static void read_format(struct job *j)
{
    const json_t *format = json_fields_get(&j->fields, "format");
    const char *word = json_string_value(format);
    if (format == NULL || (word != NULL && *word == '\0'))
        return;
    if (word == NULL)
        constraint_set_schema(&j->fields, "format", format, &j->arena, &j->base);
    else if (strcmp(word, "json") == 0)
        j->base.constraint = MR_CONSTRAINT_JSON_OBJECT;
    else
        json_fields_fail(&j->fields, "format", "must be 'json' or a JSON schema");
    j->constraint = "format";
}

/* "1h30m", "2.5s", "-1"; a number alone counts seconds. false: it is none. */
static bool read_duration(const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double s;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"h", 3600}, {"m", 60}, {"s", 1}};
    const bool is_negative = *text == '-';
    text += is_negative;
    *seconds = 0;
    if (*text == '\0')
        return false;
    while (*text != '\0') {
        char number[32];
        const size_t n = strspn(text, "0123456789.");
        size_t unit = 0;
        double value = 0;
        if (n == 0 || n >= sizeof number)
            return false;
        memcpy(number, text, n);
        number[n] = '\0';
        if (number_read_float(&value, number, 0, 1e12, NULL) != MR_OK)
            return false;
        text += n;
        while (unit < sizeof units / sizeof *units && strncmp(text, units[unit].unit, strlen(units[unit].unit)) != 0)
            unit++;
        if (unit == sizeof units / sizeof *units && *text != '\0')
            return false;
        *seconds += value * (*text != '\0' ? units[unit].s : 1);
        text += *text != '\0' ? strlen(units[unit].unit) : 0;
    }
    *seconds = is_negative ? -*seconds : *seconds;
    return true;
}

/* Seconds, or a duration; negative: for ever. */
static void read_keep_alive(struct job *j)
{
    static const double longest_s = 1e9;
    const json_t *value = json_fields_get(&j->fields, "keep_alive");
    double seconds = json_number_value(value);
    if (value == NULL)
        return;
    if (!json_is_number(value) && (!json_is_string(value) || !read_duration(json_string_value(value), &seconds))) {
        json_fields_fail(&j->fields, "keep_alive", "must be seconds, or a duration such as '5m'");
        return;
    }
    j->keep_alive_us = seconds < 0 ? -1 : (int64_t)((seconds < longest_s ? seconds : longest_s) * 1e6);
    /* Counted from here, and anew from the request's end, which its client may be told of first. */
    server_touch_model(exchange_server(j->x), j->model, j->keep_alive_us);
}

void ollama_read_common(struct job *j)
{
    j->stream = true;
    json_fields_bool(&j->fields, "stream", &j->stream);
    if (json_fields_get(&j->fields, "model") == NULL)
        json_fields_fail(&j->fields, "model", "is missing");
    read_options(j);
    read_format(j);
    read_keep_alive(j);
}

/* A boolean, or a level, which counts as true. */
json_t *ollama_template_arguments(struct job *j)
{
    const json_t *think = json_fields_get(&j->fields, "think");
    if (think == NULL)
        return NULL;
    if (!json_is_boolean(think) && !json_is_string(think)) {
        json_fields_fail(&j->fields, "think", "must be true, false or a level");
        return NULL;
    }
    return json_pack("{s:b}", "enable_thinking", !json_is_false(think));
}
