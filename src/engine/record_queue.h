/* record_queue.h: first in, first out, of flat records of different sizes. Memory is used again; it grows only while
 * records are not taken.
 * Threads: owned by one. */
#ifndef ENGINE_RECORD_QUEUE_H
#define ENGINE_RECORD_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct record_queue {
    char *bytes; /* [head, tail): records, each behind its size */
    size_t capacity, head, tail;
    size_t reserved; /* room that only a reserved push may use */
};

void record_queue_init(struct record_queue *q);
void record_queue_release(struct record_queue *q);

/* Keep room for one more record of n bytes, so that pushing it later cannot fail. false: no memory. */
bool record_queue_reserve(struct record_queue *q, size_t n);
void record_queue_unreserve(struct record_queue *q, size_t n);

/* Room for a record of n bytes at the end, aligned to 8, to be filled at once. NULL: no memory. */
void *record_queue_push(struct record_queue *q, size_t n);

/* The same within room that was reserved for n bytes; cannot fail. */
void *record_queue_push_reserved(struct record_queue *q, size_t n);

static inline bool record_queue_is_empty(const struct record_queue *q) { return q->head == q->tail; }

/* Take the oldest record; NULL: the queue is empty. Borrowed until the next push or reserve. */
const void *record_queue_pop(struct record_queue *q);

#endif
