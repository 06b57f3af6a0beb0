/* engine_load.c: arrivals, steps and events of a load, and its figures. */
#include "measure/engine_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"

enum {
    PROMPT_MEDIAN = 60,
    ANSWER_MEDIAN = 150,
    LENGTH_MAX = 1024, /* of what is random; half of the context where that is less */
    IDLE_NS = 200000   /* between looks at the clock while nothing has arrived */
};
static const double prompt_sigma = 1.2, answer_sigma = 0.9;

struct arrival {
    int64_t at_us; /* from the beginning */
    int n_prompt, n_answer;
    uint64_t id;
    int64_t first_us, last_us;
    int n_token;
    bool ended, good, refused, is_bound;
    int n_wide; /* gaps wider than the target allows */
    double queue_ms;
};

struct run {
    const struct engine_load *load;
    struct mr_engine *engine;
    int n_vocab, n_ctx;
    int64_t begin_us;
    struct arrival *arrival;
    int n_arrival, n_submitted, n_ended, n_refused;
    struct mr_engine_stats before;
    int32_t *prompt;
    double *gap; /* milliseconds between tokens of one answer */
    size_t n_gap, gap_capacity;
    double use_sum, live_sum, running_sum;
    int running_max;
    int64_t n_sample;
    uint32_t counter;
};

/* Uniform in (0, 1). */
static double uniform(struct run *r)
{
    const uint32_t key[2] = {(uint32_t)r->load->seed, (uint32_t)(r->load->seed >> 32)}, counter[4] = {r->counter++};
    uint32_t word[4];
    philox4x32(word, counter, key);
    return ((double)word[0] + 0.5) * 0x1p-32;
}

/* exp(log(median) + sigma * normal), by Box and Muller. */
static int log_normal(struct run *r, int median, double sigma)
{
    const double normal = sqrt(-2 * log(uniform(r))) * cos(6.283185307179586 * uniform(r));
    const int fits = (r->n_ctx - r->load->shared) / 2, most = fits < LENGTH_MAX ? fits : LENGTH_MAX;
    const double x = median * exp(sigma * normal);
    return x > most ? most : x < 1 ? 1 : (int)x;
}

static void plan_arrivals(struct run *r)
{
    const struct engine_load *l = r->load;
    double at = 0;
    int n = 0;
    for (int i = 0; i < l->n_request; i++) {
        at += l->rate > 0 ? -log(uniform(r)) * 1e6 / l->rate : 0;
        struct arrival *a = &r->arrival[n++];
        *a = (struct arrival){.at_us = (int64_t)at};
        a->n_prompt = l->shared + (l->prompt_tokens > 0 ? l->prompt_tokens : log_normal(r, PROMPT_MEDIAN, prompt_sigma));
        const int spread = l->answer_most > l->answer_tokens ? l->answer_most - l->answer_tokens + 1 : 0;
        a->n_answer = spread > 0             ? l->answer_tokens + (int)(spread * uniform(r))
                      : l->answer_tokens > 0 ? l->answer_tokens
                                             : log_normal(r, ANSWER_MEDIAN, answer_sigma);
        if (l->long_prompt > 0 && i == l->n_request / 2)
            r->arrival[n++] = (struct arrival){.at_us = (int64_t)at + 1000000, .n_prompt = l->long_prompt, .n_answer = 1};
    }
    r->n_arrival = n;
}

/* number: requests of different numbers have different prompts. Refused requests count as missed. */
static enum mr_status submit(struct run *r, struct arrival *a, int number, struct mr_error *err)
{
    struct mr_request request;
    mr_request_defaults(&request);
    if (a->n_prompt >= r->n_ctx)
        return mr_fail(err, MR_BAD_INPUT, "a prompt of %d tokens does not fit into a context of %d", a->n_prompt, r->n_ctx);
    for (int i = 0; i < a->n_prompt; i++) /* any tokens: the engine knows no words */
        r->prompt[i] = (int32_t)(((int64_t)i * 7919 + (i < r->load->shared ? 0 : (number + 1) * 104729LL)) % r->n_vocab);
    request.prompt = r->prompt;
    request.n_prompt = a->n_prompt;
    request.max_tokens = a->n_answer;
    request.ignore_eos = true;
    request.sampling.seed = (uint64_t)number;
    request.n_adapter = r->load->n_adapter > 0;
    if (request.n_adapter > 0)
        request.adapter = &r->load->adapter[number % r->load->n_adapter];
    request.arrival_us = r->begin_us + a->at_us;
    const enum mr_status status = mr_engine_submit(r->engine, &request, &a->id, err);
    a->refused = status == MR_BUSY || status == MR_FULL;
    r->n_ended += a->refused;
    r->n_refused += a->refused;
    return a->refused ? MR_OK : status;
}

/* What the latency target is about. */
static int64_t latency_us(const struct engine_load *l, const struct arrival *a)
{
    return (l->latency_metric == MR_LATENCY_E2E ? a->last_us : a->first_us) - a->at_us;
}

static bool take_gap(struct run *r, struct arrival *a, int64_t now)
{
    const double ms = (double)(now - a->last_us) / 1e3;
    a->n_wide += ms > 1.5 * r->load->itl_target_ms;
    if (!mem_grow(&r->gap, &r->gap_capacity, r->n_gap + 1, sizeof *r->gap))
        return false;
    r->gap[r->n_gap++] = ms;
    return true;
}

static bool is_good(const struct engine_load *l, const struct arrival *a)
{
    if (l->latency_target_ms > 0)
        return latency_us(l, a) <= (int64_t)l->latency_target_ms * 1000;
    return a->first_us - a->at_us <= (int64_t)l->ttft_target_ms * 1000 && a->n_wide * 100 <= a->n_token;
}

static enum mr_status take_events(struct run *r, struct mr_error *err)
{
    const int64_t now = clock_us() - r->begin_us;
    struct mr_event event;
    while (mr_engine_next_event(r->engine, &event)) {
        struct arrival *a = r->arrival;
        while (a->id != event.request)
            a++;
        if (event.token >= 0) {
            if (a->n_token++ == 0)
                a->first_us = now;
            else if (!take_gap(r, a, now))
                return mr_fail(err, MR_NO_MEMORY, "no memory for the figures");
            a->last_us = now;
        }
        if (event.finish == MR_FINISH_ERROR)
            return mr_fail(err, MR_NO_MEMORY, "a request failed: %s", event.error);
        if (event.finish == MR_FINISH_NONE)
            continue;
        a->ended = true;
        a->queue_ms = (double)event.usage.queue_us / 1e3;
        a->is_bound = event.usage.is_bound;
        a->good = is_good(r->load, a);
        r->n_ended++;
    }
    return MR_OK;
}

static void sample_cache(struct run *r)
{
    struct mr_engine_stats s;
    mr_engine_get_stats(r->engine, &s);
    if (s.kv_bytes_in_use == 0)
        return;
    const int running = s.n_running - s.n_aside;
    r->n_sample++;
    r->running_sum += running;
    r->running_max = running > r->running_max ? running : r->running_max;
    r->use_sum += (double)s.kv_bytes_in_use / (double)s.kv_bytes;
    r->live_sum += (double)s.kv_bytes_live / (double)s.kv_bytes_in_use;
}

/* Let the engine learn what rows cost, and the cache what prompts begin with. */
static enum mr_status warm_up(struct run *r, struct mr_error *err)
{
    for (int i = 0; i < r->load->n_warm; i++) {
        struct arrival a = r->arrival[i % r->n_arrival];
        r->begin_us = clock_us() - a.at_us;
        MR_TRY(submit(r, &a, r->n_arrival + i, err));
        if (i >= r->load->n_warm / 4 && i < r->load->n_warm - 1)
            continue;
        for (struct mr_event event; !mr_engine_is_idle(r->engine);) {
            mr_engine_step(r->engine);
            while (mr_engine_next_event(r->engine, &event))
                continue;
        }
    }
    r->n_ended = r->n_refused = 0;
    return MR_OK;
}

static enum mr_status run_all(struct run *r, struct mr_error *err)
{
    MR_TRY(warm_up(r, err));
    mr_engine_get_stats(r->engine, &r->before);
    r->begin_us = clock_us();
    while (r->n_ended < r->n_arrival) {
        if (r->load->stopped != NULL && r->load->stopped())
            return mr_fail(err, MR_CANCELLED, "interrupted");
        while (r->n_submitted < r->n_arrival && r->arrival[r->n_submitted].at_us <= clock_us() - r->begin_us) {
            const int next = r->n_submitted++;
            MR_TRY(submit(r, &r->arrival[next], next, err));
        }
        if (mr_engine_is_idle(r->engine)) {
            nanosleep(&(struct timespec){.tv_nsec = IDLE_NS}, NULL);
            continue;
        }
        mr_engine_step(r->engine);
        MR_TRY(take_events(r, err));
        sample_cache(r);
    }
    return MR_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the samples. */
static struct latency latency_of(double *sample, size_t n)
{
    if (n == 0)
        return (struct latency){0};
    qsort(sample, n, sizeof *sample, compare);
    return (struct latency){sample[(n - 1) / 2], sample[(n * 99 + 99) / 100 - 1], sample[n - 1]};
}

enum figure {
    FIGURE_TTFT,
    FIGURE_TPOT,
    FIGURE_E2E,
    FIGURE_QUEUE
};

static double figure_of(const struct arrival *a, enum figure f)
{
    switch (f) {
    case FIGURE_TTFT:
        return (double)(a->first_us - a->at_us) / 1e3;
    case FIGURE_TPOT:
        return a->n_token > 1 ? (double)(a->last_us - a->first_us) / 1e3 / (a->n_token - 1) : 0;
    case FIGURE_E2E:
        return (double)(a->last_us - a->at_us) / 1e3;
    case FIGURE_QUEUE:
        break;
    }
    return a->queue_ms;
}

/* Of all requests but the one with the long prompt. */
static struct latency latencies(const struct run *r, double *sample, enum figure f)
{
    size_t n = 0;
    for (int i = 0; i < r->n_arrival; i++)
        if (!r->arrival[i].refused && (r->load->long_prompt == 0 || i != r->load->n_request / 2 + 1))
            sample[n++] = figure_of(&r->arrival[i], f);
    return latency_of(sample, n);
}

/* What was done before the load began. */
static void leave_out(struct mr_engine_stats *s, const struct mr_engine_stats *before)
{
    s->n_steps -= before->n_steps;
    s->step_us -= before->step_us;
    s->n_decode_rows -= before->n_decode_rows;
    s->n_prompt_rows -= before->n_prompt_rows;
    s->n_redone_rows -= before->n_redone_rows;
    s->n_preempted -= before->n_preempted;
    s->n_looked_up -= before->n_looked_up;
    s->n_found -= before->n_found;
}

static enum mr_status summarize(const struct run *r, struct engine_load_result *out, struct mr_error *err)
{
    double *sample = mem_array((size_t)r->n_arrival, sizeof *sample);
    if (sample == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the figures");
    *out = (struct engine_load_result){.seconds = (double)(clock_us() - r->begin_us) / 1e6,
                                       .n_finished = r->n_ended - r->n_refused,
                                       .n_refused = r->n_refused};
    for (int i = 0; i < r->n_arrival; i++) {
        out->n_good += r->arrival[i].good;
        if (!r->arrival[i].refused && r->arrival[i].is_bound)
            sample[out->n_bound++] = (double)latency_us(r->load, &r->arrival[i]) / 1e3;
        out->n_prompt_tokens += r->arrival[i].refused ? 0 : r->arrival[i].n_prompt;
        out->n_answer_tokens += r->arrival[i].n_token;
    }
    out->bound = latency_of(sample, (size_t)out->n_bound);
    out->ttft = latencies(r, sample, FIGURE_TTFT);
    out->tpot = latencies(r, sample, FIGURE_TPOT);
    out->e2e = latencies(r, sample, FIGURE_E2E);
    out->queue = latencies(r, sample, FIGURE_QUEUE);
    out->itl = latency_of(r->gap, r->n_gap);
    if (r->load->long_prompt > 0)
        out->long_ttft_ms = figure_of(&r->arrival[r->load->n_request / 2 + 1], FIGURE_TTFT);
    const double n_sample = r->n_sample > 0 ? (double)r->n_sample : 1;
    out->kv_use = r->use_sum / n_sample;
    out->kv_live = r->live_sum / n_sample;
    out->running = r->running_sum / n_sample;
    out->running_max = r->running_max;
    mr_engine_get_stats(r->engine, &out->stats);
    leave_out(&out->stats, &r->before);
    free(sample);
    return MR_OK;
}

enum mr_status engine_load_run(struct engine_load_result *out, struct mr_engine *engine, const struct mr_model_info *model,
                               const struct engine_load *load, struct mr_error *err)
{
    struct run r = {.load = load, .engine = engine, .n_vocab = model->n_vocab, .n_ctx = mr_engine_n_ctx(engine)};
    r.arrival = mem_zero_array((size_t)load->n_request + 1, sizeof *r.arrival);
    r.prompt = mem_array((size_t)r.n_ctx, sizeof *r.prompt);
    enum mr_status status = MR_OK;
    if (r.arrival == NULL || r.prompt == NULL) {
        status = mr_fail(err, MR_NO_MEMORY, "no memory for a load of %d requests", load->n_request);
    } else {
        plan_arrivals(&r);
        status = run_all(&r, err);
    }
    if (status == MR_OK)
        status = summarize(&r, out, err);
    free(r.arrival);
    free(r.prompt);
    free(r.gap);
    return status;
}

static json_t *latency_json(const struct latency *l)
{
    return json_pack("{s:f, s:f, s:f}", "p50", l->p50, "p99", l->p99, "max", l->max);
}

static double share(int64_t part, int64_t whole) { return whole > 0 ? (double)part / (double)whole : 0; }

static json_t *tier_json(const struct mr_engine_stats *s)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "state", mr_cache_tier_text(s->tier), "host_bytes",
                     (json_int_t)s->tier_host_bytes, "file_bytes", (json_int_t)s->tier_file_bytes, "exported_blocks",
                     (json_int_t)s->n_exported, "restored_tokens", (json_int_t)s->n_restored, "resumed_tokens",
                     (json_int_t)s->n_resumed, "damaged_files", (json_int_t)s->n_tier_damaged, "dropped_blocks",
                     (json_int_t)s->n_tier_dropped);
}

static json_t *engine_json(const struct engine_load_result *r)
{
    const struct mr_engine_stats *s = &r->stats;
    json_t *root = json_pack(
        "{s:I, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:f, s:i}", "steps", (json_int_t)s->n_steps, "step_seconds",
        (double)s->step_us / 1e6, "decode_rows", (json_int_t)s->n_decode_rows, "prompt_rows", (json_int_t)s->n_prompt_rows,
        "redone_rows", (json_int_t)s->n_redone_rows, "preemptions", (json_int_t)s->n_preempted, "prefix_hit_rate",
        share(s->n_found, s->n_looked_up), "kv_use", r->kv_use, "kv_live", r->kv_live, "kv_bytes", (json_int_t)s->kv_bytes,
        "kv_bytes_copied", (json_int_t)s->kv_bytes_copied, "running", r->running, "running_max", r->running_max);
    if (root != NULL && s->tier != MR_TIER_OFF)
        json_object_set_new(root, "second_tier", tier_json(s));
    return root;
}

static json_t *admission_json(const struct engine_load *l, const struct engine_load_result *r)
{
    const struct mr_engine_stats *s = &r->stats;
    return json_pack("{s:i, s:s, s:i, s:i, s:o, s:f, s:f, s:i, s:f}", "target_ms", l->latency_target_ms, "metric",
                     l->latency_metric == MR_LATENCY_E2E ? "e2e" : "ttft", "refused", r->n_refused, "bound", r->n_bound,
                     "bound_ms", latency_json(&r->bound), "load", s->load, "capacity_tokens_per_second", s->capacity,
                     "batch_cap", (int)s->batch_cap, "target_part", s->target_part);
}

json_t *engine_load_json(const struct engine_load *l, const struct engine_load_result *r)
{
    json_t *root = json_pack("{s:{s:i, s:f, s:I, s:i}, s:f, s:i, s:I, s:I, s:f, s:f, s:f, s:f}", "load", "requests",
                             l->n_request, "rate", l->rate, "seed", (json_int_t)l->seed, "shared_tokens", l->shared, "seconds",
                             r->seconds, "finished", r->n_finished, "prompt_tokens", (json_int_t)r->n_prompt_tokens,
                             "answer_tokens", (json_int_t)r->n_answer_tokens, "requests_per_second", r->n_finished / r->seconds,
                             "answer_tokens_per_second", (double)r->n_answer_tokens / r->seconds, "goodput",
                             r->n_good / r->seconds, "slo_attainment", share(r->n_good, r->n_finished + r->n_refused));
    if (root == NULL)
        return NULL;
    json_object_set_new(root, "ttft_ms", latency_json(&r->ttft));
    json_object_set_new(root, "tpot_ms", latency_json(&r->tpot));
    json_object_set_new(root, "itl_ms", latency_json(&r->itl));
    json_object_set_new(root, "e2e_ms", latency_json(&r->e2e));
    json_object_set_new(root, "queue_ms", latency_json(&r->queue));
    if (l->long_prompt > 0)
        json_object_set_new(root, "long_prompt_ttft_ms", json_real(r->long_ttft_ms));
    if (l->latency_target_ms > 0)
        json_object_set_new(root, "admission", admission_json(l, r));
    json_object_set_new(root, "engine", engine_json(r));
    return root;
}
