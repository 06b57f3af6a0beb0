/* types.h: the rows of the table in quant.c, one per file of this folder. */
#ifndef QUANT_TYPES_H
#define QUANT_TYPES_H

#include "quant/fit.h"

extern const struct quant quant_f32, quant_f16, quant_bf16;
extern const struct quant quant_q4_0, quant_q4_1, quant_q5_0, quant_q5_1, quant_q8_0, quant_iq4_nl;
extern const struct quant quant_q2_k, quant_q3_k, quant_q4_k, quant_q5_k, quant_q6_k;

/* Those of fit.h. */
quant_fit_fn q4_0_fit, q4_1_fit, q5_0_fit, q5_1_fit, iq4_nl_fit, q2_k_fit, q3_k_fit, q4_k_fit, q5_k_fit, q6_k_fit;
quant_fit_fn q4_0_2of4_fit, q4_0_4of8_fit; /* sparse.c */

#endif
