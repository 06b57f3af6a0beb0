/* prompt_fields.c: from JSON to token ids. */
#include "server/api/prompt_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "engine/loaded_model.h"
#include "text/detokenizer.h"

void prompt_add_text(struct job *j, const char *name, const char *s, size_t n, bool special, bool bos, struct token_list *ids)
{
    struct mr_error err = {{0}};
    const struct text_run run = {.s = s, .n = n, .match_control = special};
    const enum mr_status status = tokenizer_encode(j->model->model->tokenizer, &run, 1, bos ? ENCODE_ADD_BOS : 0, ids, &err);
    if (status != MR_OK)
        api_error_take_status(&j->error, status, name, &err);
}

/* path: of v in the body. */
static void add_id(struct job *j, const char *path, const json_t *v, struct token_list *ids)
{
    const int n_vocab = tokenizer_n_vocab(j->model->model->tokenizer);
    int64_t id;
    if (!json_number_int(v, 0, n_vocab - 1, &id))
        api_error_at(&j->error, 400, path, "is no token id; they are from 0 to %d", n_vocab - 1);
    else if (!mem_grow(&ids->id, &ids->capacity, ids->n + 1, sizeof *ids->id))
        api_error_at(&j->error, 503, path, "no memory for the prompt");
    else
        ids->id[ids->n++] = (int32_t)id;
}

static void add_prompt(struct job *j, const char *path, const json_t *v, struct token_list *ids)
{
    if (json_is_string(v))
        prompt_add_text(j, path, json_string_value(v), json_string_length(v), true, true, ids);
    else if (!json_is_array(v))
        api_error_at(&j->error, 400, path, "must be a string or a list of token ids");
    for (size_t i = 0; i < json_array_size(v) && j->error.http == 0; i++) {
        const json_t *part = json_array_get(v, i);
        char place[64];
        snprintf(place, sizeof place, "%s[%zu]", path, i);
        if (json_is_string(part))
            prompt_add_text(j, place, json_string_value(part), json_string_length(part), true, i == 0, ids);
        else
            add_id(j, place, part, ids);
    }
    if (ids->n == 0)
        api_error_at(&j->error, 400, path, "has no tokens");
}

/* One prompt: a text, or a list in which a number stands. */
static bool is_one(const json_t *v)
{
    bool has_number = json_is_string(v);
    for (size_t i = 0; i < json_array_size(v); i++)
        has_number |= json_is_number(json_array_get(v, i));
    return has_number;
}

void prompt_fields_read(struct job *j, const char *name)
{
    const json_t *v = json_fields_get(&j->fields, name);
    const size_t n = json_array_size(v);
    if (j->error.http != 0)
        return;
    if (v == NULL)
        json_fields_fail(&j->fields, name, "is missing");
    else if (is_one(v) && job_make_prompts(j, 1))
        add_prompt(j, name, v, &j->prompt[0]);
    else if (!json_is_array(v) || n == 0)
        json_fields_fail(&j->fields, name, "must be a string, a list of strings, token ids, or a list of such lists");
    else if (n > JOB_PROMPTS_MAX)
        json_fields_fail(&j->fields, name, "has %zu prompts, at most %d are possible", n, JOB_PROMPTS_MAX);
    else if (job_make_prompts(j, (int)n))
        for (size_t i = 0; i < n && j->error.http == 0; i++) {
            char path[32];
            snprintf(path, sizeof path, "%.16s[%zu]", name, i);
            add_prompt(j, path, json_array_get(v, i), &j->prompt[i]);
        }
}

void prompt_write_text(const struct job *j, int i, struct string_buffer *out)
{
    const json_t *v = json_object_get(j->body, "prompt"), *one = is_one(v) ? v : json_array_get(v, (size_t)i);
    if (json_is_string(one)) {
        string_buffer_add(out, json_string_value(one), json_string_length(one));
        return;
    }
    struct detokenizer d;
    detokenizer_init(&d, j->model->model->tokenizer, true);
    for (size_t k = 0; k < j->prompt[i].n; k++)
        detokenizer_push(&d, j->prompt[i].id[k], out);
    detokenizer_finish(&d, out);
}
