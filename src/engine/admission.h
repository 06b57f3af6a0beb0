/* admission.h: who is let in. Requests take model tokens from a bucket (token_bucket.h): one for each row of their prompt that
 * is not cached, and for each token of their expected answer what that weighs against a prompt's row by the fitted cost of
 * steps. A request is refused only where waiting would take it past its latency target or its deadline, or the bucket is empty.
 * How many answers run together follows the load: full batches while it is low, one prompt at a time in batches no larger than
 * their steps' time allows when it is high. The measured 99th percentile corrects how much of the target predictions may use.
 * Threads: owned by the engine thread. */
#ifndef ENGINE_ADMISSION_H
#define ENGINE_ADMISSION_H

#include "base/status.h"
#include "engine/load_control.h"
#include "engine/promises.h"
#include "engine/request_record.h"
#include "engine/runners.h"
#include "engine/token_bucket.h"

struct mr_engine;
struct sequence;

enum {
    ADMISSION_SLOTS_MAX = 64, /* the most that max_running may be */
    EXPECTED_PERCENTILE = 70, /* of recent answers: what a request costs */
    LONG_PERCENTILE = 95      /* what there has to be time for */
};

/* Of requests that wait: answers, rows of prompts, tokens of answers. */
struct work {
    double n, prompt, answer;
};

/* What a key has, at its place among the shares. */
struct key_account {
    uint64_t key;
    struct token_bucket bucket;
    struct recent_lengths lengths;
    struct work waiting; /* scratch of a forecast */
};

struct admission {
    struct token_bucket bucket;
    struct key_account *account;
    int n_account;
    struct load_window offered;
    struct target_control target;
    struct promises promises;
    struct recent_lengths lengths, bound_lengths; /* of all answers, and of those that the target binds */
    double n_decode, n_prompt, attended;          /* rows of recent steps, older ones weighing less */
    struct pace pace;
    double position; /* load_position */
    double serial;   /* answers that may run at a high load */
    int cap;         /* that may run now */
    int prompts_max; /* requests whose prompts are computed at a time */
    int64_t n_refused, retry_after_ms;
};

/* n_account: requests that may wait or run. false: no memory. */
bool admission_init(struct admission *a, int n_account, int max_running);
void admission_release(struct admission *a);

/* Price the request, which has its id, arrival, deadline and share, and is not queued yet. BUSY: it is refused, the message
 * says why. OK: it has taken its tokens. */
enum mr_status admission_decide(struct mr_engine *e, struct request_record *r, int64_t now_us, struct mr_error *err);
/* FULL: the queue is. */
enum mr_status admission_refuse_full(struct mr_engine *e, struct mr_error *err);
/* Rows of the request worth n model tokens are in the batch. */
void admission_spend(struct mr_engine *e, struct request_record *r, double n);
/* The answer has its first token, or its last one. */
void admission_first_token(struct mr_engine *e, const struct sequence *s);
void admission_answer_done(struct mr_engine *e, const struct sequence *s);
/* The request is over. */
void admission_settle(struct mr_engine *e, struct request_record *r);

/* Measure what the batch was, then plan for the steps to come. */
void admission_observe(struct mr_engine *e);
void admission_plan(struct mr_engine *e);
/* Whether another answer may start now; whether this one may, beside those that run. */
bool admission_may_start(const struct mr_engine *e);

bool admission_has_target(const struct mr_engine *e); /* a latency that requests are let in by */
bool admission_is_harmless(struct mr_engine *e, const struct request_record *r);
/* Microseconds from now until when the request has to have ended; infinite: the target is not meant for it. */
double admission_until_us(const struct mr_engine *e, const struct request_record *r);
/* Tokens that `percent` of a hundred answers of its key that came as far still have at most. */
int32_t admission_answer_left(struct mr_engine *e, const struct request_record *r, int32_t done, int percent);
void admission_get_stats(const struct mr_engine *e, struct mr_engine_stats *out);

/* When a request that is not queued yet would start, have its first token, and end; microseconds from now (forecast.c). */
struct forecast {
    double start_us, first_us, end_us;
};
struct forecast admission_forecast(struct mr_engine *e, const struct request_record *r);
/* Those that run; one that does not. */
void forecast_runners(struct mr_engine *e, struct runners *out);
void forecast_runner(struct mr_engine *e, struct runner *out, const struct request_record *r);

#endif
