/* merger.h: merges neighbouring symbols of a piece of text, the pair of the lowest rank first, the leftmost among equals
 * (byte pair encoding: Sennrich et al. 2016, arXiv:1508.07909). Short pieces by scanning, long ones with a heap:
 * O(n log n). */
#ifndef TEXT_MERGER_H
#define TEXT_MERGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MERGE_NONE = -1
};
#define MERGE_RANK_NONE UINT32_MAX

struct symbol {
    int32_t id;
    uint32_t start, n; /* bytes in the piece */
};

struct merge {     /* what two neighbours become */
    uint32_t rank; /* MERGE_RANK_NONE: they do not merge */
    int32_t id;
};
typedef struct merge merge_fn(const void *ctx, const struct symbol *left, const struct symbol *right);

/* Scratch memory of one encoding; grows to the longest piece. Zero-initialise. */
struct merger {
    struct symbol *symbol;
    size_t n; /* symbols of the present piece */
    size_t symbol_capacity;
    struct merge_link *link;
    size_t link_capacity;
    uint64_t *heap;
    size_t n_heap, heap_capacity;
};
void merger_release(struct merger *m);

/* Append a symbol to the piece. false: no memory. */
bool merger_add(struct merger *m, int32_t id, uint32_t start, uint32_t n);

/* Merge m->symbol[0..m->n) until no pair merges; m->n falls. false: no memory. */
bool merger_run(struct merger *m, merge_fn *merge, const void *ctx);

#endif
