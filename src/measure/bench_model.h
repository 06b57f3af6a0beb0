/* bench_model.h: a model opened for a benchmark: without its tokenizer, for batches as large as the cases ask for. */
#ifndef MEASURE_BENCH_MODEL_H
#define MEASURE_BENCH_MODEL_H

#include <stdatomic.h>

#include "base/thread_pool.h"
#include "format/gguf.h"
#include "model/model.h"

struct bench_model {
    const char *path; /* borrowed */
    struct gguf *file;
    struct thread_pool *pool;
    struct device *device;
    struct model *model;
    double load_s;               /* weights read and packed */
    struct adapter_set *adapter; /* [n_adapter], one in each; rows take them in turn */
    int n_adapter;
};

struct bench_model_options {
    int n_threads;
    unsigned cpu_features;
    enum precision precision;
    bool kv_int8;
    bool pin;
    bool unfused, untiled;
    int max_row;             /* rows of a step */
    int max_logits;          /* rows of it that ask for logits */
    int n_seq;               /* sequences at a time */
    int max_token;           /* tokens of the longest */
    int n_ctx;               /* context in tokens that the user allows; 0: what the model was trained for */
    const atomic_bool *stop; /* looked at while the weights load; may be NULL */
};

/* BAD_INPUT: max_token passes the context, or weights, activations, keys and values the free memory; the message has the
 * numbers. Nothing is loaded before that is known. CANCELLED: *stop became true. Release in any case. */
enum mr_status bench_model_open(struct bench_model *out, const char *path, const struct bench_model_options *options,
                                struct mr_error *err);
/* One more adapter, of a GGUF file. */
enum mr_status bench_model_adapter(struct bench_model *m, const char *path, float scale, struct mr_error *err);
void bench_model_release(struct bench_model *m);

#endif
