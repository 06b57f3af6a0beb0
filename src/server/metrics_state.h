/* metrics_state.h: what stands behind metrics.h. */
#ifndef SERVER_METRICS_STATE_H
#define SERVER_METRICS_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "measure/limits.h"
#include "server/engine_pool.h"
#include "server/metrics.h"
#include "server/process_stats.h"

enum {
    METRICS_MODELS_MAX = 64,
    METRICS_NAME_MAX = 256,
    HISTOGRAM_BOUNDS_MAX = 32,
    HTTP_SLOTS = 512
};

enum histogram_id {
    HISTOGRAM_TTFT,
    HISTOGRAM_TTFB,
    HISTOGRAM_ITL,
    HISTOGRAM_TPOT,
    HISTOGRAM_E2E,
    HISTOGRAM_INFERENCE, /* prefill and decode */
    HISTOGRAM_STEP,
    HISTOGRAM_STAGE, /* the first of N_STAGES */
    HISTOGRAM_N_SECONDS = HISTOGRAM_STAGE + N_STAGES,
    HISTOGRAM_PROMPT_TOKENS = HISTOGRAM_N_SECONDS,
    HISTOGRAM_GENERATION_TOKENS,
    HISTOGRAM_STEP_ROWS,
    N_HISTOGRAMS
};

struct histogram {
    uint64_t n[HISTOGRAM_BOUNDS_MAX + 1]; /* by the first bound that is not below; the last one: above all */
    double sum;
};

/* Upper bounds of the buckets, ascending. */
const double *histogram_bounds(enum histogram_id id, int *n);
void histogram_observe(struct histogram *h, enum histogram_id id, double value);

enum error_cause {
    CAUSE_KV_FULL,
    CAUSE_HOST_MEMORY,
    CAUSE_INTERNAL,
    N_CAUSES
};

/* What only grows. Rows of the engine are kept unless they are computed again, or were drafts that the sampler did not choose,
 * or of an answer that was cancelled. */
struct metrics_totals {
    double step_us, rows, lost_rows, steps;
    double generated;          /* tokens of answers, cancelled ones not */
    double slo_ended, slo_met; /* requests that the latency target binds */
    double cpu_us;
};

struct metrics_sample {
    int64_t at_us;
    struct metrics_totals totals;
};

struct model_metrics {
    struct metrics *owner;
    char name[METRICS_NAME_MAX];
    struct histogram histogram[N_HISTOGRAMS];
    int64_t n_outcome[N_OUTCOMES], n_cause[N_CAUSES];
    int64_t n_prompt_tokens, n_cached_tokens, n_generated_tokens;
    int64_t n_slo[2], n_slo_met[2]; /* [1]: of requests that the latency target binds */
    int64_t n_in_flight;
    double lost_tokens; /* computed for answers that were cancelled: prompt and answer */
    double cancelled_tokens;

    struct metrics_source source;                       /* stats NULL: not loaded */
    struct mr_engine_stats stats;                       /* as read last */
    struct metrics_processes processes;                 /* the same; zero: none */
    struct mr_engine_stats stepped;                     /* as of the last metrics_step */
    struct metrics_sample sample[METRICS_RECENT_S + 1]; /* the oldest at n_sample % of it, once it is full */
    int64_t n_sample;
};

struct http_count {
    const char *method, *path; /* NULL: free */
    int code;
    int64_t n;
};

struct metrics {
    struct metrics_options options; /* the targets behind the lock */
    pthread_mutex_t lock;           /* of all below but the thread */
    pthread_mutex_t source_lock;    /* held while an engine is asked; taken before lock, never after it */
    struct model_metrics *model[METRICS_MODELS_MAX];
    int n_model;
    struct limits limits; /* n_threads 0: unknown */
    struct http_count http[HTTP_SLOTS];
    int64_t n_http_other, bytes_in, bytes_out;
    int n_connections;
    int64_t n_spans, n_spans_dropped;
    struct metrics_batches batches;
    int64_t batches_us; /* when they were told */
    int64_t n_batch_lines[N_BATCH_LINE_ENDS];
    struct process_stats process, at_start;
    int64_t sampled_us;
    bool has_sample;

    pthread_t thread;
    pthread_mutex_t thread_lock;
    pthread_cond_t wake;
    bool has_thread, stop;
};

int64_t metrics_now(const struct metrics *m);
/* Ask all engines and the system. */
void metrics_refresh(struct metrics *m);

/* Values of one model, as of the last refresh. */
enum model_value {
    VALUE_RUNNING,
    VALUE_WAITING,
    VALUE_ASIDE,
    VALUE_IN_FLIGHT,
    VALUE_KV_SHARE,
    VALUE_PREFIX_QUERIES,
    VALUE_PREFIX_HITS,
    VALUE_PROMPT_TOKENS,
    VALUE_CACHED_TOKENS,
    VALUE_GENERATED_TOKENS,
    VALUE_PREEMPTED,
    VALUE_STEPS,
    VALUE_STEP_SECONDS,
    VALUE_IDLE_SECONDS,
    VALUE_DECODE_ROWS,
    VALUE_PROMPT_ROWS,
    VALUE_GUESS_SECONDS,
    VALUE_DRAFT_ROWS,
    VALUE_DRAFTS_ACCEPTED,
    VALUE_BATCH_CAP,
    VALUE_LOAD,
    VALUE_CAPACITY,
    VALUE_BUCKET_SIZE,
    VALUE_BUCKET_LEVEL,
    VALUE_LATENCY_P99,
    VALUE_FROM_STORE,
    VALUE_MEMORY_WEIGHTS,
    VALUE_MEMORY_KV,
    VALUE_MEMORY_KV_IN_USE,
    VALUE_MEMORY_KV_CACHED,
    VALUE_DRAFTED, /* by method */
    VALUE_ACCEPTED = VALUE_DRAFTED + MR_N_SPECULATIONS,
    VALUE_MEMORY_RESPONSES = VALUE_ACCEPTED + MR_N_SPECULATIONS,
    VALUE_MEMORY_LOOKUP,
    VALUE_MEMORY_REFERENCES,
    VALUE_MEMORY_HOST_TIER,
    VALUE_FILE_TIER,
    VALUE_TIER_EXPORTED,
    VALUE_TIER_RESTORED,
    VALUE_LOAD_SECONDS,
    VALUE_PROCESSES_ACTIVE,
    VALUE_PROCESSES_STANDBY,
    VALUE_PROCESSES_DIED,
    VALUE_TAKE_OVER_SECONDS,
    VALUE_HANDED_ON,
    VALUE_LOST_REQUESTS,
    VALUE_SLO_BOUND,
    VALUE_SLO_BOUND_MET,
    VALUE_SLO_UNBOUND,
    VALUE_SLO_UNBOUND_MET,
    VALUE_LOST_ROWS,
    VALUE_ATTAINMENT,
    VALUE_GOODPUT,
    VALUE_THROUGHPUT,
    VALUE_EFFECTIVE_THROUGHPUT,
    VALUE_BUSY,
    VALUE_BATCH,
    VALUE_MFU,
    VALUE_MBU,
    VALUE_OUTCOME,                            /* the first of N_OUTCOMES */
    VALUE_CAUSE = VALUE_OUTCOME + N_OUTCOMES, /* the first of N_CAUSES */
    VALUE_PROMPT_SECONDS = VALUE_CAUSE + N_CAUSES,
    VALUE_DECODE_SECONDS,
    N_VALUES
};
void model_values(const struct model_metrics *mm, double value[N_VALUES]);
void model_take_sample(struct model_metrics *mm, int64_t now_us);

/* A family of the page: rows of one name, which differ by their label, stand together. */
struct metrics_row {
    const char *name; /* NULL: the table ends */
    const char *type; /* "counter", "gauge", "histogram" */
    const char *help;
    int id;            /* enum model_value, or enum histogram_id */
    const char *label; /* name="value", beside the model's; NULL: none */
};
struct metrics_names {
    const char *name; /* as /metrics?names= has it */
    const char *prefix;
    const char *model_label;
    const char *more_labels; /* of every series; NULL: none */
    bool has_process;        /* families of the whole process follow */
    const struct metrics_row *row;
};
extern const struct metrics_names metrics_name_table[]; /* a row without a name ends it */

#endif
