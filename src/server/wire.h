/* wire.h: requests and events as flat pieces of memory without pointers, so that a queue between two threads may as well be a
 * socket between two processes of the same program. */
#ifndef SERVER_WIRE_H
#define SERVER_WIRE_H

#include "base/status.h"

/* A request as mr_engine_submit takes it: pointers lead into the record and into the two tables here. */
struct wire_request {
    struct mr_request request;
    const char *stop[MR_STOP_MAX];
    const char *bad_word[MR_BAD_WORDS_MAX];
};

/* Bytes of the request's record. BAD_INPUT: a list has more entries than a request may have, or its prompt is empty; all else
 * is the engine's to check. */
enum mr_status wire_request_bytes(size_t *bytes, const struct mr_request *request, struct mr_error *err);
/* Write that many bytes, aligned to 8. */
void wire_request_write(void *out, const struct mr_request *request);
/* Of a record of n bytes, aligned to 8, from another process: whether it may be read. BAD_FORMAT. */
enum mr_status wire_request_check(const void *record, size_t n, struct mr_error *err);
/* Whether the byte is a bool's: to read another one than 0 or 1 as a bool would be undefined behaviour. */
bool wire_is_bool(const void *field);
/* Borrows the record. */
void wire_request_read(struct wire_request *out, const void *record);

/* The same for events. */
size_t wire_event_bytes(const struct mr_event *event);
void wire_event_write(void *out, const struct mr_event *event);
/* What an event of a request may name. */
struct wire_limits {
    int32_t n_vocab, n_embd;
    int32_t n; /* answers */
};
enum mr_status wire_event_check(const void *record, size_t n, const struct wire_limits *limits, struct mr_error *err);
void wire_event_read(struct mr_event *out, const void *record);

#endif
