/* chat_prompt.c: renders messages and tokenises the whole at once. */
#include "engine/chat_prompt.h"

#include <stdlib.h>

#include "base/memory.h"
#include "engine/loaded_model.h"

struct chat_prompt {
    const struct mr_model *model;
    struct chat_template *template;
};

enum mr_status chat_prompt_create(struct chat_prompt **out, const struct mr_model *model, const char *source, size_t n,
                                  struct mr_error *err)
{
    *out = NULL;
    const struct gguf_string own = tokenizer_chat_template(model->tokenizer);
    if (source == NULL && own.n == 0)
        return mr_fail(err, MR_NOT_FOUND, "the model file has no chat template");
    struct chat_prompt *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the chat template");
    p->model = model;
    const enum mr_status status = source != NULL ? chat_template_create(&p->template, source, n, err)
                                                 : chat_template_create(&p->template, own.s, own.n, err);
    if (status != MR_OK)
        chat_prompt_free(p);
    else
        *out = p;
    return status;
}

void chat_prompt_free(struct chat_prompt *p)
{
    if (p == NULL)
        return;
    chat_template_free(p->template);
    free(p);
}

/* The spelling of a token as JSON; the empty string where the file names none. */
static json_t *token_text(const struct tokenizer *t, int32_t id)
{
    if (id < 0)
        return json_string("");
    const struct gguf_string s = tokenizer_spelling(t, id);
    return json_stringn(s.s, s.n);
}

/* What a template may read. NULL: no memory. */
static json_t *variables(const struct tokenizer *t, const json_t *messages)
{
    json_t *v = json_object();
    if (json_object_set_new(v, "messages", json_deep_copy(messages)) != 0 ||
        json_object_set_new(v, "add_generation_prompt", json_true()) != 0 ||
        json_object_set_new(v, "bos_token", token_text(t, tokenizer_bos(t))) != 0 ||
        json_object_set_new(v, "eos_token", token_text(t, tokenizer_eos(t))) != 0) {
        json_decref(v);
        return NULL;
    }
    return v;
}

enum mr_status chat_prompt_render(const struct chat_prompt *p, const json_t *messages, int64_t now, struct token_list *ids,
                                  struct mr_error *err)
{
    const struct tokenizer *t = p->model->tokenizer;
    json_t *v = variables(t, messages);
    if (v == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the messages");
    struct rendered rendered = {0};
    enum mr_status status = chat_template_render(p->template, v, now, &rendered, err);
    if (status == MR_OK && rendered.n_run > INT32_MAX)
        status = mr_fail(err, MR_BAD_INPUT, "the messages are too long");
    if (status == MR_OK)
        status = tokenizer_encode(t, rendered.run, (int)rendered.n_run, ENCODE_ADD_BOS, ids, err);
    rendered_release(&rendered);
    json_decref(v);
    return status;
}
