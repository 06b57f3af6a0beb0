/* request_record.h: a request as one flat piece of memory, so that a queue of requests may as well be a socket: what the engine
 * adds to it comes behind the queue. */
#ifndef ENGINE_REQUEST_RECORD_H
#define ENGINE_REQUEST_RECORD_H

#include "base/status.h"

struct stored_constraint;

struct request_record {
    uint64_t id;
    int64_t arrival_us;
    struct mr_sampling sampling;
    int32_t n_prompt;
    int32_t max_tokens;
    int32_t n_bias;
    int32_t n_stop_token;
    int32_t n_stop;
    int32_t min_tokens;
    int32_t constraint; /* enum mr_constraint */
    int32_t n_constraint;
    int32_t n_salt;
    int32_t n_adapter;
    int32_t n_bad_word; /* bytes, each word with its NUL */
    int32_t prompt_logprobs;
    int32_t speculation; /* enum mr_speculation */
    int32_t n_prediction;
    int32_t pooling;  /* enum mr_pooling */
    int32_t n_return; /* answers that are returned, of the n */
    int32_t n;        /* answers */
    int32_t priority;
    uint64_t key;
    int64_t deadline_us; /* INT64_MAX: none */
    bool ignore_eos;
    bool show_special;
    bool show_end; /* tokens that end a generation, too */
    bool normalize;
    /* the engine's: */
    int32_t n_started;                   /* answers that have left the queue */
    int32_t n_open;                      /* answers that have not ended */
    int32_t share;                       /* the key's place among the shares */
    struct stored_constraint *stored[3]; /* by enum stored_role; NULL: there is none */
    int32_t n_retry;
    bool background;         /* gets what others leave */
    int32_t n_uncached;      /* rows of the prompt that the cache did not have when it was let in */
    int32_t expected_answer; /* tokens; of what it costs */
    int32_t longest_answer;  /* of recent ones, at most max_tokens; of what it must have time for */
    double cost_left;        /* model tokens that it took and has not used */
    bool is_bound;           /* the latency target is meant for it */
    /* behind it: n_prompt token ids, n_bias entries, n_stop_token ids, n_adapter entries, n_prediction
     * ids, n_stop strings with their NUL,
     * n_constraint bytes, n_salt bytes, n_bad_word bytes */
};

/* What a request must not exceed. */
struct request_limits {
    int n_vocab;
    int n_ctx;
};

/* Check and copy. BAD_INPUT names the field. Free with free(). */
enum mr_status request_record_create(struct request_record **out, const struct mr_request *request,
                                     const struct request_limits *limits, struct mr_error *err);

/* What the cache has of its prompt is computed again. */
bool request_record_needs_all_rows(const struct request_record *r);
const int32_t *request_record_prompt(const struct request_record *r);
const struct mr_logit_bias *request_record_bias(const struct request_record *r);
const int32_t *request_record_stop_token(const struct request_record *r);
const struct mr_adapter_use *request_record_adapter(const struct request_record *r);
const int32_t *request_record_prediction(const struct request_record *r);
/* stop[i] = the i-th stop string, borrowed. */
void request_record_stop(const struct request_record *r, const char *stop[MR_STOP_MAX]);
const char *request_record_constraint(const struct request_record *r); /* n_constraint bytes, no NUL */
const char *request_record_salt(const struct request_record *r);       /* n_salt bytes, no NUL */
const char *request_record_bad_word(const struct request_record *r);   /* n_bad_word bytes */

#endif
