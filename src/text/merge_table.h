/* merge_table.h: the merges of a byte pair encoding: what two tokens become, and how early.
 * Threads: immutable after creation. */
#ifndef TEXT_MERGE_TABLE_H
#define TEXT_MERGE_TABLE_H

#include "text/merger.h"
#include "text/vocabulary.h"

struct merge_entry {
    int32_t left, right; /* left < 0: free */
    struct merge merge;
};

struct merge_table { /* open addressing, at most three quarters full */
    struct merge_entry *entry;
    uint64_t mask;
};

/* Read tokenizer.ggml.merges. BAD_FORMAT names the merge that is wrong. */
enum mr_status merge_table_init(struct merge_table *t, const struct vocabulary *v, const struct gguf *g, struct mr_error *err);
void merge_table_release(struct merge_table *t);

/* merge_fn with the table as its context. */
struct merge merge_table_find(const void *table, const struct symbol *left, const struct symbol *right);

#endif
