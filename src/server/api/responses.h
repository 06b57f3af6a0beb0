/* responses.h: OpenAI's responses: create, get, cancel, delete. */
#ifndef SERVER_API_RESPONSES_H
#define SERVER_API_RESPONSES_H

#include "server/api/job.h"
#include "server/api/stored_responses.h"

void responses_create(struct exchange *x);
void responses_get(struct exchange *x);
void responses_cancel(struct exchange *x);
void responses_delete(struct exchange *x);

/* What the job's `own` is. */
struct response_state {
    json_t *messages;               /* of the conversation so far, as OpenAI's chat has them */
    json_t *tools;                  /* of the chat's form */
    struct stored_response *stored; /* NULL: not to be kept */
    int sequence, n_item;           /* events, and items that have begun */
    enum mr_piece_kind open;        /* of the pieces of the item that is open */
    bool is_open;
    bool is_background; /* it goes on without its client */
};

/* input, instructions, previous_response_id, tools and tool_choice become the prompt, the calls and state->messages. */
void responses_read_chat(struct job *j, struct response_state *state);

/* The items of the answer, as far as it has come; status of the last one: "completed", "incomplete". */
json_t *responses_items(const struct job *j, const struct answer *a, const char *status);
/* The id of an item: "msg_...", "rs_...", "fc_...". */
void responses_item_id(const struct job *j, const char *prefix, int index, char out[96]);

uint64_t responses_key(const struct exchange *x); /* 0: the server asks for none */

extern const struct dialect responses_dialect;
/* The object as it stands, as text; NULL: no memory. */
char *responses_text(const struct job *j, const char *status);
/* The object as it stands. */
json_t *responses_json(const struct job *j, const char *status, json_t *output, bool with_usage);

#endif
