/* fit.c: the table of searching encoders. */
#include "quant/fit.h"

#include "quant/types.h"

quant_fit_fn *quant_fit_of(enum quant_type type)
{
    static quant_fit_fn *const table[QUANT_TYPE_END] = {
        [QUANT_Q4_0] = q4_0_fit, [QUANT_Q4_1] = q4_1_fit,           [QUANT_Q5_0] = q5_0_fit,
        [QUANT_Q5_1] = q5_1_fit, [QUANT_IQ4_NL] = iq4_nl_fit,       [QUANT_Q2_K] = q2_k_fit,
        [QUANT_Q3_K] = q3_k_fit, [QUANT_Q4_K] = q4_k_fit,           [QUANT_Q5_K] = q5_k_fit,
        [QUANT_Q6_K] = q6_k_fit, [QUANT_Q4_0_2OF4] = q4_0_2of4_fit, [QUANT_Q4_0_4OF8] = q4_0_4of8_fit,
    };
    return type < QUANT_TYPE_END ? table[type] : NULL;
}
