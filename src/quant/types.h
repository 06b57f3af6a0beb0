/* types.h: the rows of the table in quant.c, one per file of this folder. */
#ifndef QUANT_TYPES_H
#define QUANT_TYPES_H

#include "quant/quant.h"

extern const struct quant quant_f32, quant_f16, quant_bf16;
extern const struct quant quant_q4_0, quant_q4_1, quant_q5_0, quant_q5_1, quant_q8_0, quant_iq4_nl;
extern const struct quant quant_q2_k, quant_q3_k, quant_q4_k, quant_q5_k, quant_q6_k;

#endif
