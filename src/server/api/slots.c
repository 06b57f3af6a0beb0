/* slots.c: places in the batch as JSON. */
#include "server/api/slots.h"

#include "base/number_text.h"
#include "engine/loaded_model.h"
#include "server/api/json_text.h"
#include "server/api/state.h"
#include "server/api_error.h"
#include "server/engine_link.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/slot_board.h"
#include "text/detokenizer.h"

struct listing {
    struct string_buffer out;
    const struct tokenizer *tokenizer;
    int32_t n_ctx;
    bool is_speculative; /* where nothing was asked yet */
};

static const char *truth(bool v) { return v ? "true" : "false"; }

static void write_float(struct string_buffer *out, const char *name, float v)
{
    string_buffer_printf(out, ",\"%s\":%.9g", name, number_short(v));
}

static void write_params(struct string_buffer *out, const struct slot_view *v)
{
    const struct mr_sampling *s = &v->sampling;
    string_buffer_printf(out, ",\"params\":{\"seed\":%llu", (unsigned long long)s->seed);
    write_float(out, "temperature", s->temperature);
    string_buffer_printf(out, ",\"top_k\":%d", s->top_k);
    write_float(out, "top_p", s->top_p);
    write_float(out, "min_p", s->min_p);
    write_float(out, "typical_p", s->typical_p);
    string_buffer_printf(out, ",\"repeat_last_n\":%d", s->repeat_last_n);
    write_float(out, "repeat_penalty", s->repeat_penalty);
    write_float(out, "presence_penalty", s->presence_penalty);
    write_float(out, "frequency_penalty", s->frequency_penalty);
    string_buffer_printf(out, ",\"n_predict\":%d,\"max_tokens\":%d,\"ignore_eos\":%s,\"stream\":%s,\"n_probs\":%d}",
                         v->max_tokens, v->max_tokens, truth(v->ignore_eos), truth(v->is_stream),
                         s->n_logprobs > 0 ? s->n_logprobs : 0);
}

static void write_next_token(struct string_buffer *out, const struct slot_view *v)
{
    const int32_t left = v->max_tokens < 0 ? -1 : v->max_tokens > v->n_decoded ? v->max_tokens - v->n_decoded : 0;
    string_buffer_printf(out, ",\"next_token\":[{\"has_next_token\":%s,\"has_new_line\":%s,\"n_remain\":%d,\"n_decoded\":%d}]",
                         truth(v->is_processing), truth(v->has_new_line), left, v->n_decoded);
}

static void write_texts(const struct listing *l, struct string_buffer *out, const struct slot_view *v)
{
    struct string_buffer text;
    struct detokenizer d;
    string_buffer_init(&text);
    detokenizer_init(&d, l->tokenizer, true);
    for (int32_t i = 0; i < v->n_prompt; i++)
        detokenizer_push(&d, v->prompt[i], &text);
    detokenizer_finish(&d, &text);
    string_buffer_puts(out, ",\"prompt\":");
    json_text_string(out, text.s != NULL ? text.s : "", text.n);
    string_buffer_puts(out, ",\"generated\":");
    json_text_string(out, v->generated != NULL ? v->generated : "", v->n_generated);
    out->failed |= text.failed;
    string_buffer_release(&text);
}

static void write_place(void *context, int32_t place, const struct slot_view *v)
{
    struct listing *l = context;
    struct string_buffer *out = &l->out;
    const bool is_fresh = v->id_task < 0;
    string_buffer_printf(out, "%s{\"id\":%d,\"n_ctx\":%d,\"speculative\":%s,\"is_processing\":%s", place > 0 ? "," : "", place,
                         l->n_ctx, truth(is_fresh ? l->is_speculative : v->is_speculative), truth(v->is_processing));
    if (!is_fresh) {
        string_buffer_printf(out, ",\"id_task\":%lld,\"n_prompt_tokens\":%d", (long long)v->id_task, v->n_prompt);
        if (v->n_cached >= 0)
            string_buffer_printf(out, ",\"n_prompt_tokens_processed\":%d,\"n_prompt_tokens_cache\":%d",
                                 v->n_prompt - v->n_cached, v->n_cached);
        write_params(out, v);
        write_next_token(out, v);
        if (v->prompt != NULL)
            write_texts(l, out, v);
    }
    string_buffer_puts(out, "}");
}

void slots_list(struct exchange *x)
{
    const struct mr_options *options = &exchange_server(x)->settings->engine;
    const char *must_be_free = exchange_query(x, "fail_on_no_slot");
    struct hosted_model *m = state_wanted_model(x);
    struct mr_engine_stats stats;
    if (m == NULL)
        return;
    engine_link_stats(m->engine, &stats);
    if (must_be_free != NULL && *must_be_free != '\0' && stats.n_running >= options->max_running) {
        struct api_error e;
        api_error_set(&e, 503, "no slot is free");
        exchange_fail(x, &e);
        server_give_model(exchange_server(x), m);
        return;
    }
    struct listing l = {
        .tokenizer = m->model->tokenizer, .n_ctx = m->n_ctx, .is_speculative = options->speculation != MR_SPECULATION_OFF};
    string_buffer_init(&l.out);
    string_buffer_puts(&l.out, "[");
    slot_board_each(m->slots, stats.n_running, write_place, &l);
    string_buffer_puts(&l.out, "]");
    server_give_model(exchange_server(x), m);
    if (l.out.failed)
        exchange_fail_status(x, MR_NO_MEMORY, NULL);
    else
        exchange_reply(x, 200, "application/json", l.out.s, l.out.n);
    string_buffer_release(&l.out);
}
