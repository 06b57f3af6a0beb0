/* distill_job.h: `millrace distill` from files to a file: opens student, teacher and text, checks that they fit each other
 * before any work is done, trains, and writes the student. */
#ifndef COMPRESS_DISTILL_JOB_H
#define COMPRESS_DISTILL_JOB_H

#include "compress/distill.h"

struct distill_job {
    const char *student, *teacher; /* files; teacher NULL: none */
    int n_head;                    /* heads for speculation, trained in the student's place; 0: none */
    bool is_eagle;                 /* or one in the style of EAGLE */
    int lora_rank;                 /* of an adapter, trained in the student's place; 0: none */
    float lora_alpha;              /* 0: twice the rank */
    const char *lora_targets;      /* as lora_targets_parse; NULL: all */
    const char *text;              /* text[n_text], plain */
    size_t n_text;
    const char *out;
    enum quant_type type; /* of the file written: f32, f16 or bf16 */
    int n_tok, n_held_out;
    uint64_t seed;
    int threads;                    /* 0: one for each CPU */
    const char *cpu;                /* as MILLRACE_CPU, NULL: this machine */
    bool wants_peak;                /* measure the machine, so that MFU is known */
    struct distill_options options; /* models, windows, pool, features and peak are filled in */
};

/* The steps' figures are in *curve, also after an error; the caller frees curve->point. */
enum mr_status distill_job_run(struct distill_job *job, struct curve *curve, int64_t *first_step, struct mr_error *err);

#endif
