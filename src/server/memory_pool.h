/* memory_pool.h: a budget in bytes as tokens of the cache. */
#ifndef SERVER_MEMORY_POOL_H
#define SERVER_MEMORY_POOL_H

#include "millrace.h"

/* Set options->kv_tokens so that keys, values, and what is remembered beside them take at most so many bytes. BAD_INPUT: there
 * is no room for a single block. */
enum mr_status memory_pool_divide(struct mr_options *options, const struct mr_model *model, size_t bytes, struct mr_error *err);

#endif
