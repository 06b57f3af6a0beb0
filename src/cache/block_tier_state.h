/* block_tier_state.h: what the two threads of a second tier share. */
#ifndef CACHE_BLOCK_TIER_STATE_H
#define CACHE_BLOCK_TIER_STATE_H

#include <pthread.h>

#include "cache/block_table.h"
#include "cache/block_tier.h"

struct block_tier {
    struct block_tier_options options;
    struct block_folder *folder; /* the tier's thread alone uses it; NULL: none */
    struct prefix_key model;     /* written before the state leaves TIER_STARTING */
    pthread_t thread;
    bool has_thread;
    /* the engine's thread alone: */
    uint8_t *coming; /* a record between put and put_end */
    size_t coming_bytes;
    struct block_name coming_name;
    struct block_entry *lent; /* between get and get_end */

    pthread_mutex_t lock; /* of all below, but for the contents of a record that has users */
    pthread_cond_t work;  /* there is something to do */
    pthread_cond_t done;  /* something was read or written, or the state changed */
    bool is_ending, is_reading;
    enum block_tier_state state;
    struct block_table table;
    struct block_name *wanted; /* to be read, the first one first */
    size_t n_wanted, wanted_capacity;
    int64_t n_written, n_read, n_damaged, n_dropped;
    double read_us_per_byte;
};

/* The tier's thread; context is the tier (block_tier_work.c). */
void *block_tier_work(void *context);

/* The rest is called under the lock. */

/* Whether blocks are kept at all now. */
static inline bool block_tier_keeps(const struct block_tier *t)
{
    return t->state != TIER_STARTING && t->state != TIER_UNNAMED;
}

/* Make room in memory for a record. false: what is there is in use, or not in the folder yet. */
bool block_tier_make_room(struct block_tier *t, size_t n_bytes);
/* A record that the folder should have and does not; NULL: there is none, or writing has ended. */
struct block_entry *block_tier_oldest_unsaved(const struct block_tier *t);

#endif
