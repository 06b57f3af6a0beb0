/* constraint_rates.c: whole answers under a schema beside free ones, and the report. */
#include <string.h>

#include "measure/constraint_cases.h"
#include "measure/spread.h"

enum {
    ANSWER_TOKENS = 64
};

/* One answer; its rate in tokens a second. */
static enum mr_status answer(struct mr_engine *engine, const struct mr_request *request, bool (*stopped)(void), double *rate,
                             struct mr_usage *usage, struct mr_error *err)
{
    uint64_t id;
    struct mr_event event = {.finish = MR_FINISH_NONE};
    MR_TRY(mr_engine_submit(engine, request, &id, err));
    while (event.finish == MR_FINISH_NONE) {
        if (stopped()) {
            mr_engine_cancel(engine, id);
            while (mr_engine_next_event(engine, &event))
                continue;
            return mr_fail(err, MR_CANCELLED, "interrupted");
        }
        mr_engine_step(engine);
        while (mr_engine_next_event(engine, &event))
            if (event.finish == MR_FINISH_ERROR)
                return mr_fail(err, event.status, "%s", event.error);
    }
    *usage = event.usage;
    *rate = usage->generate_us > 0 ? (usage->n_generated - 1) * 1e6 / (double)usage->generate_us : 0;
    return MR_OK;
}

static enum mr_status run_rounds(struct constraint_figures *out, struct mr_engine *plain, struct mr_engine *drafting,
                                 struct mr_request *request, int n_round, bool (*stopped)(void), struct mr_error *err)
{
    double free_rate[CONSTRAINT_ROUNDS_MAX], constrained[CONSTRAINT_ROUNDS_MAX], drafted[CONSTRAINT_ROUNDS_MAX], unused;
    struct mr_request constrained_request = *request;
    struct mr_usage usage;
    request->ignore_eos = true;
    constrained_request.constraint = MR_CONSTRAINT_JSON_SCHEMA;
    constrained_request.constraint_text = constraint_cases[CONSTRAINT_CASE_PERSON].source;
    MR_TRY(answer(plain, &constrained_request, stopped, &unused, &usage, err)); /* masks and costs become known */
    MR_TRY(answer(drafting, &constrained_request, stopped, &unused, &usage, err));
    request->max_tokens = usage.n_generated;
    for (int i = 0; i < n_round; i++) {
        MR_TRY(answer(plain, request, stopped, &free_rate[i], &usage, err));
        MR_TRY(answer(plain, &constrained_request, stopped, &constrained[i], &usage, err));
        MR_TRY(answer(drafting, &constrained_request, stopped, &drafted[i], &usage, err));
    }
    out->rate_free = spread_of(free_rate, n_round).median;
    out->rate_constrained = spread_of(constrained, n_round).median;
    out->rate_drafted = spread_of(drafted, n_round).median;
    out->n_drafted = usage.n_drafted;
    out->n_accepted = usage.n_accepted;
    return MR_OK;
}

enum mr_status constraint_bench_rates(struct constraint_figures *out, struct mr_model *model, const struct mr_options *options,
                                      int n_round, bool (*stopped)(void), struct mr_error *err)
{
    static const char text[] = "A person, described as a JSON object with name, age, email, tags, role, score and address:\n";
    struct mr_options with = *options;
    struct mr_engine *engine[2] = {NULL, NULL};
    struct mr_request request;
    int32_t *prompt, n_prompt;
    MR_TRY(mr_tokenize(model, text, sizeof text - 1, false, &prompt, &n_prompt, err));
    mr_request_defaults(&request);
    request.prompt = prompt;
    request.n_prompt = n_prompt;
    request.max_tokens = ANSWER_TOKENS;
    request.sampling.temperature = 0;
    enum mr_status status = MR_OK;
    for (int i = 0; i < 2 && status == MR_OK; i++) {
        with.forced_drafts = i == 1;
        status = mr_engine_create(&engine[i], model, &with, err);
    }
    if (status == MR_OK)
        status = run_rounds(out, engine[0], engine[1], &request, n_round, stopped, err);
    for (int i = 0; i < 2; i++)
        mr_engine_free(engine[i]);
    mr_tokens_free(prompt);
    return status;
}

static json_t *masks_json(const struct mask_times *m)
{
    return json_pack("{s:i, s:f, s:f, s:f, s:f}", "masks", m->n, "first_median_us", m->first_median, "first_p99_us",
                     m->first_p99, "again_median_us", m->again_median, "again_p99_us", m->again_p99);
}

json_t *constraint_figures_json(const struct constraint_figures *f)
{
    json_t *cases = json_array();
    for (int i = 0; i < CONSTRAINT_CASES; i++) {
        const struct constraint_case_figure *c = &f->figure[i];
        json_array_append_new(cases,
                              json_pack("{s:s, s:f, s:f, s:I, s:o}", "name", c->name, "compile_ms", c->compile_ms, "warm_ms",
                                        c->warm_ms, "mask_bytes", (json_int_t)c->bytes, "time", masks_json(&c->masks)));
    }
    return json_pack("{s:i, s:f, s:o, s:o, s:{s:f, s:f, s:f, s:i, s:i}}", "vocabulary", (int)f->n_vocab, "trie_ms", f->trie_ms,
                     "cases", cases, "all", masks_json(&f->all), "tokens_per_second", "free", f->rate_free, "constrained",
                     f->rate_constrained, "drafted", f->rate_drafted, "drafts", f->n_drafted, "drafts_accepted", f->n_accepted);
}

void constraint_figures_text(const struct constraint_figures *f, struct string_buffer *out)
{
    string_buffer_printf(out, "%d tokens, their trie in %.0f ms\n\n", (int)f->n_vocab, f->trie_ms);
    string_buffer_printf(out, "%-20s %10s %8s %8s %6s %23s %23s\n", "", "compile ms", "warm ms", "kept kB", "masks",
                         "first, median/P99 us", "again, median/P99 us");
    for (int i = 0; i < CONSTRAINT_CASES; i++) {
        const struct constraint_case_figure *c = &f->figure[i];
        string_buffer_printf(out, "%-20s %10.2f %8.2f %8.0f %6d %11.1f %11.1f %11.1f %11.1f\n", c->name, c->compile_ms,
                             c->warm_ms, (double)c->bytes / 1e3, c->masks.n, c->masks.first_median, c->masks.first_p99,
                             c->masks.again_median, c->masks.again_p99);
    }
    string_buffer_printf(out, "%-20s %10s %8s %8s %6d %11.1f %11.1f %11.1f %11.1f\n\n", "all", "", "", "", f->all.n,
                         f->all.first_median, f->all.first_p99, f->all.again_median, f->all.again_p99);
    string_buffer_printf(out,
                         "one stream: %.1f tokens/s free, %.1f under a schema, %.1f with forced text as drafts (%d of %d "
                         "accepted)\n",
                         f->rate_free, f->rate_constrained, f->rate_drafted, f->n_accepted, f->n_drafted);
}
