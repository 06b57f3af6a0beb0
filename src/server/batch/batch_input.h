/* batch_input.h: the file of a batch: JSON Lines, one request each: {"custom_id", "method": "POST", "url", "body"}.
 * Everything in it is hostile. Lines are read one at a time, so that a file of any size takes the memory of its longest line.
 */
#ifndef SERVER_BATCH_BATCH_INPUT_H
#define SERVER_BATCH_BATCH_INPUT_H

#include <jansson.h>
#include <stdint.h>

#include "base/string_buffer.h"

enum {
    BATCH_DIGEST_HEX = 64,
    BATCH_LINE_BYTES_MAX = 32 << 20
};

/* A line's text, without its end, at this place in the file. */
struct batch_text {
    const char *text; /* borrowed until the next one; NULL: the line is longer than BATCH_LINE_BYTES_MAX */
    size_t n;
    int64_t offset;
    int32_t line; /* from 1, blank ones counted */
};

struct batch_reader {
    int fd;
    char *buffer;
    size_t n, at, capacity;
    int64_t offset; /* of buffer[at] */
    int32_t line;
    bool is_end;
};

/* Close it on failure, too. */
enum mr_status batch_reader_open(struct batch_reader *r, const char *path, struct mr_error *err);
void batch_reader_close(struct batch_reader *r);
/* The next line that is not blank. NOT_FOUND: there is none. A byte order mark in front of the first and CR before LF are
 * passed over. */
enum mr_status batch_reader_next(struct batch_reader *r, struct batch_text *out, struct mr_error *err);
/* Append the bytes of a line that was read before. */
enum mr_status batch_reader_reread(const struct batch_reader *r, int64_t offset, size_t n, struct string_buffer *out,
                                   struct mr_error *err);

/* SHA-256 of a file, as hexadecimal digits. */
enum mr_status batch_input_digest(char out[BATCH_DIGEST_HEX + 1], const char *path, struct mr_error *err);

/* A line as a request; its texts are the root's. */
struct batch_request {
    json_t *root; /* json_decref it */
    const json_t *custom_id, *body;
    const char *url;
};

/* Why a line is none. */
struct batch_fault {
    const char *code;  /* "invalid_json_line", "missing_required_parameter", "duplicate_custom_id", ...; NULL: no fault */
    const char *param; /* NULL: none */
    char message[MR_ERROR_MAX];
};

/* url: the only one that is taken; NULL: any that a batch may have. On a fault the request holds what could be read. */
bool batch_request_parse(struct batch_request *out, const struct batch_text *text, const char *url, struct batch_fault *fault);
bool batch_url_is_known(const char *url);
void batch_fault_set(struct batch_fault *f, const char *code, const char *param, const char *fmt, ...) MR_PRINTF(4, 5);

#endif
