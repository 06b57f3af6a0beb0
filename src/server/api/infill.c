/* infill.c: the middle of a text. */
#include "server/api/infill.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "engine/loaded_model.h"
#include "server/api/prompt_fields.h"

/* The spellings of a family of models; file and repository may be missing from its vocabulary. */
struct infill_tokens {
    const char *prefix, *suffix, *middle, *file, *repository;
};
static const struct infill_tokens known[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>"}, /* Qwen 2.5 Coder, Gemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<repo_name>"},           /* StarCoder 2 */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<file_sep>", "<reponame>"},            /* SantaCoder, Granite */
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81hole\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     "", ""},                            /* DeepSeek Coder */
    {"<PRE>", "<SUF>", "<MID>", "", ""}, /* Code Llama, in its file's spelling */
    {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>", "", ""},
};

static int32_t find(const struct job *j, const char *spelling)
{
    return *spelling != '\0' ? tokenizer_find(j->model->model->tokenizer, spelling, strlen(spelling)) : -1;
}

static const struct infill_tokens *find_tokens(const struct job *j)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (find(j, known[i].prefix) >= 0 && find(j, known[i].suffix) >= 0 && find(j, known[i].middle) >= 0)
            return &known[i];
    return NULL;
}

/* A control token by its spelling; none where the vocabulary has none. */
static void add_token(struct job *j, const char *spelling, struct token_list *ids)
{
    const int32_t id = find(j, spelling);
    if (id < 0)
        return;
    if (mem_grow(&ids->id, &ids->capacity, ids->n + 1, sizeof *ids->id))
        ids->id[ids->n++] = id;
    else
        api_error_at(&j->error, 503, "", "no memory for the prompt");
}

static void add_text(struct job *j, const char *name, const char *s, struct token_list *ids)
{
    prompt_add_text(j, name, s, strlen(s), false, false, ids);
}

static void add_extra(struct job *j, const struct infill_tokens *t, struct token_list *ids)
{
    const json_t *list = NULL;
    if (!json_fields_array(&j->fields, "input_extra", &list) || json_array_size(list) == 0)
        return;
    if (find(j, t->repository) >= 0) {
        add_token(j, t->repository, ids);
        add_text(j, "input_extra", "repository\n", ids);
    }
    for (size_t i = 0; i < json_array_size(list) && j->error.http == 0; i++) {
        char path[48];
        const char *text = NULL, *name = "file";
        snprintf(path, sizeof path, "input_extra[%zu]", i);
        const struct json_fields f = {.object = json_array_get(list, i), .path = path, .error = &j->error};
        json_fields_string(&f, "filename", &name);
        if (!json_fields_string(&f, "text", &text))
            json_fields_fail(&f, "text", "is missing");
        if (j->error.http != 0)
            return;
        add_token(j, t->file, ids);
        add_text(j, path, name, ids);
        add_text(j, path, "\n", ids);
        add_text(j, path, text, ids);
        add_text(j, path, "\n", ids);
    }
}

void infill_read(struct job *j)
{
    const struct infill_tokens *t = find_tokens(j);
    const char *prefix = "", *suffix = "", *middle = "";
    json_fields_string(&j->fields, "input_prefix", &prefix);
    json_fields_string(&j->fields, "input_suffix", &suffix);
    json_fields_string(&j->fields, "prompt", &middle);
    if (t == NULL) {
        api_error_at(&j->error, 400, "model", "has no tokens for infilling");
        j->error.type = "not_supported_error";
    }
    if (j->error.http != 0 || !job_make_prompts(j, 1))
        return;
    struct token_list *ids = &j->prompt[0];
    prompt_add_text(j, "input_prefix", "", 0, false, true, ids); /* what stands in front of every text */
    add_extra(j, t, ids);
    add_token(j, t->prefix, ids);
    add_text(j, "input_prefix", prefix, ids);
    add_token(j, t->suffix, ids);
    add_text(j, "input_suffix", suffix, ids);
    add_token(j, t->middle, ids);
    add_text(j, "prompt", middle, ids);
}
