/* matmul_q8_scalar.c: products of int8 activations, the reference. For each block of 32, ascending:
 *   acc += (d * dx) * isum     isum = sum over the halves of scale * sum q x, exact
 *   acc += m * ds              blocks with a float minimum
 *   acc += (m * dx) * imin     K types with minima: imin = sum over the halves of minimum * s, exact */
#include "kernels/matmul_q8_types.h"
#include "kernels/scalar/scalar.h"

enum {
    ROWS = 8 /* rows that share one look at a block of weights */
};

static int dot_16(const int16_t *q, const int8_t *x)
{
    int sum = 0;
    for (int k = 0; k < Q8_BLOCK / 2; k++)
        sum += q[k] * x[k];
    return sum;
}

static float add_block(float acc, const struct panel_column *c, struct panel_format f, const void *x, int n_in, int b)
{
    const int8_t *q = q8_q(x) + b * Q8_BLOCK;
    const float dx = q8_d(x, n_in)[b];
    const int isum = c->scale[0] * dot_16(c->q, q) + c->scale[1] * dot_16(c->q + Q8_BLOCK / 2, q + Q8_BLOCK / 2);
    acc += c->d * dx * (float)isum;
    if (!f.has_min)
        return acc;
    if (f.scale == PANEL_SCALE_NONE)
        return acc + c->m * q8_ds(x, n_in)[b];
    const int16_t *s = q8_s(x, n_in) + 2 * b;
    return acc + c->m * dx * (float)(c->minimum[0] * s[0] + c->minimum[1] * s[1]);
}

/* One output of n_row <= ROWS rows. */
static void output(float *out, size_t ld_out, enum quant_type type, const void *panel, int o, const char *x, size_t ld_x,
                   int n_row, int n_in)
{
    float acc[ROWS] = {0};
    for (int b = 0; b < n_in / Q8_BLOCK; b++) {
        struct panel_column c;
        panel_column(&c, type, panel, b, o);
        for (int r = 0; r < n_row; r++)
            acc[r] = add_block(acc[r], &c, panel_formats[type], x + r * ld_x, n_in, b);
    }
    for (int r = 0; r < n_row; r++)
        out[r * ld_out] = acc[r];
}

static void run(enum quant_type type, float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row,
                int n_out, int n_in)
{
    const size_t bytes = panel_bytes(type, n_in);
    for (int o = 0; o < n_out; o++) {
        const char *panel = (const char *)packed + (size_t)(o / PANEL_NR) * bytes;
        for (int r = 0; r < n_row; r += ROWS)
            output(out + r * ld_out + o, ld_out, type, panel, o % PANEL_NR, (const char *)x + r * ld_x, ld_x,
                   n_row - r < ROWS ? n_row - r : ROWS, n_in);
    }
}

#define MATMUL_ISA "scalar"
MATMUL_Q8_TYPES(MATMUL_Q8_RUN)
MATMUL_Q8_SPARSE_TYPES(MATMUL_Q8_RUN)

void matmul_q8_init_scalar(struct kernels *k)
{
    MATMUL_Q8_TYPES(MATMUL_Q8_SET)
    MATMUL_Q8_SPARSE_TYPES(MATMUL_Q8_SET)
}
