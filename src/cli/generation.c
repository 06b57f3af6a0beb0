/* generation.c: one request from its prompt to its end. */
#include "cli/generation.h"

#include "base/memory.h"
#include "cli/interrupt.h"

void generation_init(struct generation *g)
{
    *g = (struct generation){0};
    string_buffer_init(&g->text);
}

void generation_release(struct generation *g)
{
    string_buffer_release(&g->text);
    token_list_release(&g->tokens);
    json_decref(g->prompt_logprobs);
}

static json_t *logprob_json(int32_t token, double logprob)
{
    return json_pack("{s:i, s:f}", "token", token, "logprob", logprob);
}

static bool add_prompt_logprob(struct generation *g, const struct mr_event *event)
{
    json_t *top = json_array();
    for (int i = 0; i < event->n_top; i++)
        json_array_append_new(top, logprob_json(event->top[i].token, (double)event->top[i].logprob));
    json_t *entry = logprob_json(event->token, (double)event->logprob);
    json_object_set_new(entry, "top", top);
    if (g->prompt_logprobs == NULL)
        g->prompt_logprobs = json_array();
    return json_array_append_new(g->prompt_logprobs, entry) == 0;
}

static bool take_event(struct generation *g, const struct mr_event *event, FILE *stream, struct mr_error *err)
{
    string_buffer_add(&g->text, event->text, event->n_text);
    if (stream != NULL && event->n_text > 0) {
        fwrite(event->text, 1, event->n_text, stream);
        fflush(stream);
    }
    if (event->is_prompt)
        return add_prompt_logprob(g, event);
    if (event->token >= 0) {
        if (!mem_grow(&g->tokens.id, &g->tokens.capacity, g->tokens.n + 1, sizeof *g->tokens.id))
            return false;
        g->tokens.id[g->tokens.n++] = event->token;
    }
    g->finish = event->finish;
    g->usage = event->usage;
    if (event->error != NULL)
        mr_fail(err, MR_BAD_INPUT, "%s", event->error);
    return !g->text.failed;
}

/* Steps until the request has ended; a failure of ours leaves it to the caller to cancel. */
static enum mr_status run_steps(struct generation *g, struct mr_engine *engine, uint64_t id, FILE *stream, struct mr_error *err)
{
    while (g->finish == MR_FINISH_NONE) {
        mr_engine_step(engine);
        if (interrupt_seen()) {
            interrupt_clear();
            mr_engine_cancel(engine, id); /* may have ended in this very step */
        }
        struct mr_event event;
        while (g->finish == MR_FINISH_NONE && mr_engine_next_event(engine, &event))
            if (!take_event(g, &event, stream, err))
                return mr_fail(err, MR_NO_MEMORY, "no memory for the answer");
    }
    return g->finish == MR_FINISH_ERROR ? MR_BAD_INPUT : MR_OK;
}

enum mr_status generation_run(struct generation *g, struct mr_engine *engine, const struct mr_request *request, FILE *stream,
                              struct mr_error *err)
{
    uint64_t id;
    MR_TRY(mr_engine_submit(engine, request, &id, err));
    const enum mr_status status = run_steps(g, engine, id, stream, err);
    mr_engine_cancel(engine, id);
    struct mr_event rest;
    while (mr_engine_next_event(engine, &rest)) /* leave nothing behind for the next request */
        continue;
    return status;
}

static double per_second(int n, int64_t us) { return n > 0 && us > 0 ? n * 1e6 / (double)us : 0; }

void generation_print_stats(const struct generation *g, FILE *out)
{
    const struct mr_usage *u = &g->usage;
    char guessed[64] = "";
    if (u->n_drafted > 0)
        snprintf(guessed, sizeof guessed, "; guessed: %d tokens, %d right", u->n_drafted, u->n_accepted);
    fprintf(out, "first token after %.0f ms; prompt: %d tokens, %.1f tokens/s; answer: %d tokens, %.1f tokens/s%s%s\n",
            (double)u->first_token_us / 1e3, u->n_prompt, per_second(u->n_prompt, u->prompt_us), u->n_generated,
            per_second(u->n_generated - 1, u->generate_us), guessed, g->finish == MR_FINISH_CANCELLED ? "; stopped" : "");
}

json_t *generation_json(const struct generation *g)
{
    const struct mr_usage *u = &g->usage;
    json_t *tokens = json_array();
    for (size_t i = 0; i < g->tokens.n; i++)
        json_array_append_new(tokens, json_integer(g->tokens.id[i]));
    json_t *timings = json_pack(
        "{s:i, s:i, s:f, s:f, s:i, s:f, s:f, s:f, s:i, s:i}", "prompt_n", u->n_prompt, "cached_n", u->n_cached, "prompt_ms",
        (double)u->prompt_us / 1e3, "prompt_per_second", per_second(u->n_prompt, u->prompt_us), "predicted_n", u->n_generated,
        "predicted_ms", (double)u->generate_us / 1e3, "predicted_per_second", per_second(u->n_generated - 1, u->generate_us),
        "ttft_ms", (double)u->first_token_us / 1e3, "draft_n", u->n_drafted, "draft_n_accepted", u->n_accepted);
    return json_pack("{s:s%, s:o, s:s, s:o, s:O*}", "text", g->text.s != NULL ? g->text.s : "", g->text.n, "tokens", tokens,
                     "finish_reason", mr_finish_text(g->finish), "timings", timings, "prompt_logprobs", g->prompt_logprobs);
}
