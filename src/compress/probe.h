/* probe.h: the loss of a model over a few windows of text while some of what its layers compute is taken away: heads whose
 * attention, channels whose activation counts as 0, which is what the model without them would compute.
 * Threads: one calls. */
#ifndef COMPRESS_PROBE_H
#define COMPRESS_PROBE_H

#include "compress/text_windows.h"
#include "train/train_pass.h"

struct probe; /* opaque */

/* The first n_window windows of training, all at a time. m is borrowed. NO_MEMORY: with the bytes that are missing. */
enum mr_status probe_create(struct probe **out, const struct train_model *m, const struct text_windows *windows, int n_window,
                            struct thread_pool *pool, unsigned cpu_features, struct mr_error *err);
void probe_free(struct probe *p); /* takes NULL */

/* What counts: 1 in the beginning, 0 where it is taken away. [n_head] and [n_ff] of a layer. */
float *probe_heads(struct probe *p, int layer);
float *probe_channels(struct probe *p, int layer);

/* Nats a token. Only layers from `layer` on are computed: what stands before it must be as in the last call from a layer not
 * behind it, the first one from layer 0. */
double probe_loss(struct probe *p, int layer);

#endif
