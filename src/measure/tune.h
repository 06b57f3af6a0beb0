/* tune.h: the settings with which a model is served best on this machine, found by measuring: precisions, batch sizes, rows of
 * prompts in a step, threads. Quality is measured against the most precise arithmetic that fits into memory. */
#ifndef MEASURE_TUNE_H
#define MEASURE_TUNE_H

#include "base/string_buffer.h"
#include "millrace.h"

enum {
    TUNE_BATCHES_MAX = 8,
    TUNE_CHUNKS_MAX = 8,
    TUNE_THREADS_MAX = 16,
    TUNE_PROMPT = 128 /* tokens of the prompt whose first token has to come within the target */
};

struct tune_options {
    const char *model; /* file */
    const char *text;  /* n_text bytes, for the quality; NULL: a built-in one */
    size_t n_text;
    int latency_target_ms; /* of the first token behind a prompt of TUNE_PROMPT tokens, alone */
    int itl_target_ms;     /* 99 of 100 gaps between tokens */
    double max_kl;         /* a precision is taken only if its divergence, in nats a token, is at most this */
    int seconds;           /* measuring ends after about so long, loading left out */
    const char *cpu;       /* as mr_options.cpu */
    bool (*stopped)(void); /* asked between steps; NULL: nobody stops it */
    void (*progress)(void *context, const char *line); /* what was just measured; NULL: nobody listens */
    void *progress_context;
};

/* So many answers at a time. */
struct tune_batch {
    int n;
    double tok_s, itl_p99_ms;
};

struct tune_precision {
    const char *name;
    bool is_measured; /* false: reason says why not */
    char reason[128];
    size_t weight_bytes;
    double perplexity, kl; /* of the text; nats a token */
    double ttft_ms;        /* of the prompt alone */
    struct tune_batch batch[TUNE_BATCHES_MAX];
    int n_batch;
    int best; /* of them: the most tokens a second within the gap; -1: none is */
};

struct tune_rate {
    int n;        /* rows of a step; threads */
    double tok_s; /* of prompts; of answers */
};

struct tune_result {
    struct tune_precision precision[MR_N_PRECISIONS]; /* [MR_PRECISION_AUTO] is not used */
    struct tune_rate chunk[TUNE_CHUNKS_MAX], threads[TUNE_THREADS_MAX];
    int n_chunk, n_threads;
    /* What was chosen. */
    int chosen; /* enum mr_precision */
    int max_batch_size, prompt_chunk, n_thread;
    bool is_within; /* all targets; else the nearest was chosen */
};

/* CANCELLED: stopped said so; *out holds what was measured until then. */
enum mr_status tune_run(struct tune_result *out, const struct tune_options *options, struct mr_error *err);

/* Append the table for people; a deployment file (docs/deployment.md). */
void tune_report(const struct tune_result *r, const struct tune_options *options, struct string_buffer *out);
void tune_write_deployment(const struct tune_result *r, const struct tune_options *options, struct string_buffer *out);

#endif
