/* prune_job.h: `millrace prune` from file to file. */
#ifndef COMPRESS_PRUNE_JOB_H
#define COMPRESS_PRUNE_JOB_H

#include "compress/importance.h"
#include "model/model.h"

struct prune_job {
    const char *in, *out;
    const char *text; /* text[n_text]; NULL: importance by weight alone */
    size_t n_text;
    enum importance importance;
    unsigned parts;           /* enum prune_part */
    double ratio;             /* share of all weights that goes; 0: not by ratio */
    bool is_global;           /* shares of the parts by what is worth least, not alike */
    int64_t n_weight;         /* or so many that stay; 0: not so */
    float threshold;          /* or those heads and channels that reach so much of their layer's best; 0: not so */
    double latency;           /* or what makes a token of an answer take so many times as long on this machine; 0: not so */
    enum precision precision; /* with which that is measured */
    int n_head_kv;            /* first merge key/value heads to so many; 0: no */
    int n_tok, n_window;      /* of the text: windows of n_tok, at most n_window of them, 0: all */
    enum quant_type type;
    int threads;
    const char *cpu;
    bool (*go_on)(void *context, const char *what, int64_t done, int64_t total); /* false: stop; NULL: nobody listens */
    void *context;
};

struct prune_result {
    struct prune_shape before, after;
    size_t n_weight_before, n_weight_after;
    double latency; /* measured; 0: it was not */
};

enum mr_status prune_job_run(struct prune_result *out, const struct prune_job *job, struct mr_error *err);

#endif
