/* pack_float.c: F32, F16 and BF16 rows to panels [n_in][16] of the same type. */
#include <string.h>

#include "base/fp16.h"
#include "kernels/pack/pack.h"

static size_t bytes_f32(int n_in) { return (size_t)n_in * PANEL_NR * sizeof(float); }
static size_t bytes_half(int n_in) { return (size_t)n_in * PANEL_NR * sizeof(uint16_t); }

static void pack_f32(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    float *to = panel;
    if (n_out < PANEL_NR)
        memset(panel, 0, bytes_f32(n_in));
    for (int o = 0; o < n_out; o++)
        for (int k = 0; k < n_in; k++)
            memcpy(&to[(size_t)k * PANEL_NR + o], (const char *)rows + o * row_bytes + k * sizeof *to, sizeof *to);
}

static void pack_half(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    uint16_t *to = panel;
    if (n_out < PANEL_NR)
        memset(panel, 0, bytes_half(n_in));
    for (int o = 0; o < n_out; o++)
        for (int k = 0; k < n_in; k++)
            memcpy(&to[(size_t)k * PANEL_NR + o], (const char *)rows + o * row_bytes + k * sizeof *to, sizeof *to);
}

static void unpack_f32(float *out, const void *panel, int o, int n_in)
{
    for (int k = 0; k < n_in; k++)
        out[k] = ((const float *)panel)[(size_t)k * PANEL_NR + o];
}

static void unpack_f16(float *out, const void *panel, int o, int n_in)
{
    for (int k = 0; k < n_in; k++)
        out[k] = f32_from_f16(((const uint16_t *)panel)[(size_t)k * PANEL_NR + o]);
}

static void unpack_bf16(float *out, const void *panel, int o, int n_in)
{
    for (int k = 0; k < n_in; k++)
        out[k] = f32_from_bf16(((const uint16_t *)panel)[(size_t)k * PANEL_NR + o]);
}

const struct matmul_layout layout_f32 = {bytes_f32, pack_f32, unpack_f32};
const struct matmul_layout layout_f16 = {bytes_half, pack_half, unpack_f16};
const struct matmul_layout layout_bf16 = {bytes_half, pack_half, unpack_bf16};
