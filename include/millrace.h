/* millrace.h: the public C API of the inference engine: open a model, create an engine over it, submit requests, step, and
 * take the events. Nothing here prints, exits or keeps global state.
 * Includes nothing of ours, so that a program needs only this file and the library. */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_STATUS_MAP(X)                                                                                                       \
    X(OK, "success")                                                                                                           \
    X(NO_MEMORY, "allocation failed")                                                                                          \
    X(BAD_FORMAT, "file is damaged or not of this format")                                                                     \
    X(NO_SUPPORT, "valid, but this build cannot run it")                                                                       \
    X(BAD_INPUT, "a parameter or an input text is wrong")                                                                      \
    X(NOT_FOUND, "no such file, key or tensor")                                                                                \
    X(IO, "reading or writing failed")                                                                                         \
    X(FULL, "no room now; retry after something is freed")                                                                     \
    X(CANCELLED, "stopped on request")                                                                                         \
    X(BUSY, "the wait would be too long; retry later")

enum mr_status {
#define X(name, text) MR_##name,
    MR_STATUS_MAP(X)
#undef X
};

enum {
    MR_ERROR_MAX = 512
};

/* What went wrong, for a person: lower case, no full stop, the problem first, naming the key,
 * tensor, field or parameter. Every function that takes one accepts NULL. */
struct mr_error {
    char message[MR_ERROR_MAX];
};

/* The general meaning of a status; never NULL. */
const char *mr_status_text(enum mr_status status);

/* How a token is chosen. Order of the steps: logit bias, penalties, top_k, typical_p, top_p, min_p, temperature, then
 * one of what is left, drawn with random numbers that depend on seed, sample, position and token id alone. */
struct mr_sampling {
    float temperature;       /* 0 to 100; 0: always the likeliest token */
    int32_t top_k;           /* keep the k likeliest; 0: all */
    float top_p;             /* 0 to 1: keep the likeliest whose probabilities reach this sum; 1: all */
    float min_p;             /* 0 to 1: keep what has this share of the likeliest token's probability; 0: all */
    float typical_p;         /* 0 to 1: keep the most typical whose probabilities pass this sum; 1: all */
    float repeat_penalty;    /* 0.01 to 100: divides positive, multiplies negative logits of recent tokens; 1: off */
    float presence_penalty;  /* -100 to 100: subtracted once from the logit of each recent token */
    float frequency_penalty; /* -100 to 100: subtracted for each time that it occurs */
    int32_t repeat_last_n;   /* how many tokens count as recent, prompt included; -1: all, 0: none */
    int32_t n_logprobs;      /* 0 to 20: alternatives reported with each token; -1: no logprobs at all */
    uint64_t seed;
};

enum {
    MR_TOP_LOGPROBS_MAX = 20,
    MR_LOGIT_BIAS_MAX = 1024 /* entries of one request */
};

/* Added to the logit of a token; -100 to 100, or minus infinity: never. */
struct mr_logit_bias {
    int32_t token;
    float bias;
};

struct mr_logprob {
    int32_t token;
    float logprob; /* natural logarithm; not below -9999 */
};

/* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, nothing else, seed 0, no logprobs. */
void mr_sampling_defaults(struct mr_sampling *s);

/* The arithmetic of the products. */
enum mr_precision {
    MR_PRECISION_AUTO, /* int8 for quantised weights */
    MR_PRECISION_FP32,
    MR_PRECISION_BF16,
    MR_PRECISION_FP16,
    MR_PRECISION_INT8,
    MR_PRECISION_INT4,
    MR_N_PRECISIONS
};

/* When waiting requests join those that run. */
enum mr_batching {
    MR_BATCHING_CONTINUOUS, /* at every step */
    MR_BATCHING_NONE,       /* one request at a time */
    MR_BATCHING_STATIC,     /* when all that ran together have ended */
    MR_BATCHING_DYNAMIC,    /* the same, once max_running wait or the oldest has waited for batch_window_ms */
    MR_N_BATCHINGS
};

/* How sequences get key/value memory. */
enum mr_kv_policy {
    MR_KV_PAGED,   /* in blocks, as tokens come; prompts share them */
    MR_KV_RESERVE, /* the longest sequence's from the beginning; nothing is shared */
    MR_KV_GROW,    /* twice as much when it is full, and a copy of what is there; nothing is shared */
    MR_N_KV_POLICIES
};

/* What latency_target_ms is about. */
enum mr_latency {
    MR_LATENCY_TTFT, /* the first token */
    MR_LATENCY_E2E,  /* the whole answer */
    MR_N_LATENCIES
};

enum {
    MR_CTX_DEFAULT_MAX = 32768 /* a longer context is had by asking for it */
};

/* Where guesses of an answer's next tokens come from (docs/speculation.md). Several tokens are scored in one step; no result
 * depends on it. */
enum mr_speculation {
    MR_SPECULATION_AUTO,      /* whatever pays, as measured while the answer is generated */
    MR_SPECULATION_OFF,       /* one token a step */
    MR_SPECULATION_DRAFT,     /* a smaller model of the same vocabulary */
    MR_SPECULATION_NGRAM,     /* what came after the same words before, in the prompt or the answer */
    MR_SPECULATION_REFERENCE, /* the request's prediction, and answers to earlier requests like it */
    MR_SPECULATION_LOOKAHEAD, /* guesses that the model makes about later tokens while it scores the next one */
    MR_SPECULATION_LAYERS,    /* the model's own first layers */
    MR_SPECULATION_HEADS,     /* heads that were trained for the model */
    MR_SPECULATION_NONE,      /* another name of OFF */
    MR_N_SPECULATIONS
};
const char *mr_speculation_text(enum mr_speculation speculation); /* "auto", ... */

struct mr_options {
    int32_t threads;      /* that compute, the caller's included; 0: as many as CPUs may be used; 1 to 1024 */
    int32_t precision;    /* enum mr_precision */
    int32_t kv_int8;      /* 1: keys and values in int8, half the memory; 0: as the precision says */
    int32_t n_ctx;        /* tokens of one sequence, prompt and answer; 0: the model's own, at most MR_CTX_DEFAULT_MAX */
    int32_t prompt_chunk; /* prompt rows of one step; 1 to 65536; results do not depend on it */
    int32_t max_running;  /* sequences that are computed at a time; 1 to 64 */
    int32_t max_queue;    /* requests that may wait; 1 to 65536 */
    int32_t fusion_off;   /* 1: ops run step by step, as a reference; the same results, slower */
    int32_t pin;          /* 1: each thread that computes, but the caller's, stays on a CPU of its own */

    int32_t kv_tokens;     /* tokens of all sequences that the cache holds; 0: max_running sequences of n_ctx */
    int32_t itl_target_ms; /* while answers are generated a step takes prompt rows for so long at most; 0: prompt_chunk rows */
    int32_t priority_age_ms; /* who has waited so long counts as one priority higher, again and again; 0: never */
    int32_t batching;        /* enum mr_batching */
    int32_t batch_window_ms; /* 0 to 60000 */
    int32_t kv_policy;       /* enum mr_kv_policy; results do not depend on it */
    bool prefix_cache;       /* prompts that begin like earlier ones share their blocks; results do not depend on it */
    int32_t speculation;     /* enum mr_speculation; NO_SUPPORT names a method that this build lacks */
    const char *draft_model; /* file of a smaller model of the same vocabulary, opened with the model; NULL: none */
    int32_t draft_layers;    /* first layers of the model that guess; 0: a quarter of them */
    size_t reference_bytes; /* of answers to earlier prompts, from which those to prompts that are alike are guessed; 0: none */
    int32_t draft_tokens;   /* guesses of one answer in one step; 0 to MR_DRAFT_TOKENS_MAX */
    bool forced_drafts; /* text that a constraint leaves no choice about is scored several tokens a step; results do not depend
                           on it */

    int32_t pin_tokens;      /* room in the cache for prompts of mr_engine_pin, beside kv_tokens; 0 to MR_PIN_TOKENS_MAX */
    size_t response_bytes;   /* of whole answers that are given again to equal requests; 0: every request is computed */
    size_t cache_host_bytes; /* host memory for blocks that leave the cache; 0: none, or 256 MiB where there is cache_dir */
    size_t cache_bytes;      /* of files in cache_dir, the least recently used of which are removed */
    const char *cache_dir;   /* folder for them, which outlives the engine; made where it is missing; NULL: none */

    /* Admission (docs/admission.md). What is refused does not depend on results, nor results on it. */
    bool admission;            /* refuse what would wait too long; false: let in all that max_queue has room for */
    int32_t latency_target_ms; /* 0: none; up to an hour */
    int32_t latency_metric;    /* enum mr_latency */
    float low_load, high_load; /* 0 to 1000, shares of the capacity: batches are full below, serial above; low <= high */
    int32_t bucket_capacity;   /* model tokens of work that may be let in and not done; 0: as much as the target has time for */

    const char *cpu; /* instruction set to stay within ("avx2"); NULL: the best this CPU has */

    /* Called before the weights load and every few megabytes, with bytes done and in all. false: do not go on. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *progress_context;

    /* Monotonic microseconds; NULL: the system's clock. */
    int64_t (*clock_us)(void *context);
    void *clock_context;
};

/* threads 0, precision auto, kv_int8 0, n_ctx 0, pin 0, prompt_chunk 512, max_running 1, max_queue 512, kv_tokens 0,
 * itl_target_ms 50, priority_age_ms 2000, batching continuous, batch_window_ms 20, kv_policy paged, prefix_cache true,
 * speculation auto, reference_bytes 4 MiB, draft_tokens 16, forced_drafts true, pin_tokens 0, response_bytes 0,
 * cache_host_bytes 0, cache_bytes 4 GiB, admission true, latency_target_ms 0, latency_metric ttft, low_load 0.6, high_load 0.8,
 * bucket_capacity 0, the rest NULL. */
void mr_options_defaults(struct mr_options *options);

/* A model file with its tokenizer. Threads: one thread at a time, of those that use it or an engine over it; tokenising
 * may go on beside them. */
struct mr_model;

/* *out is NULL on failure. The options are copied; the message of an error names the file and what is wrong in it.
 * CANCELLED: progress said not to go on. */
enum mr_status mr_model_open(struct mr_model **out, const char *path, const struct mr_options *options, struct mr_error *err);
/* Write the model to a file that opens without unpacking: its weights lie as this machine's products at this precision read
 * them, and are mapped; nobody may cut it while it is open. Another machine or precision refuses such a file. progress: as in
 * mr_options, or NULL. BAD_INPUT: the model is packed already. */
enum mr_status mr_model_pack(const struct mr_model *model, const char *path,
                             bool (*progress)(void *context, size_t done, size_t total), void *progress_context,
                             struct mr_error *err);
void mr_model_close(struct mr_model *model); /* takes NULL; its engines have been freed */

struct mr_model_info {
    const char *family;    /* "llama", borrowed from the model */
    const char *precision; /* "int8" */
    int32_t n_vocab;
    int32_t n_ctx_train; /* tokens of context that it was trained for */
    int32_t n_embd;      /* floats of an embedding */
    int32_t pooling;     /* enum mr_pooling that its file states, else that of the last token */
    int64_t n_parameters;
    size_t weight_bytes;
    int32_t threads;      /* in use */
    size_t adapter_bytes; /* of the adapters that are loaded */
};
void mr_model_info(const struct mr_model *model, struct mr_model_info *out);

/* Token ids of a text, for a request. special: control tokens written in the text become their ids. Free *ids with
 * mr_tokens_free. */
enum mr_status mr_tokenize(const struct mr_model *model, const char *text, size_t n, bool special, int32_t **ids,
                           int32_t *n_ids, struct mr_error *err);
void mr_tokens_free(int32_t *ids);

enum {
    MR_STOP_MAX = 64,         /* stop strings of one request */
    MR_STOP_BYTES_MAX = 4096, /* of one stop string */
    MR_STOP_TOKENS_MAX = 64,
    MR_SALT_BYTES_MAX = 4096,
    MR_BAD_WORDS_MAX = 64, /* of one request */
    MR_BAD_WORD_BYTES_MAX = 256,
    MR_N_MAX = 128,
    MR_PIN_TOKENS_MAX = 1 << 24,
    MR_PRIORITY_MAX = 100,
    MR_DRAFT_TOKENS_MAX = 16, /* guesses of one answer in one step */
    MR_ADAPTERS_MAX = 8       /* of one request */
};

/* A LoRA adapter over a model (docs/adapters.md): loaded and unloaded at any time between steps, merged nowhere. Requests
 * name it by its id, which is not given twice. Its memory counts as the model's. */
struct mr_adapter_info {
    size_t bytes;
    int32_t rank;       /* the greatest of its products */
    int32_t n_products; /* that it adds to */
    float alpha;
    int32_t n_requests; /* that have not ended and name it */
};
/* *id is 0 on failure; the message names the file, and the key, tensor, shape or rank that does not fit the model. */
enum mr_status mr_adapter_load(struct mr_model *model, const char *path, int32_t *id, struct mr_error *err);
/* No further request may name it; its memory is freed once those that do have ended. NOT_FOUND: no such adapter. */
enum mr_status mr_adapter_unload(struct mr_model *model, int32_t id, struct mr_error *err);
enum mr_status mr_adapter_info(const struct mr_model *model, int32_t id, struct mr_adapter_info *out, struct mr_error *err);

struct mr_adapter_use {
    int32_t adapter; /* its id */
    float scale;     /* -100 to 100, times the adapter's own alpha / rank; 0: it adds nothing */
};

/* What the answer obeys (docs/constraints.md). An answer that ends with MR_FINISH_STOP, and not at a stop string, obeys in
 * full. */
enum mr_constraint {
    MR_CONSTRAINT_NONE,
    MR_CONSTRAINT_JSON_SCHEMA,
    MR_CONSTRAINT_JSON_OBJECT, /* any JSON object; no text */
    MR_CONSTRAINT_REGEX,       /* the whole answer matches */
    MR_CONSTRAINT_GRAMMAR,     /* GBNF */
    MR_CONSTRAINT_CALLS        /* calls of functions; the text of mr_calls_constraint */
};

/* Calls of functions (docs/tool-calls.md): what an answer may call, the constraint that makes it so, and what it called. */
struct mr_calls;

struct mr_calls_options {
    const char *tools;         /* JSON, as the `tools` of OpenAI's API; NULL: none */
    const char *choice;        /* "auto", "none", "required", or the name of a function; NULL: auto */
    bool parallel;             /* more than one call is possible */
    const char *format;        /* of calls, by name; NULL: that of the chat template */
    const char *chat_template; /* its text; NULL: none */
    bool reasoning_begun;      /* the prompt ends where the template opens the reasoning */
};

/* *out is NULL on failure. Without tools an answer is only split into reasoning and content. BAD_INPUT names the field.
 * What of a schema cannot be enforced is told when a request with the constraint is. */
enum mr_status mr_calls_create(struct mr_calls **out, const struct mr_calls_options *options, struct mr_error *err);
void mr_calls_free(struct mr_calls *calls); /* takes NULL; its parsers have been freed */
/* For a request with MR_CONSTRAINT_CALLS; NULL: nothing may be called, and the request needs no constraint. Borrowed. */
const char *mr_calls_constraint(const struct mr_calls *calls);
const char *mr_calls_format(const struct mr_calls *calls); /* "hermes" */

/* Splits the texts of an answer's events. However they are cut, its pieces join to the same; it never fails for what an answer
 * says: what it cannot read is content. */
struct mr_call_parser;

enum mr_piece_kind {
    MR_PIECE_CONTENT,
    MR_PIECE_REASONING,
    MR_PIECE_CALL,      /* a call begins; the text is the function's name, whole */
    MR_PIECE_ARGUMENTS, /* the next bytes of its arguments, a JSON object */
    MR_PIECE_CALL_END   /* it is complete, its arguments are JSON; no text */
};

struct mr_piece {
    enum mr_piece_kind kind;
    int32_t call; /* of the answer, from 0 on; of the last three kinds */
    const char *text;
    size_t n_text;
};

enum mr_status mr_call_parser_create(struct mr_call_parser **out, const struct mr_calls *calls, struct mr_error *err);
void mr_call_parser_free(struct mr_call_parser *parser); /* takes NULL */
/* The next text. NO_MEMORY. */
enum mr_status mr_call_parser_feed(struct mr_call_parser *parser, const char *text, size_t n, struct mr_error *err);
/* The answer has ended. A call without MR_PIECE_CALL_END was cut. */
enum mr_status mr_call_parser_end(struct mr_call_parser *parser, struct mr_error *err);
/* The oldest piece not yet taken, borrowed until the next call. false: there is none. */
bool mr_call_parser_next(struct mr_call_parser *parser, struct mr_piece *out);
/* Calls that are complete, and that have begun and are not. */
int32_t mr_call_parser_n_complete(const struct mr_call_parser *parser);
int32_t mr_call_parser_n_open(const struct mr_call_parser *parser);

/* One vector for a prompt instead of an answer, of the hidden states behind the last norm. */
enum mr_pooling {
    MR_POOLING_NONE, /* an answer */
    MR_POOLING_MEAN, /* of all tokens; the prompt is computed whole, past the prefix cache */
    MR_POOLING_CLS,  /* the first token; the same */
    MR_POOLING_LAST, /* the last token */
    MR_N_POOLINGS
};

/* What to generate. Copied by mr_engine_submit. */
struct mr_request {
    const int32_t *prompt;
    int32_t n_prompt;
    int32_t max_tokens; /* -1: until the context is full */
    struct mr_sampling sampling;
    const struct mr_logit_bias *bias;
    int32_t n_bias;
    const char *const *stop; /* the answer ends before the first of these strings */
    int32_t n_stop;
    const int32_t *stop_token; /* the answer ends with any of these, which gives no text */
    int32_t n_stop_token;
    int32_t
        min_tokens;  /* before so many, tokens that end a generation and stop_token are never chosen; stop strings still end */
    bool ignore_eos; /* tokens that end a generation are never chosen */
    bool show_special; /* control tokens give their text */
    enum mr_constraint constraint;
    const char *constraint_text; /* the schema, pattern or grammar */

    int32_t n;              /* answers to this prompt, 1 to MR_N_MAX, which differ by their random numbers alone */
    int32_t priority;       /* -MR_PRIORITY_MAX to MR_PRIORITY_MAX; the higher one runs first */
    bool background;        /* it gets only what others leave: slots of its own, and rows in steps that have none of theirs */
    uint64_t key;           /* whose request it is: keys share the engine evenly */
    const char *cache_salt; /* prompts share blocks only under the same salt, of MR_SALT_BYTES_MAX bytes at most; NULL: "" */
    int32_t deadline_ms;    /* from arrival; what has not ended then ends with MR_FINISH_TIMEOUT; 0: none */
    int64_t arrival_us;     /* when it came in, by the engine's clock; 0: now. Times of mr_usage count from there */
    int32_t n_retry;        /* how often it has been refused before: who comes back finds the room that was promised */
    const struct mr_adapter_use *adapter; /* n_adapter of them, 0 to MR_ADAPTERS_MAX, added in this order */
    int32_t n_adapter;

    const char *const *bad_word; /* the answer's text has none of these, whatever tokens they are cut into */
    int32_t n_bad_word;
    int32_t prompt_logprobs; /* 0 to 20: each token of the prompt but the first is told, with so many alternatives; -1: none */
    int32_t best_of;         /* answers to compute; the n with the best mean logprob are told, once all have ended; 0: n */
    enum mr_pooling
        pooling;    /* not NONE: the request's one event has the vector and MR_FINISH_STOP; what says how tokens are
                       chosen is not looked at, n, best_of, prompt_logprobs, token_healing and a constraint are refused */
    bool normalize; /* the vector's length becomes 1 */
    enum mr_speculation speculation; /* AUTO: as the engine's options say */
    const int32_t *prediction; /* text that the answer is expected to have most of, n_prediction tokens; what is longer than the
                                  context is cut at its end */
    int32_t n_prediction;
    bool token_healing; /* the prompt's last token is chosen again, among those that begin with its text; the answer's text
                           begins behind it */
};

/* max_tokens -1, n 1, prompt_logprobs -1, normalize true, the defaults of mr_sampling, the rest zero or empty. */
void mr_request_defaults(struct mr_request *request);

enum mr_finish {
    MR_FINISH_NONE,   /* it goes on */
    MR_FINISH_STOP,   /* the model ended it, or a stop string or stop token occurred */
    MR_FINISH_LENGTH, /* max_tokens, or the context is full */
    MR_FINISH_CANCELLED,
    MR_FINISH_ERROR,
    MR_FINISH_TIMEOUT /* its deadline has passed */
};
const char *mr_finish_text(enum mr_finish finish); /* "stop", ...; "" for NONE */

/* Why no more of a prompt was found in the prefix cache. */
enum mr_cache_miss {
    MR_CACHE_HIT,       /* all but the last tokens was there: at least one row is always computed, and blocks are whole */
    MR_CACHE_OFF,       /* the engine has none, or nothing was looked for */
    MR_CACHE_DIFFERENT, /* no earlier prompt goes on like this behind the cached tokens */
    MR_CACHE_EVICTED,   /* one did, but its blocks were needed elsewhere */
    MR_CACHE_WINDOW     /* the blocks that a layer with a window would read are no longer there */
};
const char *mr_cache_miss_text(enum mr_cache_miss miss); /* "hit", ... */

/* Times of one request, in microseconds. */
struct mr_usage {
    int32_t n_prompt;
    int32_t n_generated;
    int64_t queue_us;       /* from submit to the first step that took it up */
    int64_t prompt_us;      /* from there to the first token */
    int64_t generate_us;    /* from the first token to the last */
    int64_t first_token_us; /* from submit to the first token */
    int64_t memory_us;      /* of prompt_us and generate_us: put aside for others, while blocks came from the second tier, or
                             * while pages of the weights came from a disk */
    int64_t sample_us;      /* of the same: while tokens were chosen, everybody's of a step */
    int64_t prompt_memory_us, prompt_sample_us; /* of these, the parts before the first token */
    int32_t n_cached;                           /* tokens of the prompt that were in the cache */
    bool from_store;    /* an equal request's answer, given again without a step; times and the cache's figures are zero */
    int32_t n_restored; /* of those, from the second tier: host memory or a file */
    enum mr_cache_miss cache_miss;
    int32_t n_preempted; /* how often it was put aside to make room for others */
    int32_t n_drafted;   /* tokens that were guessed and scored ahead */
    int32_t n_accepted;  /* of those, which the answer has */
    bool is_bound; /* the latency target is meant for it: alone it would take at most half of it to the first token, or four
                    * fifths for the whole answer */
    int32_t n_discarded; /* of the first answer: tokens of those that best_of left out */
};

/* One token of an answer, or its end, or both. Each of a request's n answers has an end of its own. Pointers are borrowed
 * until the next call on the engine. */
struct mr_event {
    uint64_t request;
    int32_t sample;   /* which of the request's answers */
    int32_t token;    /* -1: none */
    bool is_prompt;   /* a token of the prompt, the next one of those that prompt_logprobs asked for; it has no text */
    const char *text; /* n_text bytes, whole UTF-8 characters, certain not to begin a stop string */
    size_t n_text;
    float logprob; /* where asked for */
    int32_t n_top;
    const struct mr_logprob *top;
    const float *embedding; /* n_embedding floats, of a request with pooling; NULL: none */
    int32_t n_embedding;
    enum mr_finish finish;
    struct mr_usage usage; /* once finish is not NONE */
    const char *error;     /* with MR_FINISH_ERROR; else NULL */
    enum mr_status status; /* with MR_FINISH_ERROR: BAD_INPUT and NO_SUPPORT are the request's fault, others not */
};

/* The loop that computes. Threads: one thread at a time calls its functions. */
struct mr_engine;

enum mr_status mr_engine_create(struct mr_engine **out, struct mr_model *model, const struct mr_options *options,
                                struct mr_error *err);
void mr_engine_free(struct mr_engine *engine); /* takes NULL */
int32_t mr_engine_n_ctx(const struct mr_engine *engine);

/* Queue a request; *id names it in events. BAD_INPUT: the message names the field and its range, or gives the numbers of
 * tokens of a prompt that does not fit. FULL: max_queue requests wait. BUSY: it would wait past its deadline or the latency
 * target; mr_engine_retry_after_ms says when to come back. A constraint is compiled on a
 * thread of the engine's while the request waits; one that cannot be enforced ends each of its answers with MR_FINISH_ERROR
 * before any token, the status and message being those of the compiler: the first event tells whether a stream begins. */
enum mr_status mr_engine_submit(struct mr_engine *engine, const struct mr_request *request, uint64_t *id, struct mr_error *err);

/* What may change while an engine runs; each as in mr_options. */
struct mr_targets {
    int32_t latency_target_ms, latency_metric, itl_target_ms, priority_age_ms, bucket_capacity;
    float low_load, high_load;
};
void mr_targets_of(struct mr_targets *out, const struct mr_options *options);
/* From the next step on. Results do not depend on it. BAD_INPUT names the field and its range; then nothing has changed. */
enum mr_status mr_engine_set_targets(struct mr_engine *engine, const struct mr_targets *targets, struct mr_error *err);

/* Milliseconds after which a request like the one that was refused last will be let in, most likely. */
int64_t mr_engine_retry_after_ms(const struct mr_engine *engine);

/* Compute the blocks of a prompt that requests will begin with, and never give them back; before the first request, or while
 * none runs and no event waits. What is behind the last whole block is not kept. Results do not depend on it. salt: the
 * cache_salt of those requests. BAD_INPUT: no prefix cache, not now, or less than a block. FULL: more than pin_tokens have room
 * for, or more than 8 prompts for a model with windows. */
enum mr_status mr_engine_pin(struct mr_engine *engine, const int32_t *prompt, int32_t n_prompt, const char *salt,
                             struct mr_error *err);

/* End a request wherever it is and free all that it held; the last event of each of its answers says MR_FINISH_CANCELLED.
 * NOT_FOUND: it has ended. */
enum mr_status mr_engine_cancel(struct mr_engine *engine, uint64_t id);

/* Compute one step: a row for each answer that is being generated, then rows of prompts, prompt_chunk in all or fewer. What
 * goes wrong with one request ends that request. */
void mr_engine_step(struct mr_engine *engine);
bool mr_engine_is_idle(const struct mr_engine *engine); /* nothing runs or waits */

/* The second tier of the prefix cache: host memory and files. */
enum mr_cache_tier {
    MR_TIER_OFF,
    MR_TIER_STARTING, /* the model file is being hashed; nothing is kept or found yet */
    MR_TIER_READY,
    MR_TIER_LOCKED,  /* another process uses cache_dir: without files */
    MR_TIER_FULL,    /* cache_dir cannot be written to any more: files are only read */
    MR_TIER_UNNAMED, /* the model file could not be read, or changed: nothing is kept or found */
    MR_N_TIERS
};
const char *mr_cache_tier_text(enum mr_cache_tier tier); /* "off", "starting", ... */

/* What the engine does and has done. Counts since it was created. */
struct mr_engine_stats {
    int32_t n_waiting, n_running; /* requests that wait; answers that run, those put aside included */
    int32_t n_aside;              /* answers put aside until there is room */
    int32_t n_background;         /* answers of background requests that have begun; not among n_running */
    int64_t n_steps;
    int64_t step_us;           /* in the forward pass */
    int64_t idle_us;           /* while requests waited or ran and no step was under way, or none of them could get on */
    int64_t n_decode_rows;     /* that continued an answer */
    int64_t n_prompt_rows;     /* of prompts, and of what was put aside and computed again */
    int64_t n_draft_rows;      /* of guessed tokens */
    int64_t n_drafts_accepted; /* of those, which the sampler chose, too */
    struct {
        int64_t n_drafted, n_accepted;
    } drafts[MR_N_SPECULATIONS]; /* the same by method; AUTO: text to which a constraint left no choice */
    int64_t guess_us;            /* in guessing, draft models and first layers included; by the machine's clock */
    int64_t n_redone_rows;       /* of n_prompt_rows, the second kind */
    int64_t n_preempted;         /* times that an answer was put aside */
    size_t kv_bytes;             /* of all blocks */
    size_t kv_bytes_in_use;      /* of blocks that sequences hold, or that kv_policy keeps for them */
    size_t kv_bytes_live;        /* of tokens in those, once for each sequence that shares them */
    size_t kv_bytes_cached;      /* of blocks that only the prefix cache holds: free when needed */
    size_t kv_bytes_copied;      /* by MR_KV_GROW */
    int64_t n_looked_up;         /* tokens of the prompts of answers that began */
    int64_t n_found;             /* of those, in the prefix cache or the prompt of another answer */
    /* Admission: */
    double load;           /* work offered over the capacity, in the last ten seconds */
    double capacity;       /* model tokens a second, in batches as a high load allows; 0: not known yet */
    double bucket_size;    /* model tokens */
    double bucket_level;   /* of those, what is there; below 0 where others than the bucket decide */
    int32_t batch_cap;     /* answers that may run together now */
    double target_part;    /* of the latency target that predictions may use, as corrected by what was measured */
    double latency_p99_ms; /* of the recent requests that the target binds; 0: none */
    int64_t n_refused;     /* BUSY and FULL */
    int64_t n_pinned;      /* prompts, and the tokens of their blocks */
    int64_t n_pinned_tokens;
    int64_t n_from_store; /* requests that the response store answered */
    size_t store_bytes;
    size_t reference_bytes;  /* of answers that others are guessed from */
    size_t lookup_bytes;     /* of indices of the running answers' texts, for ngram; 64 MiB at most */
    enum mr_cache_tier tier; /* the second tier: blocks that left the cache and may come back */
    size_t tier_host_bytes;  /* in host memory */
    size_t tier_file_bytes;  /* in files */
    int64_t n_exported;      /* blocks that went there */
    int64_t n_restored;      /* tokens that came from there instead of being computed */
    int64_t n_resumed;       /* of those, of answers that had been put aside */
    int64_t n_tier_damaged;  /* files that a check refused, which were removed */
    int64_t n_tier_dropped;  /* blocks for which there was no room */
};
void mr_engine_get_stats(const struct mr_engine *engine, struct mr_engine_stats *out);

/* The oldest event not yet taken. false: there is none. */
bool mr_engine_next_event(struct mr_engine *engine, struct mr_event *out);

#ifdef __cplusplus
}
#endif
#endif
