/* merger.c: byte pair merging, by scanning or with a heap. */
#include "text/merger.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    SCAN_MAX = 24 /* symbols; above, the heap is faster (measured on prose and on random letters) */
};

struct merge_link { /* of the symbol with the same index */
    uint32_t previous, next;
    struct merge merge; /* with the next one */
};
#define NO_LINK UINT32_MAX

void merger_release(struct merger *m)
{
    free(m->symbol);
    free(m->link);
    free(m->heap);
    *m = (struct merger){0};
}

bool merger_add(struct merger *m, int32_t id, uint32_t start, uint32_t n)
{
    if (!mem_grow(&m->symbol, &m->symbol_capacity, m->n + 1, sizeof *m->symbol))
        return false;
    m->symbol[m->n++] = (struct symbol){id, start, n};
    return true;
}

static void merge_scanning(struct merger *m, merge_fn *merge, const void *ctx)
{
    struct symbol *s = m->symbol;
    struct merge with_next[SCAN_MAX];
    size_t n = m->n;
    for (size_t i = 0; i + 1 < n; i++)
        with_next[i] = merge(ctx, &s[i], &s[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (with_next[i].rank < with_next[best].rank)
                best = i;
        if (with_next[best].rank == MERGE_RANK_NONE)
            break;
        s[best].id = with_next[best].id;
        s[best].n += s[best + 1].n;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof *s);
        memmove(&with_next[best], &with_next[best + 1], (n - best) * sizeof *with_next);
        if (best + 1 < n)
            with_next[best] = merge(ctx, &s[best], &s[best + 1]);
        if (best > 0)
            with_next[best - 1] = merge(ctx, &s[best - 1], &s[best]);
    }
    m->n = n;
}

/* Heap of rank << 32 | position: the smallest first. */
static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    const uint64_t moving = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= moving)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static void heap_push(struct merger *m, uint64_t key)
{
    size_t i = m->n_heap++;
    while (i > 0 && m->heap[(i - 1) / 2] > key) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = key;
}

static uint64_t heap_pop(struct merger *m)
{
    const uint64_t top = m->heap[0];
    m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap > 0)
        sift_down(m->heap, m->n_heap, 0);
    return top;
}

static uint64_t heap_key(const struct merge *merge, size_t position) { return (uint64_t)merge->rank << 32 | position; }

static void find_merge(struct merger *m, uint32_t i, merge_fn *merge, const void *ctx)
{
    struct merge_link *link = &m->link[i];
    link->merge.rank = MERGE_RANK_NONE;
    if (link->next != NO_LINK)
        link->merge = merge(ctx, &m->symbol[i], &m->symbol[link->next]);
    if (link->merge.rank != MERGE_RANK_NONE)
        heap_push(m, heap_key(&link->merge, i));
}

static void link_symbols(struct merger *m, merge_fn *merge, const void *ctx)
{
    const size_t n = m->n;
    m->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        m->link[i] = (struct merge_link){.previous = i > 0 ? (uint32_t)i - 1 : NO_LINK,
                                         .next = i + 1 < n ? (uint32_t)i + 1 : NO_LINK,
                                         .merge = {.rank = MERGE_RANK_NONE}};
        if (i + 1 < n)
            m->link[i].merge = merge(ctx, &m->symbol[i], &m->symbol[i + 1]);
        if (m->link[i].merge.rank != MERGE_RANK_NONE)
            m->heap[m->n_heap++] = heap_key(&m->link[i].merge, i);
    }
    for (size_t i = m->n_heap / 2; i-- > 0;)
        sift_down(m->heap, m->n_heap, i);
}

/* Each merge takes one key out and puts two in at most, and there are fewer merges than symbols. */
static bool merge_with_heap(struct merger *m, merge_fn *merge, const void *ctx)
{
    if (m->n >= NO_LINK || !mem_grow(&m->link, &m->link_capacity, m->n, sizeof *m->link) ||
        !mem_grow(&m->heap, &m->heap_capacity, 2 * m->n, sizeof *m->heap))
        return false;
    link_symbols(m, merge, ctx);
    while (m->n_heap > 0) {
        const uint64_t key = heap_pop(m);
        const uint32_t i = (uint32_t)key;
        struct merge_link *link = &m->link[i];
        if (link->merge.rank != key >> 32) /* the pair has changed since */
            continue;
        const uint32_t gone = link->next;
        m->symbol[i].id = link->merge.id;
        m->symbol[i].n += m->symbol[gone].n;
        m->symbol[gone].n = 0;
        m->link[gone].merge.rank = MERGE_RANK_NONE;
        link->next = m->link[gone].next;
        if (link->next != NO_LINK)
            m->link[link->next].previous = i;
        find_merge(m, i, merge, ctx);
        if (link->previous != NO_LINK)
            find_merge(m, link->previous, merge, ctx);
    }
    size_t n = 0;
    for (uint32_t i = 0; i != NO_LINK; i = m->link[i].next)
        m->symbol[n++] = m->symbol[i];
    m->n = n;
    return true;
}

bool merger_run(struct merger *m, merge_fn *merge, const void *ctx)
{
    if (m->n > SCAN_MAX)
        return merge_with_heap(m, merge, ctx);
    merge_scanning(m, merge, ctx);
    return true;
}
