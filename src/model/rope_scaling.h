/* rope_scaling.h: the wavelengths of rotary position embeddings and how a file stretches them.
 * Linear: Chen et al. 2023, arXiv:2306.15595. YaRN: Peng et al. 2023, arXiv:2309.00071, section 3.4. Llama 3 files carry a
 * factor for each wavelength in rope_freqs.weight. */
#ifndef MODEL_ROPE_SCALING_H
#define MODEL_ROPE_SCALING_H

#include "model/hparams.h"

/* Plain wavelengths base^(2 i / n_rot), not stretched. */
void rope_plain(struct rope *out, enum rope_style style, int n_rot, double base);

/* From ARCH.rope.freq_base, ARCH.rope.scaling.* and rope_freqs.weight. n_rot from ARCH.rope.dimension_count, else head_dim.
 * NO_SUPPORT: a scaling that this build does not know, by its name. */
enum mr_status rope_read(struct rope *out, const struct hparams *h, const struct gguf *g, enum rope_style style,
                         struct mr_error *err);

#endif
