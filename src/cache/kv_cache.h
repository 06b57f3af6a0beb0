/* kv_cache.h: which block of key/value memory holds which tokens of which sequence.
 * A sequence is a list of blocks of KV_BLOCK tokens; sequences that share a prompt share its blocks (Kwon et al. 2023,
 * arXiv:2309.06180, section 4). Layers fall into groups; each group has blocks and a block table of its own, and a group with a
 * window gives back the blocks that have left the window. This module counts blocks; the memory behind them belongs to a
 * device, and copies are made by the caller's function.
 * Threads: owned by the engine thread; nothing here locks. */
#ifndef CACHE_KV_CACHE_H
#define CACHE_KV_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    KV_BLOCK = 16, /* tokens in a block */
    KV_MAX_GROUPS = 8
};
#define KV_NO_BLOCK UINT32_MAX /* in a block table: the block has left the window */

struct kv_cache;         /* opaque */
typedef uint32_t kv_seq; /* index, never a pointer */

struct kv_group {
    int n_layer;
    size_t bytes_per_token; /* of all layers of the group */
    int window;             /* the last `window` tokens are read; 0: all */
    bool is_state;          /* not tokens but one state for the sequence; refused so far */
    int n_block;            /* blocks of this group */
};

struct kv_config {
    struct kv_group group[KV_MAX_GROUPS];
    int n_group;
    int n_seq;     /* sequences that may be open at a time */
    int max_token; /* longest sequence */
    /* Copy one block of a group, called when a shared block is about to be written. */
    void (*copy)(void *context, int group, uint32_t to, uint32_t from);
    void *context;
};

/* Allocates all it will ever need. BAD_INPUT: a number is out of range. */
enum mr_status kv_cache_create(struct kv_cache **out, const struct kv_config *config, struct mr_error *err);
void kv_cache_free(struct kv_cache *kv); /* takes NULL */

/* How memory is given to sequences. Whatever is not paged gives each sequence blocks of its own, used or not, and shares none:
 * to measure what paging brings. */
enum kv_policy {
    KV_PAGED,
    KV_RESERVE, /* the longest sequence's blocks, from the beginning */
    KV_GROW     /* a power of two; when they are full twice as many, into which what is there is copied */
};
/* Before the first sequence is opened; a new cache is paged. rows_max: rows of one sequence that are written at a time. */
void kv_set_policy(struct kv_cache *kv, enum kv_policy policy, int rows_max);
/* Make the sequence's own blocks enough for n_token tokens in all, which reserve does, too; nothing where paged. FULL: nothing
 * changed. */
enum mr_status kv_seq_claim(struct kv_cache *kv, kv_seq seq, int n_token);
size_t kv_bytes_copied(const struct kv_cache *kv); /* by growing */

/* Open an empty sequence. FULL: n_seq are open. */
enum mr_status kv_seq_open(struct kv_cache *kv, kv_seq *out);
/* A sequence that shares the first n_token tokens of `from`. FULL: none can be opened. BAD_INPUT: `from` is shorter, or a
 * window group has already given back blocks that the new sequence would read; the cache is not paged. */
enum mr_status kv_seq_fork(struct kv_cache *kv, kv_seq *out, kv_seq from, int n_token);
/* As kv_seq_fork, with a copy of each block, so that nothing is shared. FULL: nothing changed. */
enum mr_status kv_seq_copy(struct kv_cache *kv, kv_seq *out, kv_seq from, int n_token);
void kv_seq_close(struct kv_cache *kv, kv_seq seq);

/* Make room for n_token tokens behind the present ones; a last block that is shared is copied first. FULL: nothing
 * changed, preempt and retry. BAD_INPUT: longer than max_token. */
enum mr_status kv_seq_reserve(struct kv_cache *kv, kv_seq seq, int n_token);
/* n_token tokens, room for which was reserved, have been written; window groups give back what no later token reads. */
void kv_seq_advance(struct kv_cache *kv, kv_seq seq, int n_token);
/* The next tokens to be written end with n_token drafts, which may be taken back: until kv_seq_settle window groups keep what a
 * token in their place reads. */
void kv_seq_expect_drafts(struct kv_cache *kv, kv_seq seq, int n_token);
/* Keep the first n_token tokens, of which at most the expected drafts are taken back. */
void kv_seq_settle(struct kv_cache *kv, kv_seq seq, int n_token);
/* Keep the first n_token tokens. BAD_INPUT: nothing changed, blocks that the next token reads have left a window. */
enum mr_status kv_seq_truncate(struct kv_cache *kv, kv_seq seq, int n_token);

int kv_seq_length(const struct kv_cache *kv, kv_seq seq);
/* Block of each KV_BLOCK tokens; borrowed, the pointer stays valid until kv_cache_free, the entries until the next
 * reserve, advance, truncate or close. */
const uint32_t *kv_seq_blocks(const struct kv_cache *kv, kv_seq seq, int group);

int kv_n_groups(const struct kv_cache *kv);
int kv_n_blocks(const struct kv_cache *kv, int group);
size_t kv_block_bytes(const struct kv_cache *kv, int group);
int kv_n_free_blocks(const struct kv_cache *kv, int group); /* that nobody holds or may count on */
/* Blocks of the group that a sequence of n_token tokens holds at most, rows_max of them written at a time. */
int kv_blocks_needed(const struct kv_cache *kv, int group, int n_token, int rows_max);
/* Blocks that a reserve of n_token tokens would take; 0 where there is room. */
int kv_blocks_missing(const struct kv_cache *kv, kv_seq seq, int group, int n_token);

/* Blocks held beside the sequences' own, by an index of prefixes: one more owner, one less. */
void kv_block_hold(struct kv_cache *kv, int group, uint32_t block);
void kv_block_drop(struct kv_cache *kv, int group, uint32_t block);
int kv_block_owners(const struct kv_cache *kv, int group, uint32_t block);
bool kv_has_window(const struct kv_cache *kv, int group);
/* The first block that a token at position n_token reads. */
int kv_first_block(const struct kv_cache *kv, int group, int n_token);
/* Make block b of an empty sequence the one given, sharing it, or KV_NO_BLOCK in front of a window. Blocks come in
 * ascending order, the same b for each group; kv_seq_adopted sets the length, a multiple of KV_BLOCK. */
void kv_seq_adopt(struct kv_cache *kv, kv_seq seq, int group, int b, uint32_t block);
void kv_seq_adopted(struct kv_cache *kv, kv_seq seq, int n_token);
size_t kv_seq_bytes(const struct kv_cache *kv, kv_seq seq); /* of its tokens, less what windows gave back */
size_t kv_bytes(const struct kv_cache *kv);                 /* of all blocks */
size_t kv_bytes_in_use(const struct kv_cache *kv);          /* of blocks that are held, shared ones once, or promised */

#endif
