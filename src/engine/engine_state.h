/* engine_state.h: the parts of an engine, shared by the files that make it up.
 * A request waits as a flat record, becomes a sequence in a slot, and leaves as events. A step takes all running sequences
 * into one ragged batch: the decoding ones first, one row each, then rows of prompts. */
#ifndef ENGINE_ENGINE_STATE_H
#define ENGINE_ENGINE_STATE_H

#include "engine/answer.h"
#include "engine/constraint_store.h"
#include "engine/loaded_model.h"
#include "engine/record_queue.h"
#include "engine/request_record.h"
#include "sample/sampler.h"

struct sequence {
    struct request_record *request; /* NULL: the slot is free */
    kv_seq kv;
    int32_t *token; /* the prompt and the answer so far, room for all that may come */
    int n_token, room;
    int n_cached;               /* tokens whose keys and values are in the cache */
    struct mr_logit_bias *bias; /* the request's, and the tokens that ignore_eos excludes */
    int n_bias;
    struct stored_constraint *stored; /* NULL: the answer is free */
    struct constraint_state *constraint;
    struct answer answer;
    struct mr_usage usage;
    int64_t start_us, first_us;
    /* in the present step: */
    int n_row;
    int logits; /* which of the batch's logits are for its next token; -1: none yet */
};

/* Event as it lies in the queue: then n_top mr_logprob, n_text bytes, n_error bytes. */
struct event_record {
    uint64_t request;
    int32_t sample;
    int32_t token;
    int32_t finish; /* enum mr_finish */
    float logprob;
    struct mr_usage usage;
    int32_t n_top;
    uint32_t n_error; /* with its NUL */
    size_t n_text;
};

enum {
    LAST_EVENT_BYTES = sizeof(struct event_record) + MR_ERROR_MAX /* an end without text; always reserved */
};

struct mr_engine {
    struct mr_model *model;
    struct mr_options options;
    int n_ctx;
    struct model_kv *kv;
    struct sampler *sampler;
    struct constraint_store constraints;
    struct sequence *slot;           /* max_running of them */
    struct request_record **waiting; /* a ring of max_queue places, the oldest first */
    int first_waiting, n_waiting;
    uint64_t next_id;
    struct record_queue events;
    /* the batch, prompt_chunk rows or at least max_running */
    int max_row;
    int32_t *row_token;
    kv_seq *row_seq;
    bool *row_wants_logits;
    int n_logits;
};

int64_t engine_now_us(const struct mr_engine *e);

/* Queue the event of a token or an end. text may be NULL. NO_MEMORY: nothing was queued. */
enum mr_status engine_emit(struct mr_engine *e, const struct event_record *event, const struct mr_logprob *top,
                           const char *text);
/* Queue the end of a request whose room was reserved when it was submitted; error may be NULL. */
void engine_emit_end(struct mr_engine *e, struct event_record event, const char *error);

/* The compiled constraint of the request; NULL where it has none. Give it back with constraint_store_leave. */
enum mr_status engine_take_constraint(struct mr_engine *e, const struct request_record *request, struct stored_constraint **out,
                                      struct mr_error *err);

/* Move a waiting request into a free slot. On failure the slot stays free; the request is the caller's again. */
enum mr_status sequence_start(struct mr_engine *e, struct sequence *s, struct request_record *request, struct mr_error *err);
/* Free the slot and the request; its last event has been queued. */
void sequence_release(struct mr_engine *e, struct sequence *s);

#endif
