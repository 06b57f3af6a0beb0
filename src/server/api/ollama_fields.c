/* ollama_fields.c: fields that Ollama's endpoints share. */
#include <string.h>
#include <time.h>

#include "engine/loaded_model.h"
#include "server/api/json_text.h"
#include "server/api/ollama.h"
#include "server/api/sampling_fields.h"

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

void ollama_read_common(struct job *j)
{
    j->stream = true;
    json_fields_bool(&j->fields, "stream", &j->stream);
    if (json_fields_get(&j->fields, "model") == NULL)
        json_fields_fail(&j->fields, "model", "is missing");
    read_options(j);
    read_format(j);
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
