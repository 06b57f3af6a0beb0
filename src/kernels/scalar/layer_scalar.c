/* layer_scalar.c: norm, gated products, rope and cache writes: the reference. */
#include "base/float_math.h"
#include "base/fp16.h"
#include "kernels/scalar/scalar.h"

static void rms_norm_scalar(float *out, const float *x, const float *w, float eps, int n)
{
    float lanes[NORM_LANES] = {0};
    for (int i = 0; i < n; i++)
        lanes[i % NORM_LANES] += x[i] * x[i];
    const float scale = norm_scale(lanes, eps, n);
    for (int i = 0; i < n; i++)
        out[i] = x[i] * scale * w[i];
}

static void layer_norm_scalar(float *out, const float *x, const float *w, const float *b, float eps, int n)
{
    float lanes[NORM_LANES] = {0}, squares[NORM_LANES] = {0};
    for (int i = 0; i < n; i++)
        lanes[i % NORM_LANES] += x[i];
    const float mean = norm_lanes_sum(lanes) / (float)n;
    for (int i = 0; i < n; i++)
        squares[i % NORM_LANES] += (x[i] - mean) * (x[i] - mean);
    const float scale = norm_scale(squares, eps, n);
    for (int i = 0; i < n; i++)
        out[i] = (x[i] - mean) * scale * w[i] + b[i];
}

static void layer_norm_gelu_scalar(float *out, const float *x, const float *w, const float *b, float eps, int n)
{
    layer_norm_scalar(out, x, w, b, eps, n);
    for (int i = 0; i < n; i++)
        out[i] = gelu_value(out[i]);
}

static void add_scalar(float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        x[i] += y[i];
}

static void multiply_scalar(float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= y[i];
}

static void add_scaled_scalar(float *x, const float *y, float s, int n)
{
    for (int i = 0; i < n; i++)
        x[i] += y[i] * s;
}

static void scale_scalar(float *x, float s, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= s;
}

static void soft_cap_scalar(float *x, float cap, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = soft_cap_value(x[i], cap);
}

static void glu_silu_scalar(float *out, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = gate[i] * sigmoid_value(gate[i]) * up[i];
}

static void glu_gelu_scalar(float *out, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = gelu_value(gate[i]) * up[i];
}

static void silu_scalar(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = x[i] * sigmoid_value(x[i]);
}

static void gelu_scalar(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = gelu_value(x[i]);
}

static void add_gelu_scalar(float *x, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = gelu_value(x[i] + b[i]);
}

static void rope_pairs_scalar(float *x, const float *cosine, const float *sine, int n_rot)
{
    for (int i = 0; i < n_rot / 2; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
}

static void rope_halves_scalar(float *x, const float *cosine, const float *sine, int n_rot)
{
    const int half = n_rot / 2;
    for (int i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = a * cosine[i] - b * sine[i];
        x[i + half] = b * cosine[i] + a * sine[i];
    }
}

static void kv_write_f32_scalar(void *head_block, int slot, const float *k, const float *v, int head_dim)
{
    float *kt = head_block, *vt = kt + ATTENTION_BLOCK * head_dim + slot * head_dim;
    for (int d = 0; d < head_dim; d++) {
        kt[d * ATTENTION_BLOCK + slot] = k[d];
        vt[d] = v[d];
    }
}

static inline void write_16(uint16_t (*round)(float), void *head_block, int slot, const float *k, const float *v, int head_dim)
{
    uint16_t *kt = head_block, *vt = kt + ATTENTION_BLOCK * head_dim + slot * head_dim;
    for (int d = 0; d < head_dim; d++) {
        kt[d * ATTENTION_BLOCK + slot] = round(k[d]);
        vt[d] = round(v[d]);
    }
}

static void kv_write_f16_scalar(void *head_block, int slot, const float *k, const float *v, int head_dim)
{
    write_16(f16_from_f32, head_block, slot, k, v, head_dim);
}

static void kv_write_bf16_scalar(void *head_block, int slot, const float *k, const float *v, int head_dim)
{
    write_16(bf16_from_f32, head_block, slot, k, v, head_dim);
}

void layer_init_scalar(struct kernels *k)
{
    k->rms_norm = rms_norm_scalar;
    k->layer_norm = layer_norm_scalar;
    k->layer_norm_gelu = layer_norm_gelu_scalar;
    k->activate[GLU_SILU] = silu_scalar;
    k->activate[GLU_GELU] = gelu_scalar;
    k->multiply = multiply_scalar;
    k->add_gelu = add_gelu_scalar;
    k->add = add_scalar;
    k->add_scaled = add_scaled_scalar;
    k->scale = scale_scalar;
    k->soft_cap = soft_cap_scalar;
    k->glu[GLU_SILU] = glu_silu_scalar;
    k->glu[GLU_GELU] = glu_gelu_scalar;
    k->rope[ROPE_PAIRS] = rope_pairs_scalar;
    k->rope[ROPE_HALVES] = rope_halves_scalar;
    k->kv_write[KV_F32] = kv_write_f32_scalar;
    k->kv_write[KV_F16] = kv_write_f16_scalar;
    k->kv_write[KV_BF16] = kv_write_bf16_scalar;
    k->kv_write[KV_INT8] = kv_write_int8_scalar;
}
