/* record_queue.c: records in one piece of memory that moves to its beginning when its end is reached. */
#include "engine/record_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    RECORD_ALIGN = 8
};

void record_queue_init(struct record_queue *q) { *q = (struct record_queue){0}; }

void record_queue_release(struct record_queue *q)
{
    free(q->bytes);
    record_queue_init(q);
}

/* Bytes of a record with its size in front. */
static size_t framed(size_t n) { return RECORD_ALIGN + size_align(n, RECORD_ALIGN); }

/* Make room for n bytes behind the tail, and the reserve behind those. */
static bool make_room(struct record_queue *q, size_t n)
{
    const size_t used = q->tail - q->head;
    if (q->capacity - q->tail >= n + q->reserved)
        return true;
    if (q->head > 0) {
        memmove(q->bytes, q->bytes + q->head, used);
        q->head = 0;
        q->tail = used;
    }
    return mem_grow(&q->bytes, &q->capacity, used + n + q->reserved, 1);
}

bool record_queue_reserve(struct record_queue *q, size_t n)
{
    if (!make_room(q, framed(n)))
        return false;
    q->reserved += framed(n);
    return true;
}

void record_queue_unreserve(struct record_queue *q, size_t n) { q->reserved -= framed(n); }

void *record_queue_push(struct record_queue *q, size_t n)
{
    if (!make_room(q, framed(n)))
        return NULL;
    char *record = q->bytes + q->tail;
    memcpy(record, &n, sizeof n);
    q->tail += framed(n);
    return record + RECORD_ALIGN;
}

void *record_queue_push_reserved(struct record_queue *q, size_t n)
{
    record_queue_unreserve(q, n);
    return record_queue_push(q, n);
}

const void *record_queue_pop(struct record_queue *q)
{
    if (q->head == q->tail)
        return NULL;
    const char *record = q->bytes + q->head;
    size_t n;
    memcpy(&n, record, sizeof n);
    q->head += framed(n);
    return record + RECORD_ALIGN;
}
