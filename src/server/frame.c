/* frame.c: frames in one piece of memory, which moves to its beginning when there is no room behind it. */
#include "server/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"

enum {
    ALIGN = 8,
    RECEIVE_BYTES = 64 << 10
};

void frame_hello_make(struct frame_hello *out)
{
    *out = (struct frame_hello){.request_bytes = sizeof(struct mr_request),
                                .event_bytes = sizeof(struct mr_event),
                                .stats_bytes = sizeof(struct mr_engine_stats),
                                .options_bytes = sizeof(struct mr_options)};
    memcpy(out->version, MILLRACE_VERSION, sizeof MILLRACE_VERSION);
    _Static_assert(sizeof MILLRACE_VERSION <= sizeof out->version, "the version has room");
}

void frame_buffer_init(struct frame_buffer *b) { *b = (struct frame_buffer){0}; }

void frame_buffer_release(struct frame_buffer *b)
{
    free(b->bytes);
    frame_buffer_init(b);
}

/* Room for n bytes behind the tail. The head stays aligned: it moves by whole frames, or the buffer only passes bytes on. */
static bool make_room(struct frame_buffer *b, size_t n)
{
    if (b->capacity - b->tail >= n)
        return true;
    if (b->head > 0)
        memmove(b->bytes, b->bytes + b->head, b->tail - b->head);
    b->tail -= b->head;
    b->head = 0;
    return mem_grow(&b->bytes, &b->capacity, b->tail + n, 1);
}

void *frame_push(struct frame_buffer *b, enum frame_kind kind, uint64_t ticket, int64_t value, size_t n)
{
    const struct frame_head head = {
        .mark = FRAME_MARK, .version = FRAME_VERSION, .kind = (uint16_t)kind, .bytes = n, .ticket = ticket, .value = value};
    const size_t padded = size_align(n, ALIGN);
    if (n > FRAME_BYTES_MAX || !make_room(b, sizeof head + padded))
        return NULL;
    char *p = b->bytes + b->tail;
    memcpy(p, &head, sizeof head);
    memset(p + sizeof head + n, 0, padded - n);
    b->tail += sizeof head + padded;
    return p + sizeof head;
}

bool frame_feed(struct frame_buffer *b, const void *bytes, size_t n)
{
    if (!make_room(b, n))
        return false;
    if (n > 0)
        memcpy(b->bytes + b->tail, bytes, n);
    b->tail += n;
    return true;
}

enum mr_status frame_next(struct frame_buffer *b, struct frame_head *head, const void **payload, struct mr_error *err)
{
    const size_t n = b->tail - b->head;
    if (n < sizeof *head)
        return MR_NOT_FOUND;
    memcpy(head, b->bytes + b->head, sizeof *head);
    if (head->mark != FRAME_MARK)
        return mr_fail(err, MR_BAD_FORMAT, "the other side does not send frames");
    if (head->version != FRAME_VERSION)
        return mr_fail(err, MR_BAD_FORMAT, "a frame has version %d, not %d", head->version, FRAME_VERSION);
    if (head->kind == 0 || head->kind >= FRAME_KIND_END)
        return mr_fail(err, MR_BAD_FORMAT, "a frame is of the unknown kind %d", head->kind);
    if (head->bytes > FRAME_BYTES_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "a frame has %llu bytes, at most %d are possible", (unsigned long long)head->bytes,
                       FRAME_BYTES_MAX);
    const size_t whole = sizeof *head + size_align((size_t)head->bytes, ALIGN);
    if (n < whole)
        return MR_NOT_FOUND;
    *payload = b->bytes + b->head + sizeof *head;
    b->head += whole;
    return MR_OK;
}

static bool is_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

enum mr_status frame_receive(struct frame_buffer *b, int fd, struct mr_error *err)
{
    if (b->head == b->tail)
        b->head = b->tail = 0;
    if (!make_room(b, RECEIVE_BYTES))
        return mr_fail(err, MR_NO_MEMORY, "no memory for what an engine process says");
    const ssize_t n = recv(fd, b->bytes + b->tail, b->capacity - b->tail, MSG_DONTWAIT);
    if (n == 0)
        return mr_fail(err, MR_IO, "the other side has ended");
    if (n < 0)
        return is_later(errno) ? MR_OK : mr_fail(err, MR_IO, "the other side cannot be read: %s", strerror(errno));
    b->tail += (size_t)n;
    return MR_OK;
}

enum mr_status frame_send(struct frame_buffer *b, int fd, struct mr_error *err)
{
    while (b->head < b->tail) {
        const ssize_t n = send(fd, b->bytes + b->head, b->tail - b->head, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return is_later(errno) ? MR_OK : mr_fail(err, MR_IO, "the other side takes nothing: %s", strerror(errno));
        b->head += (size_t)n;
    }
    b->head = b->tail = 0;
    return MR_OK;
}
