/* mix.h: which block type each tensor of a model gets: the mixes that users know by name (q4_k_m), where a few tensors that
 * the loss depends on most have more bits than the rest; rules of one's own; and what fits a row. */
#ifndef COMPRESS_MIX_H
#define COMPRESS_MIX_H

#include "format/gguf.h"

struct mix; /* opaque: a row of the table */

/* By name: "q4_k_m", or a block type's own: "q8_0", "f16". NULL: there is none. */
const struct mix *mix_find(const char *name);
/* The i-th, NULL past the end. */
const struct mix *mix_at(int i);
const char *mix_name(const struct mix *m);
/* What GGUF's key general.file_type calls it. */
uint32_t mix_file_type(const struct mix *m);

/* Where a tensor stands: what the mixes look at. */
struct mix_model {
    int n_layer;
    bool is_tied; /* there is no output.weight: the embedding is the head, too */
    bool is_pure; /* every matrix gets the base type */
};

/* A matrix that products read, whose type may be chosen: two dimensions or more, rows longer than 1; no norm, no bias, no
 * router of experts (a rounded score may choose another expert), no table of positions. */
bool mix_is_matrix(const struct gguf_tensor *t);

/* The type that the mix wants for this matrix; whether its rows fit is another question. */
const struct quant *mix_type(const struct mix *m, const struct mix_model *model, const struct gguf_tensor *t);

/* The type itself where rows of n weights are whole blocks of it; else the nearest that fits: a type of blocks of 32 with at
 * least as many bits (q2_k, q3_k: iq4_nl; q4_k: q5_0; q5_k: q5_1; q6_k: q8_0), and f16 where n is no multiple of 32. */
const struct quant *mix_fitting(const struct quant *q, int64_t n);

#endif
