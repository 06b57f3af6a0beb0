/* engine_load.h: a built-in load on an engine: requests arrive at random times (a Poisson process) with lengths as people's
 * chats have them, and what they saw of it.
 * Lengths are log-normal, much as those of ShareGPT's conversations: prompts with a median of 60 tokens and a long tail,
 * answers with a median of 150, none above 1,024 tokens or half of the context. Prompts are random tokens behind a common
 * beginning. */
#ifndef MEASURE_ENGINE_LOAD_H
#define MEASURE_ENGINE_LOAD_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

struct engine_load {
    int n_request;
    double rate;           /* requests a second; 0: all at once */
    int64_t seed;          /* of arrivals, lengths and tokens */
    int shared;            /* tokens at the beginning of each prompt that are the same */
    int prompt_tokens;     /* of each prompt behind those; 0: random */
    int answer_tokens;     /* of each answer; 0: random */
    int answer_most;       /* above answer_tokens: uniform between the two */
    int n_warm;            /* requests before those that count: a quarter of them one by one, the others at once */
    int long_prompt;       /* tokens of one more request for a single token, which comes when half have come; 0: none */
    int ttft_target_ms;    /* a request within both targets counts as goodput */
    int itl_target_ms;     /* 1.5 times this, for the widest of 99 % of a request's gaps */
    int latency_target_ms; /* above 0: instead of both, for what latency_metric names */
    enum mr_latency latency_metric;
    const struct mr_adapter_use *adapter; /* requests take them in turn */
    int32_t n_adapter;
    bool (*stopped)(void); /* asked between steps; NULL: nobody stops it */
};

/* What requests saw, in milliseconds. */
struct latency {
    double p50, p99, max;
};

struct engine_load_result {
    double seconds;
    int n_finished, n_good; /* requests that ended; those within the targets */
    int n_refused;          /* by admission */
    int n_bound;            /* that ended, and that the latency target is meant for */
    struct latency bound;   /* of those, what latency_metric names */
    int64_t n_prompt_tokens, n_answer_tokens;
    struct latency ttft, tpot, itl, e2e, queue;
    double long_ttft_ms;
    double kv_use;  /* share of the cache's memory that sequences hold, mean over the steps */
    double kv_live; /* share of that memory with tokens in it, mean over the steps; above 1 where blocks are shared */
    double running; /* answers in the cache at a time, mean over the steps */
    int running_max;
    struct mr_engine_stats stats;
};

/* The engine is idle and stays the caller's. CANCELLED: stopped said so. BAD_INPUT: a prompt does not fit. */
enum mr_status engine_load_run(struct engine_load_result *out, struct mr_engine *engine, const struct mr_model_info *model,
                               const struct engine_load *load, struct mr_error *err);

/* NULL: no memory. */
json_t *engine_load_json(const struct engine_load *load, const struct engine_load_result *r);

#endif
