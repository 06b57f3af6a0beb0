/* block_table.h: what a second tier knows of blocks: a hash table by name, and for each place a list of the blocks that are
 * there, the least recently used first.
 * Threads: owned by whoever holds the tier's lock. */
#ifndef CACHE_BLOCK_TABLE_H
#define CACHE_BLOCK_TABLE_H

#include "cache/block_record.h"

enum block_place {
    PLACE_MEMORY,
    PLACE_FOLDER,
    N_PLACES
};

struct block_entry {
    struct block_name name;
    size_t n_bytes;  /* of the contents */
    uint8_t *record; /* n_bytes behind BLOCK_RECORD_HEADER; NULL: not in memory */
    bool is_in[N_PLACES];
    bool is_unsaved; /* the folder should have it, too */
    bool is_wanted;  /* it waits to be read */
    int n_user;      /* who reads or writes the record without the lock */
    struct block_entry *chain, *older[N_PLACES], *newer[N_PLACES];
};

struct block_table {
    struct block_entry **bucket;
    size_t n_bucket, n;
    struct block_entry *oldest[N_PLACES], *newest[N_PLACES];
    size_t bytes[N_PLACES]; /* records' sizes, headers included */
};

enum mr_status block_table_init(struct block_table *t, struct mr_error *err);
void block_table_release(struct block_table *t);

struct block_entry *block_table_find(const struct block_table *t, const struct block_name *name); /* NULL: unknown */
/* Find or make. NULL: no memory. */
struct block_entry *block_table_add(struct block_table *t, const struct block_name *name, size_t n_bytes);
/* Free an entry that is in no place. */
void block_table_remove(struct block_table *t, struct block_entry *e);

/* The block is now in the place, as its most recently used one; or is no longer there (which frees its record). */
void block_table_enter(struct block_table *t, struct block_entry *e, enum block_place place);
void block_table_leave(struct block_table *t, struct block_entry *e, enum block_place place);

#endif
