/* frame.h: records between the server and its engine processes, over a stream socket. Both are the same program on the same
 * machine, so that a record is what it is in memory; all the same nothing that comes from the other side is believed: each
 * frame has a mark, a version and a size, and a record is checked before it is used (wire.h).
 * Threads: each reader and writer is owned by one. */
#ifndef SERVER_FRAME_H
#define SERVER_FRAME_H

#include "base/status.h"

enum {
    FRAME_MARK = 0x4d4c5243, /* "MLRC" */
    FRAME_VERSION = 2,
    FRAME_BYTES_MAX = 256 << 20 /* of a payload */
};

enum frame_kind {
    /* to an engine process */
    FRAME_CONFIG = 1, /* struct engine_config: open the model; the first frame */
    FRAME_BEGIN,      /* make the engine; value: which of the active ones it is */
    FRAME_REQUEST,    /* a request's record */
    FRAME_CANCEL,
    FRAME_ORDER, /* an order's record; ticket: comes back with its FRAME_DONE */
    /* from one */
    FRAME_HELLO, /* struct frame_hello; the first frame */
    FRAME_OPENED,
    FRAME_READY,  /* value: tokens of context */
    FRAME_FAILED, /* value: enum mr_status; a message without NUL. The process ends */
    FRAME_EVENT,  /* an event's record; value: retry_after_ms */
    FRAME_STATS,  /* struct mr_engine_stats */
    FRAME_DONE,   /* an order; value: enum mr_status; a message without NUL */
    FRAME_KIND_END
};

struct frame_head {
    uint32_t mark;
    uint16_t version, kind;
    uint64_t bytes;  /* of the payload behind it, which is padded to 8 */
    uint64_t ticket; /* of a request; else 0 */
    int64_t value;
};
_Static_assert(sizeof(struct frame_head) == 32, "a frame's head keeps its payload aligned");

/* What both sides must agree about. */
struct frame_hello {
    uint64_t request_bytes, event_bytes, stats_bytes, options_bytes;
    char version[32]; /* of the program */
};
void frame_hello_make(struct frame_hello *out);

/* Bytes that have come and are not taken, or are to be sent. */
struct frame_buffer {
    char *bytes; /* [head, tail) */
    size_t capacity, head, tail;
};

void frame_buffer_init(struct frame_buffer *b);
void frame_buffer_release(struct frame_buffer *b);
static inline bool frame_buffer_is_empty(const struct frame_buffer *b) { return b->head == b->tail; }

/* Append a frame; returns where its payload of n bytes is to be written, by memcpy: it need not be aligned. NULL: no memory. */
void *frame_push(struct frame_buffer *b, enum frame_kind kind, uint64_t ticket, int64_t value, size_t n);
/* The oldest whole frame, borrowed until the buffer is touched. NOT_FOUND: more bytes are needed. BAD_FORMAT: what came is no
 * frame, and nothing behind it can be. */
enum mr_status frame_next(struct frame_buffer *b, struct frame_head *head, const void **payload, struct mr_error *err);
/* Append bytes as they came. false: no memory. */
bool frame_feed(struct frame_buffer *b, const void *bytes, size_t n);

/* Take what the socket has; OK also where it has nothing now. IO: the other side is gone. */
enum mr_status frame_receive(struct frame_buffer *b, int fd, struct mr_error *err);
/* Send what it takes; what is left stays. The same. */
enum mr_status frame_send(struct frame_buffer *b, int fd, struct mr_error *err);

#endif
