/* completion.c: llama-server's own form of a completion. */
#include "server/api/completion.h"

#include <string.h>

#include "base/number_text.h"
#include "engine/loaded_model.h"
#include "server/api/infill.h"
#include "server/api/json_text.h"
#include "server/api/lora.h"
#include "server/api/openai.h"
#include "server/api/prompt_fields.h"
#include "server/api/sampling_fields.h"
#include "server/api/speculation_fields.h"
#include "server/api/scores_json.h"
#include "server/api/sse.h"
#include "server/api/usage_json.h"

static void write_probabilities(struct job *j, struct answer *a, struct string_buffer *out)
{
    if (!a->keeps_scores)
        return;
    string_buffer_puts(out, ",\"completion_probabilities\":[");
    scores_write_list(&a->scores, j->model->model->tokenizer, true, out);
    string_buffer_puts(out, "]");
    token_scores_clear(&a->scores);
}

static void write_tokens(struct answer *a, struct string_buffer *out)
{
    string_buffer_puts(out, ",\"tokens\":[");
    for (size_t i = 0; i < a->tokens.n; i++)
        string_buffer_printf(out, i > 0 ? ",%d" : "%d", a->tokens.id[i]);
    string_buffer_puts(out, "]");
    a->tokens.n = 0;
}

static void write_piece(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    string_buffer_printf(out, "data: {\"index\":%d,\"content\":", a->index);
    json_text_string(out, p->text, p->n_text);
    write_tokens(a, out);
    write_probabilities(j, a, out);
    string_buffer_printf(out, ",\"stop\":false,\"id_slot\":-1,\"tokens_evaluated\":%zu}\n\n", j->prompt[a->prompt].n);
}

static const char *stop_type(const struct answer *a, const char *word)
{
    return a->finish != MR_FINISH_STOP ? "limit" : word != NULL ? "word" : "eos";
}

/* With all that is known at the end; content: what was not streamed. */
static void write_answer(struct job *j, struct answer *a, const char *content, size_t n, struct string_buffer *out)
{
    const char *word = answer_stop_word(a, j->base.stop, j->base.n_stop);
    string_buffer_printf(out, "{\"index\":%d,\"content\":", a->index);
    json_text_string(out, content, n);
    write_tokens(a, out);
    write_probabilities(j, a, out);
    string_buffer_puts(out, ",\"id_slot\":-1,\"stop\":true,\"model\":");
    json_text_string(out, j->model_name, strlen(j->model_name));
    string_buffer_printf(out, ",\"tokens_predicted\":%d,\"tokens_evaluated\":%d,\"tokens_cached\":%d,\"truncated\":false,",
                         a->usage.n_generated, a->usage.n_prompt, a->usage.n_cached);
    string_buffer_printf(out, "\"stop_type\":\"%s\",\"stopping_word\":", stop_type(a, word));
    json_text_string(out, word != NULL ? word : "", word != NULL ? strlen(word) : 0);
    string_buffer_printf(out, ",\"generation_settings\":{\"seed\":%lld,\"temperature\":%.9g,\"n_predict\":%d}",
                         (long long)j->base.sampling.seed, number_short(j->base.sampling.temperature), j->base.max_tokens);
    string_buffer_puts(out, ",\"timings\":");
    json_text_value(out, timings_json(j, a));
    string_buffer_puts(out, "}");
}

static void write_answer_end(struct job *j, struct answer *a, struct string_buffer *out)
{
    string_buffer_puts(out, "data: ");
    write_answer(j, a, "", 0, out);
    string_buffer_puts(out, "\n\n");
}

static void write_end(struct job *j, struct string_buffer *out)
{
    (void)j;
    (void)out;
}

/* One object, or a list of them where there are several answers. */
static void write_whole(struct job *j, struct string_buffer *out)
{
    string_buffer_puts(out, j->n_answer > 1 ? "[" : "");
    for (int i = 0; i < j->n_answer; i++) {
        string_buffer_puts(out, i > 0 ? "," : "");
        write_answer(j, &j->answer[i], j->answer[i].content.s, j->answer[i].content.n, out);
    }
    string_buffer_puts(out, j->n_answer > 1 ? "]" : "");
}

/* All but the prompt. */
static void read_fields(struct job *j)
{
    const char *kind = NULL;
    json_fields_bool(&j->fields, "stream", &j->stream);
    sampling_fields_read(&j->fields, j->model->model->tokenizer, &j->arena, &j->base);
    lora_fields_read(j);
    speculation_fields_read(j);
    constraint_fields_read(&j->fields, &j->arena, &j->base, &kind);
    j->constraint = kind;
    j->keeps_scores = json_fields_int32(&j->fields, "n_probs", 0, MR_TOP_LOGPROBS_MAX, &j->base.sampling.n_logprobs) &&
                      j->base.sampling.n_logprobs > 0;
    if (!j->keeps_scores)
        j->base.sampling.n_logprobs = -1;
    j->base.prompt_logprobs = -1;
    j->keeps_tokens = j->stream;
    json_fields_bool(&j->fields, "return_tokens", &j->keeps_tokens);
    j->keeps_raw = true;
}

static const struct dialect dialect = {.stream_type = SSE_TYPE,
                                       .keep_alive = SSE_KEEP_ALIVE,
                                       .piece = write_piece,
                                       .answer_end = write_answer_end,
                                       .end = write_end,
                                       .whole = write_whole,
                                       .fail = openai_stream_fail};

void completion_create(struct exchange *x)
{
    struct job *j = job_open(x, &dialect, "cmpl-");
    if (j == NULL)
        return;
    read_fields(j);
    prompt_fields_read(j, "prompt");
    job_start(j);
}

void completion_infill(struct exchange *x)
{
    struct job *j = job_open(x, &dialect, "infill-");
    if (j == NULL)
        return;
    read_fields(j);
    infill_read(j);
    job_start(j);
}
