/* replay.h: for measurements: an answer's tokens come from elsewhere, so that what is guessed right does not depend on the
 * model. All else runs as ever, the choice of tokens included. */
#ifndef ENGINE_REPLAY_H
#define ENGINE_REPLAY_H

#include "millrace.h"

/* token: of the answer to the request after n_generated of them; -1: what was chosen. NULL: none is replaced. Between steps. */
void engine_replay(struct mr_engine *e, int32_t (*token)(void *context, uint64_t request, int32_t n_generated), void *context);

#endif
