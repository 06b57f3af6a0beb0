/* pack.h: how weights of each type become panels: the first functions of struct matmul. */
#ifndef KERNELS_PACK_PACK_H
#define KERNELS_PACK_PACK_H

#include "kernels/panel.h"

struct matmul_layout {
    size_t (*panel_bytes)(int n_in);
    void (*pack)(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in);
    void (*unpack)(float *out, const void *panel, int o, int n_in);
};

extern const struct matmul_layout layout_f32, layout_f16, layout_bf16;
extern const struct matmul_layout layout_q4_0, layout_q4_1, layout_q5_0, layout_q5_1, layout_q8_0, layout_iq4_nl;
extern const struct matmul_layout layout_q8_0_2of4, layout_q8_0_4of8, layout_q4_0_2of4, layout_q4_0_4of8;
extern const struct matmul_layout layout_bf16_2of4, layout_bf16_4of8;
extern const struct matmul_layout layout_q2_k, layout_q3_k, layout_q4_k, layout_q5_k, layout_q6_k;

/* Fill one place of the table. */
static inline void matmul_set(struct kernels *k, enum quant_type type, enum activation activation, const char *name,
                              const struct matmul_layout *layout,
                              void (*run)(float *, size_t, const void *, const void *, size_t, int, int, int))
{
    k->matmul[type][activation] =
        (struct matmul){name, PANEL_NR, activation, layout->panel_bytes, layout->pack, layout->unpack, run};
}

#endif
