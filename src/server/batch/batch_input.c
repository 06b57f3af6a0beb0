/* batch_input.c: lines and what they must hold. */
#include "server/batch/batch_input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum {
    PIECE_BYTES = 1 << 16
};

/* ---- lines ---- */

enum mr_status batch_reader_open(struct batch_reader *r, const char *path, struct mr_error *err)
{
    *r = (struct batch_reader){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (r->fd < 0)
        return mr_fail(err, errno == ENOENT ? MR_NOT_FOUND : MR_IO, "cannot open '%s': %s", path, strerror(errno));
    if (lseek(r->fd, 0, SEEK_END) < 0 || lseek(r->fd, 0, SEEK_SET) < 0)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is no file that can be read again", path);
    return MR_OK;
}

void batch_reader_close(struct batch_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->buffer);
    *r = (struct batch_reader){.fd = -1};
}

/* Read on; what was taken leaves the buffer first. */
static enum mr_status fill(struct batch_reader *r, struct mr_error *err)
{
    ssize_t n;
    if (r->at > 0)
        memmove(r->buffer, r->buffer + r->at, r->n - r->at);
    r->n -= r->at;
    r->at = 0;
    if (!mem_grow(&r->buffer, &r->capacity, r->n + PIECE_BYTES, 1))
        return mr_fail(err, MR_NO_MEMORY, "no memory for a line");
    while ((n = read(r->fd, r->buffer + r->n, r->capacity - r->n)) < 0)
        if (errno != EINTR)
            return mr_fail(err, MR_IO, "cannot read the input: %s", strerror(errno));
    r->n += (size_t)n;
    r->is_end = n == 0;
    return MR_OK;
}

/* The next line, its end included; n 0: there is none. */
static enum mr_status take_line(struct batch_reader *r, struct batch_text *out, struct mr_error *err)
{
    size_t seen = 0, n_dropped = 0;
    const char *end = NULL;
    *out = (struct batch_text){.offset = r->offset};
    for (;;) {
        if (r->n - r->at > seen)
            end = memchr(r->buffer + r->at + seen, '\n', r->n - r->at - seen);
        seen = r->n - r->at;
        if (end != NULL || r->is_end)
            break;
        if (seen > BATCH_LINE_BYTES_MAX) {
            n_dropped += seen;
            r->at = r->n;
            seen = 0;
        }
        MR_TRY(fill(r, err));
    }
    out->n = end != NULL ? (size_t)(end - (r->buffer + r->at)) + 1 : seen;
    if (n_dropped == 0 && out->n <= BATCH_LINE_BYTES_MAX && out->n > 0)
        out->text = r->buffer + r->at;
    r->at += out->n;
    out->n += n_dropped;
    r->offset += (int64_t)out->n;
    return MR_OK;
}

static void trim(struct batch_text *t)
{
    static const char mark[] = "\xEF\xBB\xBF";
    if (t->offset == 0 && t->n >= 3 && memcmp(t->text, mark, 3) == 0) {
        t->text += 3;
        t->n -= 3;
        t->offset = 3;
    }
    while (t->n > 0 && strchr(" \t\r\n", t->text[t->n - 1]) != NULL && t->text[t->n - 1] != '\0')
        t->n--;
}

enum mr_status batch_reader_next(struct batch_reader *r, struct batch_text *out, struct mr_error *err)
{
    for (;;) {
        MR_TRY(take_line(r, out, err));
        if (out->n == 0)
            return MR_NOT_FOUND;
        if (r->line == INT32_MAX)
            return mr_fail(err, MR_BAD_INPUT, "the input has more than %d lines", INT32_MAX);
        out->line = ++r->line;
        if (out->text == NULL)
            return MR_OK;
        trim(out);
        if (out->n > 0)
            return MR_OK;
    }
}

enum mr_status batch_reader_reread(const struct batch_reader *r, int64_t offset, size_t n, struct string_buffer *out,
                                   struct mr_error *err)
{
    char piece[4096];
    while (n > 0) {
        const ssize_t got = pread(r->fd, piece, n < sizeof piece ? n : sizeof piece, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return mr_fail(err, MR_IO, "cannot read the input: %s", got < 0 ? strerror(errno) : "it has become shorter");
        string_buffer_add(out, piece, (size_t)got);
        offset += got;
        n -= (size_t)got;
    }
    return out->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for a line") : MR_OK;
}

static void write_hex(char *out, const uint8_t *byte, size_t n)
{
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digit[byte[i] >> 4];
        out[2 * i + 1] = digit[byte[i] & 15];
    }
    out[2 * n] = '\0';
}

enum mr_status batch_input_digest(char out[BATCH_DIGEST_HEX + 1], const char *path, struct mr_error *err)
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx sha;
    struct batch_reader r;
    sha256_init(&sha);
    enum mr_status status = batch_reader_open(&r, path, err);
    while (status == MR_OK && !r.is_end) {
        r.at = r.n;
        status = fill(&r, err);
        if (status == MR_OK)
            sha256_update(&sha, r.n, (const uint8_t *)r.buffer);
    }
    batch_reader_close(&r);
    sha256_digest(&sha, sizeof digest, digest);
    write_hex(out, digest, sizeof digest);
    return status;
}

/* ---- requests ---- */

static const char *const urls[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"};

bool batch_url_is_known(const char *url)
{
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (strcmp(url, urls[i]) == 0)
            return true;
    return false;
}

void batch_fault_set(struct batch_fault *f, const char *code, const char *param, const char *fmt, ...)
{
    struct mr_error clean;
    va_list args;
    va_start(args, fmt);
    mr_fail_va(&clean, MR_BAD_INPUT, fmt, args);
    va_end(args);
    *f = (struct batch_fault){.code = code, .param = param};
    memcpy(f->message, clean.message, sizeof f->message);
}

/* A member, which must be there and a text. */
static const json_t *need_string(const struct batch_request *r, const char *name, struct batch_fault *fault)
{
    const json_t *v = json_object_get(r->root, name);
    if (v == NULL || json_is_null(v))
        batch_fault_set(fault, "missing_required_parameter", name, "%s is missing", name);
    else if (!json_is_string(v))
        batch_fault_set(fault, "invalid_type", name, "%s must be a string", name);
    else
        return v;
    return NULL;
}

static bool check_url(struct batch_request *out, const char *url, struct batch_fault *fault)
{
    const json_t *method = need_string(out, "method", fault);
    if (method == NULL)
        return false;
    if (strcmp(json_string_value(method), "POST") != 0) {
        batch_fault_set(fault, "invalid_method", "method", "method must be POST");
        return false;
    }
    const json_t *v = need_string(out, "url", fault);
    if (v == NULL)
        return false;
    out->url = json_string_value(v);
    if (url != NULL ? strcmp(out->url, url) == 0 : batch_url_is_known(out->url))
        return true;
    if (url != NULL)
        batch_fault_set(fault, "invalid_url", "url", "url must be the batch's endpoint, %s", url);
    else
        batch_fault_set(fault, "invalid_url", "url", "no batch can ask '%.100s'", out->url);
    return false;
}

bool batch_request_parse(struct batch_request *out, const struct batch_text *text, const char *url, struct batch_fault *fault)
{
    json_error_t error;
    *out = (struct batch_request){0};
    *fault = (struct batch_fault){0};
    if (text->text == NULL) {
        batch_fault_set(fault, "line_too_long", NULL, "the line has more than %d bytes", BATCH_LINE_BYTES_MAX);
        return false;
    }
    out->root = json_loadb(text->text, text->n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (out->root == NULL || !json_is_object(out->root)) {
        batch_fault_set(fault, "invalid_json_line", NULL, "the line is no JSON object: %s",
                        out->root == NULL ? error.text : "it is another value");
        return false;
    }
    out->custom_id = need_string(out, "custom_id", fault);
    if (out->custom_id == NULL || !check_url(out, url, fault))
        return false;
    if (json_string_length(out->custom_id) == 0)
        batch_fault_set(fault, "missing_required_parameter", "custom_id", "custom_id is empty");
    out->body = json_object_get(out->root, "body");
    if (out->body == NULL || json_is_null(out->body))
        batch_fault_set(fault, "missing_required_parameter", "body", "body is missing");
    else if (!json_is_object(out->body))
        batch_fault_set(fault, "invalid_type", "body", "body must be an object");
    return fault->code == NULL;
}
