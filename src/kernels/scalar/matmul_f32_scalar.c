/* matmul_f32_scalar.c: products of float activations, the reference: acc += w[k] * x[k], k ascending; of sparse
 * types over the stored weights only. */
#include "base/fp16.h"
#include "kernels/pack/sparse_bf16.h"
#include "kernels/scalar/scalar.h"

typedef float convert_fn(const void *w, size_t i);

static float from_f32(const void *w, size_t i) { return ((const float *)w)[i]; }
static float from_f16(const void *w, size_t i) { return f32_from_f16(((const uint16_t *)w)[i]); }
static float from_bf16(const void *w, size_t i) { return f32_from_bf16(((const uint16_t *)w)[i]); }

/* One panel and one row: sixteen sums side by side. */
static inline void row(float *acc, convert_fn *convert, const void *panel, const float *x, int n_in)
{
    for (int o = 0; o < PANEL_NR; o++)
        acc[o] = 0;
    for (int k = 0; k < n_in; k++)
        for (int o = 0; o < PANEL_NR; o++)
            acc[o] += convert(panel, (size_t)k * PANEL_NR + o) * x[k];
}

static inline void run(convert_fn *convert, size_t panel_bytes, float *out, size_t ld_out, const void *packed, const void *x,
                       size_t ld_x, int n_row, int n_out, int n_in)
{
    float acc[PANEL_NR];
    for (int first = 0; first < n_out; first += PANEL_NR, packed = (const char *)packed + panel_bytes)
        for (int r = 0; r < n_row; r++) {
            row(acc, convert, packed, (const float *)((const char *)x + r * ld_x), n_in);
            for (int o = first; o < n_out && o < first + PANEL_NR; o++)
                out[r * ld_out + o] = acc[o - first];
        }
}

static void run_f32(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(from_f32, layout_f32.panel_bytes(n_in), out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

static void run_f16(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(from_f16, layout_f16.panel_bytes(n_in), out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

static void run_bf16(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(from_bf16, layout_bf16.panel_bytes(n_in), out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

/* One output and one row. */
static inline float sparse_dot(bool wide, const uint8_t *group, int o, const float *x, int n_in)
{
    float acc = 0;
    for (int k = 0; k < n_in; k += SPARSE_GROUP, group += sparse_bf16_group_bytes(wide))
        for (int j = 0; j < SPARSE_GROUP_KEPT; j++)
            acc += sparse_bf16_weight(wide, group, o, j) * x[k + sparse_bf16_place(wide, group, o, j)];
    return acc;
}

static inline void run_sparse(bool wide, float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row,
                              int n_out, int n_in)
{
    for (int o = 0; o < n_out; o++) {
        const uint8_t *panel = (const uint8_t *)packed + (size_t)(o / PANEL_NR) * sparse_bf16_panel_bytes(wide, n_in);
        for (int r = 0; r < n_row; r++)
            out[r * ld_out + o] = sparse_dot(wide, panel, o % PANEL_NR, (const float *)((const char *)x + r * ld_x), n_in);
    }
}

static void run_bf16_2of4(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out,
                          int n_in)
{
    run_sparse(false, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

static void run_bf16_4of8(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out,
                          int n_in)
{
    run_sparse(true, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

void matmul_f32_init_scalar(struct kernels *k)
{
    matmul_set(k, QUANT_F32, ACTIVATION_F32, "f32_f32_scalar", &layout_f32, run_f32);
    matmul_set(k, QUANT_F16, ACTIVATION_F32, "f16_f32_scalar", &layout_f16, run_f16);
    matmul_set(k, QUANT_BF16, ACTIVATION_F32, "bf16_f32_scalar", &layout_bf16, run_bf16);
    matmul_set(k, QUANT_BF16_2OF4, ACTIVATION_F32, "bf16_2of4_f32_scalar", &layout_bf16_2of4, run_bf16_2of4);
    matmul_set(k, QUANT_BF16_4OF8, ACTIVATION_F32, "bf16_4of8_f32_scalar", &layout_bf16_4of8, run_bf16_4of8);
}
