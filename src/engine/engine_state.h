/* engine_state.h: the parts of an engine, shared by the files that make it up.
 * A request waits as a flat record, becomes one sequence in a slot for each of its answers, and leaves as events. A step takes
 * running sequences into one ragged batch: the decoding ones first, one row each, then rows of prompts within the step's time.
 * A sequence for which there are no blocks is put aside: it keeps its slot and its tokens, gives back its blocks, and is
 * computed again when there is room. */
#ifndef ENGINE_ENGINE_STATE_H
#define ENGINE_ENGINE_STATE_H

#include "cache/block_tier.h"
#include "cache/prefix_index.h"
#include "engine/adapters.h"
#include "engine/admission.h"
#include "engine/answer.h"
#include "engine/best_of.h"
#include "engine/constraint_store.h"
#include "engine/drafter.h"
#include "engine/fair_share.h"
#include "engine/earlier_answers.h"
#include "engine/loaded_model.h"
#include "engine/model_drafter.h"
#include "engine/record_queue.h"
#include "engine/request_record.h"
#include "engine/response_store.h"
#include "engine/step_cost.h"
#include "sample/sampler.h"

/* Where drafts come from: a row each in drafts.c. */
enum draft_source {
    DRAFT_FORCED, /* by the constraint */
    DRAFT_GUEST,  /* by engine_set_drafter */
    DRAFT_PREDICTION,
    DRAFT_EARLIER, /* an answer to a prompt that is alike */
    DRAFT_NGRAM,
    DRAFT_LOOKAHEAD, /* by the model, about later tokens */
    DRAFT_MODEL,     /* by a model of its own */
    DRAFT_LAYERS,    /* by the model's first layers */
    N_DRAFT_SOURCES
};

struct sequence {
    struct request_record *request; /* NULL: the slot is free; shared by the request's answers */
    int sample;                     /* which of the request's answers */
    bool in_cache;                  /* kv is open; false: put aside, or not begun */
    kv_seq kv;
    bool is_fresh;          /* no row of its own since it entered the cache */
    struct prefix_key *key; /* of the full blocks, n_key of them so far, behind the seed; NULL: there is no prefix cache */
    int n_key;
    int fetch_from, fetch_to; /* tokens that come from the second tier; fetch_to -1: it was not asked yet */
    int fetch_group;          /* the next block's groups before it have come */
    int64_t fetch_until_us;   /* by the system's clock */
    int32_t *token;           /* the prompt and the answer so far, room for all that may come */
    int n_token, room;
    int n_cached;                        /* tokens whose keys and values are in the cache */
    int n_scored;                        /* rows of the prompt that gave its next token's logprob */
    double *pool;                        /* [n_embd] sum of hidden states; NULL: it is to be answered */
    int n_pooled;                        /* of so many positions */
    int n_computed;                      /* the most that n_cached has been: rows below are computed again */
    struct mr_logit_bias *bias;          /* the request's, then the tokens that ignore_eos or min_tokens excludes */
    int n_bias, n_early_bias;            /* from min_tokens on, and before */
    struct constraint_state *constraint; /* NULL: the answer is free */
    struct adapter_set adapters;
    struct word_ban_state ban;
    struct answer answer;
    struct mr_usage usage;
    struct draft_record drafts[N_DRAFT_SOURCES][DRAFT_GRADES];
    void *draft_state[N_DRAFT_SOURCES]; /* each drafter's own */
    bool window_is_faulty;              /* NaN came up in one: no more of them */
    int64_t start_us, first_us;
    /* in the present step: */
    int n_row;   /* with the drafts */
    int n_draft; /* which stand at token[n_token] until the sampler has spoken */
    enum draft_source draft_source;
    int draft_grade;
    double draft_cost;  /* of each of them, in tokens without drafts; 0: not known */
    bool draft_is_lent; /* by the engine's purse */
    bool has_window;    /* rows in a sequence of their own (windows.c): */
    kv_seq window_kv;
    int first_window;           /* of the batch's logits, those of its guesses */
    int first_logits, n_score;  /* of the batch's logits, those of prompt tokens */
    int first_hidden, n_hidden; /* of the batch's hidden states */
    int logits; /* which of the batch's logits are for its next token, those behind drafts follow; -1: none yet */
};

/* Event as it lies in the queue: then n_top mr_logprob, n_embedding floats, n_text bytes, n_error bytes. */
struct event_record {
    uint64_t request;
    int32_t sample;
    int32_t token;
    int32_t finish; /* enum mr_finish */
    int32_t status; /* enum mr_status, with MR_FINISH_ERROR */
    bool is_prompt;
    float logprob;
    struct mr_usage usage;
    int32_t n_top;
    int32_t n_embedding;
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
    struct prefix_index *prefixes; /* NULL: off */
    struct response_store responses;
    struct earlier_answers earlier;
    struct block_tier *tier; /* NULL: none */
    double copy_us_per_byte; /* in and out of it, measured; 0: not yet */
    struct sampler *sampler;
    struct constraint_store constraints;
    struct sequence *slot; /* max_running of them, then as many for background requests: n_slot */
    int n_slot;
    struct request_record **waiting; /* room for max_queue, in order of arrival */
    int n_waiting;
    uint64_t next_id;
    struct record_queue events;
    struct contest *contests;                         /* requests whose answers are held back */
    struct model_drafter *draft_model, *draft_layers; /* NULL: none */
    struct lookup_memory lookup;
    struct drafter drafter[N_DRAFT_SOURCES];          /* propose NULL: none */
    double draft_rate[N_DRAFT_SOURCES][DRAFT_GRADES]; /* over answers */
    struct draft_purse draft_purse;
    struct fair_share shares[2]; /* [request_record.background]: those requests compete among themselves alone */
    struct step_cost cost;
    struct admission admission;
    int64_t now_us;   /* read before and behind the forward pass of a step */
    int64_t ended_us; /* when the last step ended; 0: nothing was left to do */
    /* the batch, prompt_chunk rows or at least max_running */
    int max_row;
    int32_t *row_token;
    kv_seq *row_seq;
    bool *row_wants_logits, *row_wants_hidden;
    const struct adapter_set **row_adapters;
    int n_row, n_logits, n_hidden;
    struct step_shape shape;
    int64_t draft_us;        /* of the step's time, what models took to guess */
    double step_budget_us;   /* of streams and prompts, where there are streams */
    bool is_background_step; /* its rows are background requests' */
    int32_t (*replay)(void *context, uint64_t request, int32_t n_generated); /* replay.h; NULL: none */
    void *replay_context;
    int64_t others_us;     /* when a step last had rows of others; long ago: none had */
    int *order;            /* [n_slot] slots, scratch */
    struct draft_ask *ask; /* [n_slot] scratch */
    uint64_t *allowed;     /* a mask of the vocabulary, scratch */
    struct mr_engine_stats stats;
};

int64_t engine_now_us(const struct mr_engine *e);

/* Nothing waits or runs but for background requests. */
bool engine_has_only_background(const struct mr_engine *e);

/* Queue the event of a token or an end. text may be NULL. NO_MEMORY: nothing was queued. */
enum mr_status engine_emit(struct mr_engine *e, const struct event_record *event, const struct mr_logprob *top,
                           const char *text);
/* The same with n_embedding floats and nothing else. */
enum mr_status engine_emit_embedding(struct mr_engine *e, const struct event_record *event, const float *embedding);
size_t event_bytes(const struct event_record *event); /* with all that follows it */
/* Into room that was reserved. error: at most MR_ERROR_MAX bytes with its NUL, or NULL. */
void event_push_end(struct record_queue *q, struct event_record event, const char *error);
/* Queue the end of an answer whose room was reserved when it was submitted; error may be NULL. */
void engine_emit_end(struct mr_engine *e, struct event_record event, const char *error);

/* One answer of the request has ended, its last event is queued: with the last one the record is freed. */
void engine_answer_ended(struct mr_engine *e, struct request_record *request);
/* Take the i-th waiting request out of the queue. */
struct request_record *engine_leave_queue(struct mr_engine *e, int i);
/* End the answers that the i-th waiting request has not begun, and take it out of the queue. */
void engine_end_waiting(struct mr_engine *e, int i, enum mr_finish finish);
/* End those whose constraint could not be compiled, with what was wrong. */
void engine_end_refused(struct mr_engine *e);

/* What answers obey (obey.c). Whether the prompt's last token is taken back. */
bool engine_heals(const struct mr_engine *e, const struct mr_request *request);
/* Have compiled what the request's answers obey. request: as it came, with the token that was taken back. On failure what was
 * taken is still to be left. */
enum mr_status engine_take_stored(struct mr_engine *e, struct request_record *record, const struct mr_request *request,
                                  struct mr_error *err);
void engine_leave_stored(struct mr_engine *e, const struct request_record *record);
bool engine_is_ready(const struct request_record *record);                                 /* all of it is compiled */
const struct stored_constraint *engine_failed_stored(const struct request_record *record); /* what could not be; or NULL */
enum mr_status sequence_start_obeying(struct sequence *s, struct mr_error *err);
/* *mask: the tokens that may come next (token_trie.h), valid until the next call for any sequence; NULL: all. */
enum mr_status sequence_allowed(struct mr_engine *e, struct sequence *s, const uint64_t **mask, struct mr_error *err);
/* The token was chosen. */
enum mr_status sequence_obey(struct sequence *s, int32_t token, struct mr_error *err);

/* Begin the request's next answer in a free slot, outside the cache. On failure the slot stays free. */
enum mr_status sequence_start(struct mr_engine *e, struct sequence *s, struct request_record *request, struct mr_error *err);
/* Free the slot; the answer's last event has been queued. */
void sequence_release(struct mr_engine *e, struct sequence *s);
/* End the answer with an event without text. */
void sequence_end(struct mr_engine *e, struct sequence *s, enum mr_finish finish);
void sequence_fail(struct mr_engine *e, struct sequence *s, enum mr_status status, const struct mr_error *err);

/* Open a sequence in the cache with what the prefix cache has of the tokens; there is one for each slot. */
void sequence_enter_cache(struct mr_engine *e, struct sequence *s);
/* Tokens of the request's prompt that the prefix cache has now. */
int sequence_count_cached(const struct mr_engine *e, const struct request_record *r);
/* Keep the blocks of a request's prompt, which has just been computed. */
enum mr_status sequence_pin(struct mr_engine *e, const struct mr_request *request, struct mr_error *err);
/* The key in front of a request's first block: of the model, the adapters and the tenant. */
void sequence_seed(const struct mr_engine *e, const struct request_record *r, struct prefix_key *out);
/* Look again, for one that has no row of its own yet. */
void sequence_match_prefix(struct mr_engine *e, struct sequence *s);
/* The same, and fetch what the second tier has. true: it has not all come yet, no rows in this step. */
bool sequence_waits_for_prefix(struct mr_engine *e, struct sequence *s);
/* Rows have been computed up to n_cached: blocks that became full since n_before are for others to share. */
void sequence_publish(struct mr_engine *e, struct sequence *s, int n_before);
/* Give back the blocks; the tokens stay. */
void sequence_leave_cache(struct mr_engine *e, struct sequence *s);
/* The same, to make room for others. */
void sequence_put_aside(struct mr_engine *e, struct sequence *s);

/* Whether a is served before b: higher priority, then the earlier request, then the lower answer. A total order, so that
 * whoever comes first in it always gets on. */
bool sequence_is_senior(const struct sequence *a, const struct sequence *b);

/* The shorter first, with age: when n rows of the request are due. A prompt goes behind what arrives within twice its own
 * duration. Where a latency target is kept all have as long, and the earlier is due first: else those who were let in because
 * they are short would pass others who were let in before, and make them late. */
double schedule_due_us(const struct mr_engine *e, const struct request_record *request, int n);

/* End what is past its deadline; then let in who waits, as far as slots, blocks and the policy allow (schedule.c). */
void schedule_admit(struct mr_engine *e);

/* The sources that the options ask for. */
void drafts_create(struct mr_engine *e);
/* Those that are models; the cache is there. */
enum mr_status drafts_create_models(struct mr_engine *e, struct mr_error *err);
void drafts_free_models(struct mr_engine *e);
size_t drafts_kv_bytes(const struct mr_engine *e); /* of a draft model: all blocks, and what is held for answers */
size_t drafts_kv_bytes_in_use(const struct mr_engine *e);
/* For an answer that begins; and when it ends. */
void drafts_start(struct mr_engine *e, struct sequence *s);
void drafts_end(struct mr_engine *e, struct sequence *s);
/* Guesses from answers to earlier prompts (earlier_drafter.c); and keep this one, which ends. */
struct drafter earlier_drafter(struct mr_engine *e);
void earlier_drafter_note(struct mr_engine *e, const struct sequence *s);
/* Ask another drafter where the constraint forces nothing. */
void engine_set_drafter(struct mr_engine *e, const struct drafter *drafter);
/* The sequence gives up its place in the cache. */
void drafts_leave_cache(struct mr_engine *e, struct sequence *s);
/* Drafts that a step beside `plain`, its decoding rows, has time, rows and logits for (drafts.c). */
int drafts_room(const struct mr_engine *e, const struct step_shape *plain, int n_running);
/* Put up to `room` drafts behind the tokens of the first n sequences of e->order, n_draft of each. */
void drafts_propose(struct mr_engine *e, int n, const struct step_shape *plain, int room);
/* The first n_accepted of the sequence's drafts were what the sampler chose. */
void drafts_judge(struct mr_engine *e, struct sequence *s, int n_accepted);

/* Windows of lookahead (windows.c): whether the sequence is to have one in this step, of `room` rows. */
bool windows_want(struct mr_engine *e, struct sequence *s, const struct step_shape *plain, int room);
/* Put its rows behind the sequence's own; has_window becomes false where there are no blocks. */
void windows_add(struct mr_engine *e, struct sequence *s);
/* The model has run: learn from the rows, and close it. */
void windows_take(struct mr_engine *e, struct sequence *s);
void windows_close(struct mr_engine *e, struct sequence *s);

/* Logprobs of prompts (prompt_scores.c): whether some are still to come, and from the row of a position. */
bool sequence_has_scores(const struct sequence *s);
bool sequence_scores(const struct sequence *s, int position);
/* Of n rows of a prompt, as many as there are logits for. */
int scores_rows(const struct mr_engine *e, const struct sequence *s, int n);
enum mr_status scores_take(struct mr_engine *e, struct sequence *s, struct mr_error *err);

/* Embeddings (pooling.c): the hidden state at the position is needed; those of all positions are, and some are to come. */
bool sequence_pools(const struct sequence *s, int position);
bool sequence_pools_all(const struct sequence *s);
enum mr_status pooling_start(const struct mr_engine *e, struct sequence *s, struct mr_error *err);
void pooling_take(struct mr_engine *e, struct sequence *s);
/* Tell the vector, and end the sequence. */
void pooling_end(struct mr_engine *e, struct sequence *s);

/* Make room for n more tokens, at the cost of cached prefixes alone. */
bool batch_reserve_idle(struct mr_engine *e, kv_seq seq, int n);
/* The same, at the cost of cached prefixes, then of those that are junior to s. */
bool batch_make_room(struct mr_engine *e, struct sequence *s, int n);

/* Microseconds that a step has for rows of prompts beside answers that take so long. */
double batch_prompt_us(const struct mr_engine *e, double streams_us);
/* Choose the rows of the step (batch.c). */
struct batch batch_build(struct mr_engine *e);

#endif
