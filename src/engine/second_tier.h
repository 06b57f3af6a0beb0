/* second_tier.h: the second tier of the prefix cache (cache/block_tier.h) in the engine: blocks that leave the key/value
 * memory are kept, and a prompt that finds blocks there takes them back, wherever copying costs less than computing by what
 * both have cost so far. A sequence that was put aside finds its own blocks the same way.
 * Threads: the engine's. */
#ifndef ENGINE_SECOND_TIER_H
#define ENGINE_SECOND_TIER_H

#include "engine/engine_state.h"

/* As the options say; none where they name none, or where there is no prefix cache. */
enum mr_status second_tier_create(struct mr_engine *e, struct mr_error *err);
/* With a folder, what the prefix cache holds is written before. */
void second_tier_free(struct mr_engine *e);

/* Fetch what the tier has of the prompt of a sequence that has no rows of its own yet. true: not all has come, no rows in this
 * step. */
bool second_tier_fetch(struct mr_engine *e, struct sequence *s);
/* A step without rows: let a short time pass if somebody waits for a file. */
void second_tier_wait(struct mr_engine *e);

void second_tier_stats(const struct mr_engine *e, struct mr_engine_stats *out);

#endif
