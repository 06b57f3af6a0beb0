/* memory_pool.h: a budget in bytes as tokens of the cache. */
#ifndef SERVER_MEMORY_POOL_H
#define SERVER_MEMORY_POOL_H

#include "millrace.h"

/* Set options->kv_tokens so that keys, values, and what is remembered beside them take at most so many bytes. BAD_INPUT: there
 * is no room for a single block. */
enum mr_status memory_pool_divide(struct mr_options *options, const struct mr_model *model, size_t bytes, struct mr_error *err);

/* Where nothing says how much the cache holds: set options->kv_tokens to what three quarters of the free memory have room for,
 * unless all sequences at their full length need no more. NO_MEMORY: not even one sequence does. */
enum mr_status memory_pool_fit(struct mr_options *options, const struct mr_model *model, size_t free_bytes,
                               struct mr_error *err);

#endif
