/* job.h: a request that generates: read from its body, handed to the engine, and written in the words of its API, whole or as a
 * stream. The parts that APIs share are here; what differs is a struct dialect.
 * Threads: one at a time, as exchange.h says. */
#ifndef SERVER_API_JOB_H
#define SERVER_API_JOB_H

#include "base/arena.h"
#include "server/api/answer_text.h"
#include "server/api/json_fields.h"
#include "server/server.h"
#include "text/call_format.h"

struct job;

/* The words of one API. All write to out; an allocation that fails is found in out->failed. */
struct dialect {
    const char *stream_type;                                 /* "text/event-stream" */
    const char *keep_alive;                                  /* ": keep-alive\n\n"; NULL: none */
    bool keeps_text;                                         /* the end of a stream tells the whole text once more */
    void (*begin)(struct job *j, struct string_buffer *out); /* a stream; may be NULL */
    void (*piece)(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out); /* of a stream */
    void (*answer_end)(struct job *j, struct answer *a, struct string_buffer *out);                      /* of a stream */
    void (*end)(struct job *j, struct string_buffer *out);                                               /* of a stream */
    void (*whole)(struct job *j, struct string_buffer *out);                           /* instead of the four */
    void (*fail)(struct job *j, const struct api_error *e, struct string_buffer *out); /* behind a stream's beginning */
    void (*started)(struct job *j);                            /* before its first event, streamed or not; may be NULL */
    void (*refused)(struct job *j, const struct api_error *e); /* before the reply began; may be NULL */
    bool (*is_cancelled)(const struct job *j);                 /* asked before each event; may be NULL */
    void (*release)(struct job *j);                            /* of own; may be NULL */
};

struct job {
    struct exchange *x;
    const struct dialect *dialect;
    struct hosted_model *model;
    bool holds_model;
    int64_t keep_alive_us; /* for the model, from the end of this request on; SERVER_KEEP_ALIVE: as the settings say */
    json_t *body;
    struct json_fields fields; /* of the body */
    struct api_error error;
    struct arena arena;
    const char *model_name; /* as the client wrote it */
    char id[64];            /* "chatcmpl-..." */
    int64_t created;        /* seconds since the epoch */

    struct mr_request base;    /* what all prompts have in common */
    const char *constraint;    /* the field that base's constraint is from; NULL: none */
    struct token_list *prompt; /* [n_prompt], in the arena */
    int n_prompt;
    struct mr_calls *calls;                                   /* NULL: the answers are plain text */
    struct mr_adapter_use adapter, defaults[MR_ADAPTERS_MAX]; /* the one that `model` names; without one */

    bool stream, has_begun;
    bool include_usage;    /* a stream tells it at its end */
    bool keeps_tokens;     /* answers keep their token ids */
    bool keeps_raw;        /* and their bytes, to tell which stop string it was */
    bool keeps_scores;     /* and what their tokens' log probabilities were */
    struct answer *answer; /* [n_prompt][base.n] */
    int n_answer;
    struct token_scores *prompt_scores; /* [n_prompt] */
    void *own;                          /* the dialect's */
};

enum {
    JOB_PROMPTS_MAX = 1024, /* of one request */
    JOB_ARENA_MAX = 256 << 20
};

/* Parse the body, find the model. NULL: the reply has been made. prefix: of the id, "chatcmpl-". */
struct job *job_open(struct exchange *x, const struct dialect *dialect, const char *prefix);
/* The same for a body that was parsed or made before; takes its reference. */
struct job *job_open_value(struct exchange *x, json_t *body, const struct dialect *dialect, const char *prefix);
void job_free(struct job *j); /* takes NULL */
/* Reply with the error and free the job. */
void job_fail(struct job *j);
/* Give the prompts to the engine, or reply with the error; the job is freed in time. */
void job_start(struct job *j);

/* A zeroed object of the job's life; NULL: no memory, and the error is set. */
void *job_alloc(struct job *j, size_t n);
/* n prompts, empty. */
bool job_make_prompts(struct job *j, int n);
/* The messages of request (chat_renderer_render says what is read from it) become the one prompt. */
void job_render_chat(struct job *j, const json_t *request);
/* Functions as in OpenAI's API (an array, or NULL), which of them must be called, and whether more than one. Splits reasoning
 * off, too. keep_reasoning: it stays in the content. After job_render_chat. */
void job_set_calls(struct job *j, const json_t *tools, const char *choice, bool parallel, bool keep_reasoning);

/* 400 exceed_context_size_error where a prompt leaves no room for an answer. */
void job_check_context(struct job *j);

#endif
