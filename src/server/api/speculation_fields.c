/* speculation_fields.c: where guesses of the answer come from, and the text that a client expects. */
#include <stdio.h>
#include <string.h>

#include "engine/drafter.h"
#include "engine/loaded_model.h"
#include "server/api/job.h"
#include "server/api/prompt_fields.h"
#include "server/api/speculation_fields.h"

enum {
    PARTS_MAX = 1024
};

static void read_method(struct job *j)
{
    const char *name;
    struct mr_error err = {{0}};
    if (!json_fields_string(&j->fields, "speculation", &name))
        return;
    int method = 0;
    while (method < MR_N_SPECULATIONS && strcmp(name, mr_speculation_text((enum mr_speculation)method)) != 0)
        method++;
    if (method == MR_N_SPECULATIONS)
        json_fields_fail(&j->fields, "speculation",
                         "must be 'auto', 'off', 'draft', 'ngram', 'reference', 'lookahead', 'layers' or 'heads'");
    else if (drafts_check(method, &err) != MR_OK)
        json_fields_fail(&j->fields, "speculation", "is '%s': this server has no such drafter", name);
    else
        j->base.speculation = (enum mr_speculation)method;
}

/* The parts' texts, one after the other. */
static void join_parts(struct job *j, const json_t *parts, struct string_buffer *out)
{
    if (json_array_size(parts) > PARTS_MAX)
        json_fields_fail(&j->fields, "prediction.content", "has more than %d parts", PARTS_MAX);
    for (size_t i = 0; i < json_array_size(parts) && j->error.http == 0; i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        char path[64];
        snprintf(path, sizeof path, "prediction.content[%zu]", i);
        if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(text))
            api_error_at(&j->error, 400, path, "must be {\"type\": \"text\", \"text\": ...}");
        else
            string_buffer_add(out, json_string_value(text), json_string_length(text));
    }
}

/* Tokens for as long as the context is; what is cut off is said. */
static void keep_tokens(struct job *j, const struct string_buffer *text)
{
    struct token_list ids = {0};
    const size_t n_ctx = (size_t)j->model->n_ctx;
    prompt_add_text(j, "prediction.content", text->s, text->n, false, false, &ids);
    const size_t n = ids.n < n_ctx ? ids.n : n_ctx;
    int32_t *copy = j->error.http == 0 && n > 0 ? job_alloc(j, n * sizeof *copy) : NULL;
    if (copy != NULL) {
        memcpy(copy, ids.id, n * sizeof *copy);
        j->base.prediction = copy;
        j->base.n_prediction = (int32_t)n;
    }
    if (copy != NULL && n < ids.n) {
        char said[80];
        snprintf(said, sizeof said, "cut to %zu of %zu tokens", n, ids.n);
        exchange_set_header(j->x, "x-millrace-prediction", said);
    }
    token_list_release(&ids);
}

static void read_prediction(struct job *j)
{
    struct json_fields f;
    struct string_buffer text;
    const char *type = NULL;
    if (!json_fields_object(&j->fields, "prediction", "prediction", &f))
        return;
    const json_t *content = json_fields_get(&f, "content");
    if (!json_fields_string(&f, "type", &type) || strcmp(type, "content") != 0) {
        json_fields_fail(&f, "type", "must be 'content'");
        return;
    }
    if (!json_is_string(content) && !json_is_array(content)) {
        json_fields_fail(&f, "content", "must be a string or a list of text parts");
        return;
    }
    string_buffer_init(&text);
    if (json_is_string(content))
        string_buffer_add(&text, json_string_value(content), json_string_length(content));
    else
        join_parts(j, content, &text);
    if (text.failed)
        api_error_at(&j->error, 503, "prediction", "no memory for the request");
    if (j->error.http == 0 && text.n > 0)
        keep_tokens(j, &text);
    string_buffer_release(&text);
}

void speculation_fields_read(struct job *j)
{
    read_method(j);
    read_prediction(j);
}
