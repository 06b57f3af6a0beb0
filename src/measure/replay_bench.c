/* replay_bench.c: rounds of answers in turn, without and with guesses. */
#include "measure/replay_bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "engine/replay.h"
#include "measure/spread.h"

enum {
    OTHERS = 97 /* tokens, one of which is taken for the right one */
};

struct replay {
    struct mr_engine *engine;
    const struct replay_options *o;
    const int32_t *text;
    int32_t n_text, n_vocab;
    uint64_t first_id; /* of the round's requests, which follow each other */
    int n_stream;
    int32_t *expected; /* [gen]: an answer with wrong tokens in it */
};

/* Where in the text the i-th stream's prompt begins: as far from each other as the text allows. */
static int32_t begin_of(const struct replay *r, int i)
{
    const int32_t room = r->n_text - (r->o->prompt + r->o->gen);
    return r->n_stream > 1 ? (int32_t)((int64_t)room * i / (r->n_stream - 1)) : 0;
}

static int32_t token_of(void *context, uint64_t request, int32_t n_generated)
{
    const struct replay *r = context;
    return r->text[begin_of(r, (int)(request - r->first_id)) + r->o->prompt + n_generated];
}

/* The answer as somebody expects it who is right in so many of 100 tokens. */
static void expect(const struct replay *r, int32_t from, int percent, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int i = 0; i < r->o->gen; i++) {
        const uint32_t counter[4] = {(uint32_t)i, 0, 0, 0};
        const int32_t token = r->text[from + i];
        uint32_t word[4];
        philox4x32(word, counter, key);
        r->expected[i] = word[0] % 100 < (uint32_t)percent ? token : (token + 1 + (int32_t)(word[1] % OTHERS)) % r->n_vocab;
    }
}

static enum mr_status submit(struct replay *r, int i, int percent, enum mr_speculation method, uint64_t round,
                             struct mr_error *err)
{
    struct mr_request request;
    uint64_t id;
    const int32_t begin = begin_of(r, i);
    mr_request_defaults(&request);
    request.prompt = r->text + begin;
    request.n_prompt = r->o->prompt;
    request.max_tokens = r->o->gen;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    request.show_special = true;
    request.speculation = method;
    if (percent >= 0) {
        expect(r, begin + r->o->prompt, percent, round * REPLAY_STREAMS_MAX + (uint64_t)i);
        request.prediction = r->expected;
        request.n_prediction = r->o->gen;
    }
    MR_TRY(mr_engine_submit(r->engine, &request, &id, err));
    if (i == 0)
        r->first_id = id;
    return MR_OK;
}

/* Sums over the streams of a round. */
struct round_sum {
    int n_started, n_ended;
    int64_t begin_us; /* when all had their first token */
    int64_t n_at_begin, n_token, n_drafted, n_accepted;
};

static enum mr_status take_events(struct replay *r, struct round_sum *sum, struct mr_error *err)
{
    struct mr_event event;
    while (mr_engine_next_event(r->engine, &event)) {
        if (event.finish == MR_FINISH_ERROR)
            return mr_fail(err, event.status, "%s", event.error);
        sum->n_token += event.token >= 0;
        sum->n_started += event.token >= 0 && event.usage.n_generated == 1;
        if (event.finish == MR_FINISH_NONE)
            continue;
        sum->n_ended++;
        sum->n_drafted += event.usage.n_drafted;
        sum->n_accepted += event.usage.n_accepted;
    }
    return MR_OK;
}

/* *rate: tokens a second of all streams, from when all have begun to when the first ends. */
static enum mr_status run_round(struct replay *r, int percent, enum mr_speculation method, uint64_t round, double *rate,
                                struct round_sum *sum, struct mr_error *err)
{
    int64_t end_us = 0, n_at_end = 0;
    *sum = (struct round_sum){0};
    for (int i = 0; i < r->n_stream; i++)
        MR_TRY(submit(r, i, percent, method, round, err));
    while (sum->n_ended < r->n_stream) {
        if (r->o->stopped())
            return mr_fail(err, MR_CANCELLED, "interrupted");
        mr_engine_step(r->engine);
        MR_TRY(take_events(r, sum, err));
        if (sum->begin_us == 0 && sum->n_started == r->n_stream) {
            sum->begin_us = clock_us();
            sum->n_at_begin = sum->n_token;
        }
        if (end_us == 0 && sum->n_ended > 0) {
            end_us = clock_us();
            n_at_end = sum->n_token;
        }
    }
    *rate = end_us > sum->begin_us ? (double)(n_at_end - sum->n_at_begin) * 1e6 / (double)(end_us - sum->begin_us) : 0;
    return MR_OK;
}

static enum mr_status run_case(struct replay *r, struct replay_figure *out, struct mr_error *err)
{
    double plain[REPLAY_ROUNDS_MAX], guessed[REPLAY_ROUNDS_MAX], ratio[REPLAY_ROUNDS_MAX];
    const enum mr_speculation method = out->percent >= 0 ? MR_SPECULATION_REFERENCE : r->o->method;
    struct round_sum sum;
    MR_TRY(run_round(r, out->percent, method, 0, &guessed[0], &sum, err)); /* costs and records become known */
    for (int i = 0; i < r->o->repeat; i++) {
        MR_TRY(run_round(r, -1, MR_SPECULATION_OFF, 0, &plain[i], &sum, err));
        MR_TRY(run_round(r, out->percent, method, (uint64_t)i + 1, &guessed[i], &sum, err));
        ratio[i] = plain[i] > 0 ? guessed[i] / plain[i] : 0;
        out->drafted += (double)sum.n_drafted / (double)sum.n_token / r->o->repeat;
        out->accepted += (double)sum.n_accepted / (double)sum.n_token / r->o->repeat;
    }
    out->plain = spread_of(plain, r->o->repeat).median;
    out->rate = spread_of(guessed, r->o->repeat).median;
    out->ratio = spread_of(ratio, r->o->repeat).median;
    return MR_OK;
}

static enum mr_status run_cases(struct replay *r, struct replay_figures *out, struct mr_error *err)
{
    const int n_acceptance = r->o->acceptance.n > 0 ? r->o->acceptance.n : 1;
    for (int i = 0; i < r->o->streams.n; i++)
        for (int j = 0; j < n_acceptance; j++) {
            r->n_stream = r->o->streams.value[i];
            struct replay_figure *f = &out->figure[out->n];
            *f = (struct replay_figure){.n_stream = r->n_stream,
                                        .percent = r->o->acceptance.n > 0 ? r->o->acceptance.value[j] : -1};
            MR_TRY(run_case(r, f, err));
            out->n++;
        }
    return MR_OK;
}

static int most(const struct bench_list *l)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n = l->value[i] > n ? l->value[i] : n;
    return n;
}

enum mr_status replay_bench_run(struct replay_figures *out, struct mr_model *model, const struct mr_options *options,
                                const struct replay_options *o, const int32_t *text, int32_t n, struct mr_error *err)
{
    struct mr_options with = *options;
    struct mr_model_info info;
    mr_model_info(model, &info);
    *out = (struct replay_figures){0};
    if (n < o->prompt + o->gen)
        return mr_fail(err, MR_BAD_INPUT, "the text has %d tokens; a prompt of %d and an answer of %d need more", n, o->prompt,
                       o->gen);
    with.max_running = most(&o->streams);
    with.n_ctx = o->prompt + o->gen + 1;
    with.itl_target_ms = 0;
    with.prefix_cache = false; /* every round computes its prompts */
    with.reference_bytes = 0;
    struct replay r = {.o = o, .text = text, .n_text = n, .n_vocab = info.n_vocab};
    r.expected = mem_array((size_t)o->gen, sizeof *r.expected);
    enum mr_status status = r.expected != NULL ? mr_engine_create(&r.engine, model, &with, err)
                                               : mr_fail(err, MR_NO_MEMORY, "no memory for an answer");
    if (status == MR_OK) {
        engine_replay(r.engine, token_of, &r);
        status = run_cases(&r, out, err);
    }
    mr_engine_free(r.engine);
    free(r.expected);
    return status;
}

json_t *replay_figures_json(const struct replay_figures *f, const struct replay_options *o, const char *method)
{
    json_t *list = json_array();
    for (int i = 0; i < f->n; i++) {
        const struct replay_figure *g = &f->figure[i];
        json_t *entry =
            json_pack("{s:i, s:f, s:f, s:f, s:f, s:f}", "streams", g->n_stream, "plain_tok_s", g->plain, "tok_s", g->rate,
                      "ratio", g->ratio, "drafted_per_token", g->drafted, "accepted_per_token", g->accepted);
        if (g->percent >= 0)
            json_object_set_new(entry, "acceptance", json_real(g->percent / 100.0));
        json_array_append_new(list, entry);
    }
    return json_pack("{s:s, s:i, s:i, s:o}", "method", o->acceptance.n > 0 ? "forced" : method, "prompt", o->prompt, "gen",
                     o->gen, "results", list);
}

void replay_figures_text(const struct replay_figures *f, const char *method, struct string_buffer *out)
{
    string_buffer_puts(out, "guesses    streams  plain tok/s     tok/s    times  drafted  accepted a token\n");
    for (int i = 0; i < f->n; i++) {
        const struct replay_figure *g = &f->figure[i];
        char name[32];
        if (g->percent >= 0)
            snprintf(name, sizeof name, "%d %% right", g->percent);
        else
            snprintf(name, sizeof name, "%s", method);
        string_buffer_printf(out, "%-10s %7d %12.1f %9.1f %8.2f %8.2f %9.2f\n", name, g->n_stream, g->plain, g->rate, g->ratio,
                             g->drafted, g->accepted);
    }
}
