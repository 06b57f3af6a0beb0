/* block_tier.h: a second tier behind the key/value memory: blocks that had to leave it are kept in host memory and, where a
 * folder is given, in files that the next process finds (block_folder.h).
 * The engine copies blocks in and out of host memory; a thread of the tier's own reads and writes the files, so that the engine
 * never waits for a disk. Records from files are checked before they count; what is damaged is removed and counted. Both places
 * are bounded in bytes and give up what was not used for longest.
 * Threads: the functions are called by the engine's; a lock is between it and the tier's own, never held over input or
 * output. */
#ifndef CACHE_BLOCK_TIER_H
#define CACHE_BLOCK_TIER_H

#include "cache/block_folder.h"

struct block_tier; /* opaque */

struct block_tier_options {
    size_t host_bytes;                 /* of records in memory, less than one record: none are kept */
    const char *folder;                /* NULL: memory alone */
    size_t folder_bytes;               /* of files */
    size_t block_bytes[KV_MAX_GROUPS]; /* contents of a block of each group */
    /* Name all that decides a block's bits besides its key, such as the model's contents; called on the tier's thread, before
     * anything is kept or found, and given the folder for its notes. false: it cannot be done, and nothing will be kept. Where
     * there is no folder it may be NULL. */
    bool (*identify)(void *context, struct block_folder *folder, struct prefix_key *out);
    void *context;
};

/* BAD_INPUT, IO: the folder cannot be used. Another process that uses it is no failure: the tier then works without the folder
 * and says so (stats). */
enum mr_status block_tier_create(struct block_tier **out, const struct block_tier_options *options, struct mr_error *err);
/* Wait until it is known what the model is, or for so long. false: it is not known yet, and nothing is kept or found. */
bool block_tier_await_ready(struct block_tier *t, int64_t timeout_us);
/* Wait until all that is in memory is in the folder too, or cannot be. */
void block_tier_flush(struct block_tier *t);
void block_tier_free(struct block_tier *t); /* takes NULL; what is not in the folder yet is lost */

enum block_found {
    BLOCK_ABSENT,
    BLOCK_IN_FOLDER,
    BLOCK_IN_MEMORY
};
enum block_found block_tier_find(struct block_tier *t, const struct prefix_key *key, int group);

/* Where to put the contents of a block that is not here yet: block_bytes of the group. NULL: it is here already, or there is
 * no room. Followed by put_end, nothing in between. */
void *block_tier_put(struct block_tier *t, const struct prefix_key *key, int group);
void block_tier_put_end(struct block_tier *t);
/* The contents of a block in memory, valid until get_end; NULL: it is not in memory. */
const void *block_tier_get(struct block_tier *t, const struct prefix_key *key, int group);
void block_tier_get_end(struct block_tier *t);
/* Read it from the folder into memory when there is time. false: that cannot be now, memory is full of what is in use or not
 * in the folder yet. */
bool block_tier_want(struct block_tier *t, const struct prefix_key *key, int group);
/* Wait until something has been read, or for so long. */
void block_tier_wait(struct block_tier *t, int64_t timeout_us);

enum block_tier_state {
    TIER_STARTING, /* the model is being named */
    TIER_READY,
    TIER_LOCKED, /* another process uses the folder: memory alone */
    TIER_FULL,   /* writing failed: the folder is read alone */
    TIER_UNNAMED /* the model could not be named: nothing is kept */
};

struct block_tier_stats {
    enum block_tier_state state;
    size_t host_bytes, folder_bytes; /* of records there */
    int64_t n_written, n_read;       /* files */
    int64_t n_damaged;               /* files that were removed because a check failed */
    int64_t n_dropped;               /* blocks for which there was no room in memory */
    double read_us_per_byte;         /* from files, checks included; 0: nothing was read yet */
};
void block_tier_stats(struct block_tier *t, struct block_tier_stats *out);

#endif
