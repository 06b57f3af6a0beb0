/* token_endpoints.c: texts to ids, and back. */
#include "server/api/token_endpoints.h"

#include "base/utf8.h"
#include "engine/loaded_model.h"
#include "server/api/openai.h"
#include "server/api/prompt_fields.h"
#include "server/api/sampling_fields.h"
#include "text/detokenizer.h"

static const struct dialect no_dialect = {0}; /* nothing is generated */

/* A token's text, or its bytes where they are none. */
static json_t *piece_json(const struct tokenizer *t, int32_t id)
{
    const struct gguf_string piece = tokenizer_piece(t, id, true);
    if (utf8_is_valid(piece.s, piece.n))
        return json_stringn(piece.n > 0 ? piece.s : "", piece.n);
    json_t *bytes = json_array();
    for (size_t i = 0; i < piece.n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)piece.s[i]));
    return bytes;
}

static json_t *ids_json(const struct tokenizer *t, const struct token_list *ids, bool with_pieces)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ids->n; i++)
        json_array_append_new(list, with_pieces ? json_pack("{s:i, s:o}", "id", ids->id[i], "piece", piece_json(t, ids->id[i]))
                                                : json_integer(ids->id[i]));
    return list;
}

/* llama-server's form: content, add_special, parse_special, with_pieces. */
static json_t *tokenize_content(struct job *j, struct token_list *ids)
{
    bool bos = false, special = true, with_pieces = false;
    const json_t *v = json_fields_get(&j->fields, "content");
    json_fields_bool(&j->fields, "add_special", &bos);
    json_fields_bool(&j->fields, "parse_special", &special);
    json_fields_bool(&j->fields, "with_pieces", &with_pieces);
    if (!json_is_string(v))
        json_fields_fail(&j->fields, "content", "must be a string");
    if (j->error.http == 0)
        prompt_add_text(j, "content", json_string_value(v), json_string_length(v), special, bos, ids);
    return j->error.http == 0 ? json_pack("{s:o}", "tokens", ids_json(j->model->model->tokenizer, ids, with_pieces)) : NULL;
}

/* vLLM's form: prompt or messages, add_special_tokens, return_token_strs. */
static json_t *tokenize_prompt(struct job *j)
{
    bool bos = true, with_pieces = false;
    const json_t *v = json_fields_get(&j->fields, "prompt");
    const struct tokenizer *t = j->model->model->tokenizer;
    json_fields_bool(&j->fields, "add_special_tokens", &bos);
    json_fields_bool(&j->fields, "return_token_strs", &with_pieces);
    if (v != NULL && !json_is_string(v))
        json_fields_fail(&j->fields, "prompt", "must be a string");
    if (v == NULL) {
        json_t *request = openai_chat_request(j);
        job_render_chat(j, request);
        json_decref(request);
    } else if (j->error.http == 0 && job_make_prompts(j, 1)) {
        prompt_add_text(j, "prompt", json_string_value(v), json_string_length(v), true, bos, &j->prompt[0]);
    }
    if (j->error.http != 0)
        return NULL;
    json_t *strings = with_pieces ? json_array() : NULL;
    for (size_t i = 0; with_pieces && i < j->prompt[0].n; i++)
        json_array_append_new(strings, piece_json(t, j->prompt[0].id[i]));
    return json_pack("{s:I, s:i, s:o, s:o*}", "count", (json_int_t)j->prompt[0].n, "max_model_len", j->model->n_ctx, "tokens",
                     ids_json(t, &j->prompt[0], false), "token_strs", strings);
}

/* Reply with what was made, or with the error. */
static void reply(struct job *j, json_t *value)
{
    if (value == NULL)
        api_error_at(&j->error, 503, "", "no memory for the reply");
    if (j->error.http != 0) {
        json_decref(value);
        job_fail(j);
        return;
    }
    exchange_reply_json(j->x, 200, value);
    job_free(j);
}

void tokenize_text(struct exchange *x)
{
    struct job *j = job_open(x, &no_dialect, "");
    struct token_list ids = {0};
    if (j == NULL)
        return;
    const bool is_vllm = json_fields_get(&j->fields, "prompt") != NULL || json_fields_get(&j->fields, "messages") != NULL;
    reply(j, is_vllm ? tokenize_prompt(j) : tokenize_content(j, &ids));
    token_list_release(&ids);
}

void tokenize_back(struct exchange *x)
{
    struct job *j = job_open(x, &no_dialect, "");
    const int32_t *ids = NULL;
    int32_t n = 0;
    struct string_buffer text;
    json_t *value = NULL;
    if (j == NULL)
        return;
    const struct tokenizer *t = j->model->model->tokenizer;
    token_list_read(&j->fields, "tokens", INT32_MAX - 1, tokenizer_n_vocab(t), &j->arena, &ids, &n);
    if (json_fields_get(&j->fields, "tokens") == NULL)
        json_fields_fail(&j->fields, "tokens", "is missing");
    string_buffer_init(&text);
    struct detokenizer d;
    detokenizer_init(&d, t, true);
    for (int32_t i = 0; i < n; i++)
        detokenizer_push(&d, ids[i], &text);
    detokenizer_finish(&d, &text);
    if (j->error.http == 0 && !text.failed)
        value =
            json_pack("{s:s%, s:s%}", "content", text.n > 0 ? text.s : "", text.n, "prompt", text.n > 0 ? text.s : "", text.n);
    string_buffer_release(&text);
    reply(j, value);
}

void tokenize_template(struct exchange *x)
{
    struct job *j = job_open(x, &no_dialect, "");
    struct string_buffer text;
    struct mr_error err = {{0}};
    json_t *value = NULL;
    if (j == NULL)
        return;
    json_t *request = openai_chat_request(j);
    string_buffer_init(&text);
    if (j->error.http == 0 && j->model->chat == NULL)
        api_error_at(&j->error, 400, "messages", "the model has no chat template");
    if (j->error.http == 0) {
        const enum mr_status status = chat_prompt_text(j->model->chat, request, j->created, &text, &err);
        if (status != MR_OK)
            api_error_take_status(&j->error, status, "", &err);
        else
            value = json_pack("{s:s%}", "prompt", text.n > 0 ? text.s : "", text.n);
    }
    string_buffer_release(&text);
    json_decref(request);
    reply(j, value);
}
