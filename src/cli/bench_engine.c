/* bench_engine.c: `millrace bench --engine`: a built-in load of many requests. */
#include "cli/bench_engine.h"

#include "cli/adapter_list.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/pin_option.h"
#include "measure/engine_load.h"

struct load_arguments {
    bool engine;
    struct engine_load load;
    float rate;
    int max_running, kv_tokens, itl_target_ms, batching, kv_policy;
    bool prefix_cache;
    int latency_metric, admission, bucket_capacity, batch_window_ms;
    float low_load, high_load;
    struct mr_adapter_use adapter[MR_ADAPTERS_MAX];
};

static const char *const batchings[] = {"continuous", "none", "static", "dynamic", NULL}; /* in the order of enum mr_batching */

static const char *const latency_metrics[] = {"ttft", "e2e", NULL}; /* in the order of enum mr_latency */
static const char *const on_off[] = {"on", "off", NULL};
static const char *const kv_policies[] = {"paged", "reserve", "grow", NULL}; /* in the order of enum mr_kv_policy */

#define FIELD(name) offsetof(struct load_arguments, name)
static const struct argument rows[] = {
    {.name = "engine", .help = "Run this load", .parse = argument_flag, .offset = FIELD(engine)},
    {.name = "requests",
     .value = "N",
     .help = "How many requests (default: 64)",
     .parse = argument_int,
     .offset = FIELD(load.n_request),
     .low = 1,
     .high = 100000},
    {.name = "rate",
     .value = "R",
     .help = "Requests a second on average; 0: all at once (default: 0)",
     .parse = argument_float,
     .offset = FIELD(rate),
     .high = 1e6},
    {.name = "seed",
     .value = "N",
     .help = "Of arrivals, lengths and tokens (default: 1)",
     .parse = argument_int64,
     .offset = FIELD(load.seed),
     .high = 9007199254740992.0},
    {.name = "shared",
     .value = "N",
     .help = "Tokens with which every prompt begins (default: 0)",
     .parse = argument_int,
     .offset = FIELD(load.shared),
     .high = 1 << 20},
    {.name = "prompt",
     .value = "N",
     .help = "Further tokens of each prompt (default: random, as in chats)",
     .parse = argument_int,
     .offset = FIELD(load.prompt_tokens),
     .low = 1,
     .high = 1 << 20},
    {.name = "gen",
     .value = "N",
     .help = "Tokens of each answer (default: random, as in chats)",
     .parse = argument_int,
     .offset = FIELD(load.answer_tokens),
     .low = 1,
     .high = 1 << 20},
    {.name = "long-prompt",
     .value = "N",
     .help = "One more request, of N tokens, when half of the others have come",
     .parse = argument_int,
     .offset = FIELD(load.long_prompt),
     .low = 1,
     .high = 1 << 20},
    {.name = "max-running",
     .value = "N",
     .help = "Answers that run at a time (default: 16)",
     .parse = argument_int,
     .offset = FIELD(max_running),
     .low = 1,
     .high = 64},
    {.name = "kv-tokens",
     .value = "N",
     .help = "Tokens that the cache holds (default: max-running times the context)",
     .parse = argument_int,
     .offset = FIELD(kv_tokens),
     .low = 1,
     .high = 1 << 30},
    {.name = "itl-target",
     .value = "MS",
     .help = "Time of a step while answers are generated; 0: any (default: 50)",
     .parse = argument_int,
     .offset = FIELD(itl_target_ms),
     .high = 3600000},
    {.name = "ttft-target",
     .value = "MS",
     .help = "First token within which a request counts as goodput (default: 500)",
     .parse = argument_int,
     .offset = FIELD(load.ttft_target_ms),
     .low = 1,
     .high = 3600000},
    {.name = "batching",
     .value = "HOW",
     .help = "continuous, none, static or dynamic (default: continuous)",
     .parse = argument_choice,
     .offset = FIELD(batching),
     .choice = batchings},
    {.name = "kv",
     .value = "HOW",
     .help = "Key/value memory: paged, reserve (the whole context for each) or grow (doubled and copied) (default: paged)",
     .parse = argument_choice,
     .offset = FIELD(kv_policy),
     .choice = kv_policies},
    {.name = "gen-most",
     .value = "N",
     .help = "Answers of --gen to N tokens, all as likely",
     .parse = argument_int,
     .offset = FIELD(load.answer_most),
     .low = 1,
     .high = 1 << 20},
    {.name = "warm-up",
     .value = "N",
     .help = "Requests before those that count (default: 0)",
     .parse = argument_int,
     .offset = FIELD(load.n_warm),
     .high = 10000},
    {.name = "latency-target",
     .value = "MS",
     .help = "Let in only what is likely to be answered within it, which is then goodput; 0: all (default: 0)",
     .parse = argument_int,
     .offset = FIELD(load.latency_target_ms),
     .high = 3600000},
    {.name = "latency-metric",
     .value = "WHAT",
     .help = "ttft (the first token) or e2e (the whole answer) (default: ttft)",
     .parse = argument_choice,
     .offset = FIELD(latency_metric),
     .choice = latency_metrics},
    {.name = "admission",
     .value = "HOW",
     .help = "on, or off: let in all, and measure the target only (default: on)",
     .parse = argument_choice,
     .offset = FIELD(admission),
     .choice = on_off},
    {.name = "low-load",
     .value = "X",
     .help = "Share of the capacity below which batches are filled (default: 0.6)",
     .parse = argument_float,
     .offset = FIELD(low_load),
     .high = 1000},
    {.name = "high-load",
     .value = "X",
     .help = "Share above which prompts are computed one at a time (default: 0.8)",
     .parse = argument_float,
     .offset = FIELD(high_load),
     .high = 1000},
    {.name = "bucket-capacity",
     .value = "N",
     .help = "Model tokens of work that may be let in and not done; 0: as much as the target has time for (default: 0)",
     .parse = argument_int,
     .offset = FIELD(bucket_capacity),
     .high = 1 << 30},
    {.name = "batch-window",
     .value = "MS",
     .help = "How long --batching dynamic waits for more (default: 20)",
     .parse = argument_int,
     .offset = FIELD(batch_window_ms),
     .high = 60000},
    {.name = "no-prefix-cache", .help = "Share no prompts", .parse = argument_unflag, .offset = FIELD(prefix_cache)},
    {0}};

static enum mr_status run(struct load_arguments *a, const struct model_arguments *m, struct engine_load_result *result,
                          struct mr_error *err)
{
    struct mr_options options;
    struct mr_model *model = NULL;
    struct mr_engine *engine = NULL;
    struct mr_model_info info;
    load_options(&options, m);
    options.max_running = a->max_running;
    options.max_queue = a->load.n_request < 65535 ? a->load.n_request + 1 : 65536;
    options.kv_tokens = a->kv_tokens;
    options.itl_target_ms = a->itl_target_ms;
    options.batching = a->batching;
    options.kv_policy = a->kv_policy;
    options.latency_target_ms = a->load.latency_target_ms;
    options.latency_metric = a->latency_metric;
    options.admission = a->admission == 0;
    options.low_load = a->low_load;
    options.high_load = a->high_load;
    options.bucket_capacity = a->bucket_capacity;
    options.batch_window_ms = a->batch_window_ms;
    options.prefix_cache = a->prefix_cache;
    enum mr_status status = load_model(&model, m, &options, err);
    if (status == MR_OK)
        status = adapter_list_load(a->adapter, &a->load.n_adapter, model, m, err);
    a->load.adapter = a->adapter;
    if (status == MR_OK)
        status = pin_option_plan(&options, model, m, err);
    if (status == MR_OK)
        status = mr_engine_create(&engine, model, &options, err);
    if (status == MR_OK)
        status = pin_option_run(engine, model, m, err);
    if (status == MR_OK) {
        mr_model_info(model, &info);
        status = engine_load_run(result, engine, &info, &a->load, err);
    }
    load_warn_of_cache(engine, m);
    mr_engine_free(engine);
    mr_model_close(model);
    return status;
}

int bench_engine(int argc, char **argv)
{
    struct load_arguments a = {.load = {.n_request = 64, .seed = 1, .ttft_target_ms = 500, .stopped = interrupt_seen},
                               .max_running = 16,
                               .itl_target_ms = 50,
                               .low_load = 0.6F,
                               .high_load = 0.8F,
                               .batch_window_ms = 20,
                               .prefix_cache = true};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {{"Model:", model_argument, &m},
                                            {NULL, compute_argument, &m},
                                            {NULL, adapter_argument, &m},
                                            {NULL, cache_argument, &m},
                                            {"Load:", rows, &a}};
    const struct command_line line = {
        .summary = "Measure the engine under a load of many requests that arrive at random; prints JSON.",
        .example = "  millrace bench --engine -m models/SmolLM2-135M-Instruct.Q4_1.gguf -c 2048 --rate 2 --requests 64",
        .group = groups,
        .n_groups = sizeof groups / sizeof *groups};
    int status = arguments_parse(argc, argv, &line);
    if (status == ARGUMENTS_GO_ON)
        status = model_arguments_check(&m, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    a.load.rate = (double)a.rate;
    a.load.latency_metric = (enum mr_latency)a.latency_metric;
    a.load.itl_target_ms = a.itl_target_ms > 0 ? a.itl_target_ms : 50;
    struct mr_error err = {{0}};
    struct engine_load_result result;
    const enum mr_status failed = run(&a, &m, &result, &err);
    if (failed != MR_OK)
        return output_fail_status(argv[0], failed, &err);
    return output_json(argv[0], engine_load_json(&a.load, &result), JSON_INDENT(2) | JSON_REAL_PRECISION(6));
}
