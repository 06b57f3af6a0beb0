/* chat_prompt.c: renders messages and tokenises the whole at once, but for segments that it knows. */
#include "engine/chat_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/loaded_model.h"
#include "text/call_format.h"
#include "text/chat_renderer.h"
#include "text/segment_cache.h"

enum {
    CACHE_BYTES = 16 << 20 /* of texts and their ids */
};

struct chat_prompt {
    const struct mr_model *model;
    struct segment_cache *segments;
    struct chat_renderer *renderer;
    char *source;
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
    p->segments = segment_cache_create(CACHE_BYTES);
    if (p->segments == NULL) {
        chat_prompt_free(p);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the chat template");
    }
    const struct tokenizer *t = model->tokenizer;
    p->source = source != NULL ? mem_string(source, n) : mem_string(own.s, own.n);
    const enum mr_status status = p->source != NULL
                                      ? chat_renderer_create(&p->renderer, p->source, source != NULL ? n : own.n, t, err)
                                      : mr_fail(err, MR_NO_MEMORY, "no memory for the chat template");
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
    chat_renderer_free(p->renderer);
    free(p->source);
    segment_cache_free(p->segments);
    free(p);
}

enum mr_status chat_prompt_render_request(const struct chat_prompt *p, const json_t *request, int64_t now, bool match_control,
                                          struct token_list *ids, struct mr_error *err)
{
    const struct tokenizer *t = p->model->tokenizer;
    struct rendered rendered = {0};
    enum mr_status status = chat_renderer_render(p->renderer, request, now, &rendered, err);
    if (status == MR_OK && rendered.n_run > INT32_MAX)
        status = mr_fail(err, MR_BAD_INPUT, "the messages are too long");
    for (size_t i = 0; match_control && i < rendered.n_run; i++)
        rendered.run[i].match_control = true;
    if (status == MR_OK)
        status = tokenizer_encode_cached(t, p->segments, rendered.run, (int)rendered.n_run, ENCODE_ADD_BOS, ids, err);
    rendered_release(&rendered);
    return status;
}

enum mr_status chat_prompt_render(const struct chat_prompt *p, const json_t *messages, const json_t *tools, int64_t now,
                                  bool match_control, struct token_list *ids, struct mr_error *err)
{
    json_t *request = json_pack("{s:O, s:O*}", "messages", messages, "tools", tools);
    if (request == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the messages");
    const enum mr_status status = chat_prompt_render_request(p, request, now, match_control, ids, err);
    json_decref(request);
    return status;
}

enum mr_status chat_prompt_text(const struct chat_prompt *p, const json_t *request, int64_t now, struct string_buffer *text,
                                struct mr_error *err)
{
    struct rendered rendered = {0};
    enum mr_status status = chat_renderer_render(p->renderer, request, now, &rendered, err);
    if (status == MR_OK) {
        string_buffer_add(text, rendered.text.s, rendered.text.n);
        if (text->failed)
            status = mr_fail(err, MR_NO_MEMORY, "no memory for the prompt");
    }
    rendered_release(&rendered);
    return status;
}

const char *chat_prompt_template(const struct chat_prompt *p) { return p->source; }

bool chat_prompt_opens_reasoning(const struct chat_prompt *p, const struct token_list *ids)
{
    enum {
        LOOK = 16 /* tokens that a marker and the blanks behind it have at most */
    };
    const struct reasoning_format *f = reasoning_format_detect(p->source, strlen(p->source));
    struct string_buffer end;
    string_buffer_init(&end);
    for (size_t i = ids->n > LOOK ? ids->n - LOOK : 0; f != NULL && i < ids->n; i++) {
        const struct gguf_string piece = tokenizer_piece(p->model->tokenizer, ids->id[i], true);
        string_buffer_add(&end, piece.s, piece.n);
    }
    size_t n = end.n;
    while (n > 0 && (end.s[n - 1] == '\n' || end.s[n - 1] == ' '))
        n--;
    const size_t n_open = f != NULL ? strlen(f->open) : 0;
    const bool opens = n_open > 0 && n >= n_open && memcmp(end.s + n - n_open, f->open, n_open) == 0;
    string_buffer_release(&end);
    return opens;
}

void chat_prompt_cache_stats(const struct chat_prompt *p, struct segment_cache_stats *out)
{
    segment_cache_stats(p->segments, out);
}
