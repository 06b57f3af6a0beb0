/* stored_responses.h: responses by their id, for later requests that ask for them or go on from them. The oldest are forgotten
 * when there are many, or their bytes pass the budget.
 * Threads: any. */
#ifndef SERVER_API_STORED_RESPONSES_H
#define SERVER_API_STORED_RESPONSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/string_buffer.h"

struct stored_responses;
struct stored_response; /* counted; one holder is the store */

enum {
    STORED_RESPONSES_MAX = 1024
};

/* bytes: of texts. NULL: no memory. */
struct stored_responses *stored_responses_create(size_t bytes);
void stored_responses_free(struct stored_responses *s); /* takes NULL */

/* A response that runs; key: whose it is, 0 for nobody's. NULL: no memory. Drop it. */
struct stored_response *stored_responses_begin(struct stored_responses *s, const char *id, uint64_t key, const char *response);
/* What GET gives from now on, while it runs; is_last: for good, because it failed. */
void stored_responses_update(struct stored_responses *s, struct stored_response *r, const char *response, bool is_last);
/* It has ended: what GET gives, and the messages that a later request goes on from (both JSON). Without memory it is forgotten.
 */
void stored_responses_finish(struct stored_responses *s, struct stored_response *r, const char *response, const char *messages);
void stored_response_drop(struct stored_responses *s, struct stored_response *r); /* takes NULL; one that runs is forgotten */
bool stored_response_is_cancelled(const struct stored_response *r);

/* Append the JSON of the response or of its messages. false: not there, or another's. */
bool stored_responses_get(struct stored_responses *s, const char *id, uint64_t key, struct string_buffer *response);
bool stored_responses_messages(struct stored_responses *s, const char *id, uint64_t key, struct string_buffer *messages);
/* One that runs in the background goes on under this ticket, by which it is cancelled. */
void stored_responses_set_ticket(struct stored_responses *s, const char *id, uint64_t key, uint64_t ticket);
/* false: not there. *was_running: it ends before its next token. With a ticket it has ended now, GET gives `response`, and the
 * caller cancels the ticket; else *ticket is 0. */
bool stored_responses_cancel(struct stored_responses *s, const char *id, uint64_t key, const char *response, bool *was_running,
                             uint64_t *ticket);
bool stored_responses_delete(struct stored_responses *s, const char *id, uint64_t key, uint64_t *ticket);

#endif
