/* matmul_q8_types.h: the block types that have a product with int8 activations. A file that defines
 * run(type, out, ld_out, packed, x, ld_x, n_row, n_out, n_in), inlined with the type as a constant, gets a function for each.
 */
#ifndef KERNELS_MATMUL_Q8_TYPES_H
#define KERNELS_MATMUL_Q8_TYPES_H

#include "kernels/pack/pack.h"

#define MATMUL_Q8_TYPES(X)                                                                                                     \
    X(q4_0, QUANT_Q4_0)                                                                                                        \
    X(q4_1, QUANT_Q4_1)                                                                                                        \
    X(q5_0, QUANT_Q5_0)                                                                                                        \
    X(q5_1, QUANT_Q5_1)                                                                                                        \
    X(q8_0, QUANT_Q8_0)                                                                                                        \
    X(q2_k, QUANT_Q2_K)                                                                                                        \
    X(q3_k, QUANT_Q3_K)                                                                                                        \
    X(q4_k, QUANT_Q4_K)                                                                                                        \
    X(q5_k, QUANT_Q5_K)                                                                                                        \
    X(q6_k, QUANT_Q6_K)                                                                                                        \
    X(iq4_nl, QUANT_IQ4_NL)

/* Those that store half of the weights; not every instruction set has products of its own for them. */
#define MATMUL_Q8_SPARSE_TYPES(X)                                                                                              \
    X(q8_0_2of4, QUANT_Q8_0_2OF4)                                                                                              \
    X(q8_0_4of8, QUANT_Q8_0_4OF8)                                                                                              \
    X(q4_0_2of4, QUANT_Q4_0_2OF4)                                                                                              \
    X(q4_0_4of8, QUANT_Q4_0_4OF8)

#define MATMUL_Q8_RUN(name, type)                                                                                              \
    static void run_##name(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out,    \
                           int n_in)                                                                                           \
    {                                                                                                                          \
        run(type, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);                                                           \
    }

#define MATMUL_Q8_SET(name, type) matmul_set(k, type, ACTIVATION_Q8, #name "_q8_" MATMUL_ISA, &layout_##name, run_##name);

#endif
