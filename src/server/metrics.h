/* metrics.h: what the server counts and times (docs/metrics.md lists the names).
 * Observing allocates nothing. One lock for all, held for microseconds; a page is consistent in itself: the buckets of a
 * histogram sum to its count. Values of the recent past are over the last METRICS_RECENT_S seconds, whoever reads, and how
 * often.
 * Threads: any. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/string_buffer.h"
#include "millrace.h"
#include "server/engine_pool.h"
#include "server/process_stats.h"

struct metrics;
struct model_metrics; /* those of one model; lives as long as the whole */
struct limits;        /* measure/limits.h */

enum {
    METRICS_RECENT_S = 30
};

struct metrics_options {
    int32_t latency_target_ms, latency_metric, itl_target_ms; /* as in mr_options; 0: no such target */
    int32_t threads;                                          /* that compute */
    int64_t (*clock_us)(void *context);                       /* NULL: the system's; the same as the engine's */
    void *clock_context;
};

enum mr_status metrics_create(struct metrics **out, const struct metrics_options *options, struct mr_error *err);
/* Requests that end from now on are judged by these. */
void metrics_set_targets(struct metrics *m, const struct mr_targets *targets);
void metrics_free(struct metrics *m); /* takes NULL; stops the thread */
/* A thread that looks once a second at the engines; without it the owner calls metrics_tick. */
enum mr_status metrics_start(struct metrics *m, struct mr_error *err);
void metrics_tick(struct metrics *m);

/* The model of this name, new or known. NULL: no memory. */
struct model_metrics *metrics_model(struct metrics *m, const char *name);
/* Engine processes together and one by one. */
struct metrics_processes {
    struct engine_pool_counts counts;
    struct engine_pool_process process[POOL_ENGINES_MAX];
    struct process_use use[POOL_ENGINES_MAX];
    int n;
};

/* Where a model's engine says what it does. It is called by whoever ticks or reads, with none of the locks that are taken while
 * something is observed. NULL: the model is unloaded; it is not called any more when this returns. */
struct metrics_source {
    void (*stats)(const void *context, struct mr_engine_stats *out);
    void (*processes)(const void *context, struct metrics_processes *out); /* the same of engine processes; NULL: none */
    const void *context;
    struct mr_model_info info;
    double load_s; /* from the start of loading to ready */
};
void metrics_set_source(struct model_metrics *mm, const struct metrics_source *source);
/* The machine's peaks, for MFU and MBU. */
void metrics_set_limits(struct metrics *m, const struct limits *limits);

/* How a request ended. */
enum request_outcome {
    OUTCOME_STOP,
    OUTCOME_LENGTH,
    OUTCOME_CANCELLED, /* the client left, or said so */
    OUTCOME_TIMEOUT,
    OUTCOME_REFUSED,  /* 429: too busy, or the key's limit */
    OUTCOME_REJECTED, /* 4xx: the request's fault */
    OUTCOME_OUT_OF_MEMORY,
    OUTCOME_ERROR,
    N_OUTCOMES
};

/* Where a request's time goes, in this order and without a gap. */
enum request_stage {
    STAGE_RECEIVE, /* first byte to complete */
    STAGE_PARSE,   /* checked, rendered, tokenised */
    STAGE_LOAD,    /* the model loaded or woken */
    STAGE_QUEUE,
    STAGE_MEMORY,  /* put aside for others, or while blocks came back from the second tier */
    STAGE_PREFILL, /* to the first token */
    STAGE_DECODE,  /* to the last one, as computed */
    STAGE_SAMPLE,  /* tokens chosen, those of others in the same steps, too */
    STAGE_WRITE,   /* until the last byte is given away */
    N_STAGES
};
const char *request_stage_name(enum request_stage stage);

/* One request to an engine (struct mr_request), from its first byte to its last. Clear it, set the first five, and give it to
 * the functions below. Times are microseconds of the engine's clock. */
struct request_life {
    int64_t begin_us;   /* its first byte */
    int64_t arrival_us; /* complete: mr_request.arrival_us */
    int64_t submit_us;  /* given to the engine */
    int64_t loading_us; /* of the time in between: for the model to be there */
    int32_t n_answers;  /* mr_request.n */
    /* what has been seen so far */
    int64_t first_token_us, first_byte_us;
    int64_t last_token_us[MR_N_MAX]; /* of each answer */
    int32_t n_tokens[MR_N_MAX];
    int32_t n_ended;
    enum request_outcome outcome; /* the worst of its answers */
    struct mr_usage usage;        /* of the answer that ended last */
};

/* It has been given to the engine. */
void metrics_request_begin(struct model_metrics *mm, struct request_life *life);
/* An event of it, when the server takes it. */
void metrics_event(struct model_metrics *mm, struct request_life *life, const struct mr_event *event);
/* The first byte of content is given to the socket. */
void metrics_first_byte(struct model_metrics *mm, struct request_life *life);
/* The last byte was given away, or the client has left: once for each begin. */
void metrics_request_end(struct model_metrics *mm, struct request_life *life);
/* A request for the model that came to no engine: REFUSED by a limit of its key, REJECTED. */
void metrics_turned_away(struct model_metrics *mm, enum request_outcome outcome);

/* Microseconds of each stage for `timings`, up to now_us; their sum is now_us - begin_us. */
void request_life_stages(const struct request_life *life, int64_t now_us, int64_t stage_us[N_STAGES]);

/* A reply has been given, or the client left before (code 0). path: the row's of the endpoint table, a string that stays; "":
 * no such path. bytes: of the bodies. */
void metrics_http(struct metrics *m, const char *method, const char *path, int code, size_t bytes_in, size_t bytes_out);
/* Connections that are open now. */
void metrics_set_connections(struct metrics *m, int n);

/* Batches that have not ended, by status, and the lines without a result of those that are in progress. */
struct metrics_batches {
    int64_t n_validating, n_in_progress, n_finalizing, n_cancelling;
    int64_t n_pending;
    double oldest_s; /* how long the oldest of these lines has waited: since its batch was made; 0: there is none */
};
/* What they are now; oldest_s grows by itself until the next call. */
void metrics_set_batches(struct metrics *m, const struct metrics_batches *now);
void metrics_set_lines_pending(struct metrics *m, int64_t n); /* n_pending alone */

/* How a line of a batch came by its result. */
enum batch_line_end {
    BATCH_LINES_COMPLETED,
    BATCH_LINES_FAILED,
    BATCH_LINES_CANCELLED, /* not run, as are the next */
    BATCH_LINES_EXPIRED,
    N_BATCH_LINE_ENDS
};
void metrics_batch_lines(struct metrics *m, enum batch_line_end end, int64_t n);

/* Spans that a collector took; requests whose spans were dropped. */
void metrics_spans(struct metrics *m, int n_sent, int n_dropped);

/* After a step of the model's engine: the rows it computed and how long it took. */
void metrics_step(struct model_metrics *mm, const struct mr_engine_stats *stats);

/* Append the page in Prometheus' text format 0.0.4. names: NULL or "millrace", "vllm", "llamacpp". NOT_FOUND: no such names. */
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
enum mr_status metrics_write(struct metrics *m, const char *names, struct string_buffer *out, struct mr_error *err);

#endif
