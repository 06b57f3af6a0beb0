/* layer_avx2.c: norm, gated products, rope and cache writes with AVX2: the reference's operations, and its bits. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <math.h>
#include <stdbool.h>

#include "base/fp16.h"
#include "kernels/scalar/scalar.h"
#include "kernels/x86/float_math_avx2.h"
#include "kernels/x86/x86.h"

static void rms_norm_avx2(float *out, const float *x, const float *w, float eps, int n)
{
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    int i = 0;
    for (; i + NORM_LANES <= n; i += NORM_LANES)
        for (int h = 0; h < 2; h++) {
            const __m256 v = _mm256_loadu_ps(x + i + SIMD_FLOATS * h);
            sum[h] = _mm256_add_ps(sum[h], _mm256_mul_ps(v, v));
        }
    float lanes[NORM_LANES];
    _mm256_storeu_ps(lanes, sum[0]);
    _mm256_storeu_ps(lanes + SIMD_FLOATS, sum[1]);
    for (int lane = 0; i + lane < n; lane++)
        lanes[lane] += x[i + lane] * x[i + lane];
    const float scale = norm_scale(lanes, eps, n);
    const __m256 s = _mm256_set1_ps(scale);
    for (i = 0; i + SIMD_FLOATS <= n; i += SIMD_FLOATS)
        _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), s), _mm256_loadu_ps(w + i)));
    for (; i < n; i++)
        out[i] = x[i] * scale * w[i];
}

typedef __m256 activate_fn(__m256 x);

SIMD_INLINE __m256 sigmoid(__m256 x)
{
    const __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(-88.0f), _CMP_LT_OQ);
    const __m256 minus = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)), one = _mm256_set1_ps(1);
    return _mm256_div_ps(one, _mm256_add_ps(one, simd_exp(_mm256_blendv_ps(minus, _mm256_set1_ps(88.0f), low))));
}

SIMD_INLINE __m256 silu(__m256 x) { return _mm256_mul_ps(x, sigmoid(x)); }

SIMD_INLINE __m256 gelu(__m256 x)
{
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(0.044715f), x), x), x);
    const __m256 u = _mm256_mul_ps(_mm256_set1_ps(0.797884560802865f), _mm256_add_ps(x, cube));
    return _mm256_mul_ps(x, sigmoid(_mm256_mul_ps(_mm256_set1_ps(2), u)));
}

SIMD_INLINE void glu(activate_fn *f, float *out, const float *gate, const float *up, int n)
{
    int i = 0;
    for (; i + SIMD_FLOATS <= n; i += SIMD_FLOATS)
        _mm256_storeu_ps(out + i, _mm256_mul_ps(f(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    if (i == n)
        return;
    float rest[2][SIMD_FLOATS] = {{0}};
    const size_t bytes = (size_t)(n - i) * sizeof(float);
    memcpy(rest[0], gate + i, bytes);
    memcpy(rest[1], up + i, bytes);
    _mm256_storeu_ps(rest[0], _mm256_mul_ps(f(_mm256_loadu_ps(rest[0])), _mm256_loadu_ps(rest[1])));
    memcpy(out + i, rest[0], bytes);
}

SIMD_INLINE void activate(activate_fn *f, float *x, int n)
{
    int i = 0;
    for (; i + SIMD_FLOATS <= n; i += SIMD_FLOATS)
        _mm256_storeu_ps(x + i, f(_mm256_loadu_ps(x + i)));
    if (i == n)
        return;
    float rest[SIMD_FLOATS] = {0};
    const size_t bytes = (size_t)(n - i) * sizeof(float);
    memcpy(rest, x + i, bytes);
    _mm256_storeu_ps(rest, f(_mm256_loadu_ps(rest)));
    memcpy(x + i, rest, bytes);
}

static void silu_avx2(float *x, int n) { activate(silu, x, n); }
static void gelu_avx2(float *x, int n) { activate(gelu, x, n); }

static void add_gelu_avx2(float *x, const float *b, int n)
{
    int i = 0;
    for (; i + SIMD_FLOATS <= n; i += SIMD_FLOATS)
        _mm256_storeu_ps(x + i, gelu(_mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(b + i))));
    for (; i < n; i++)
        x[i] = gelu_value(x[i] + b[i]);
}

/* The two statistics of a row: its mean, and 1 / sqrt(variance + eps). */
struct row_statistics {
    float mean, scale;
};

SIMD_INLINE struct row_statistics row_statistics(const float *x, float eps, int n)
{
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    float lanes[NORM_LANES];
    int i = 0;
    for (; i + NORM_LANES <= n; i += NORM_LANES)
        for (int h = 0; h < 2; h++)
            sum[h] = _mm256_add_ps(sum[h], _mm256_loadu_ps(x + i + SIMD_FLOATS * h));
    _mm256_storeu_ps(lanes, sum[0]);
    _mm256_storeu_ps(lanes + SIMD_FLOATS, sum[1]);
    for (int lane = 0; i + lane < n; lane++)
        lanes[lane] += x[i + lane];
    const float mean = norm_lanes_sum(lanes) / (float)n;
    const __m256 m = _mm256_set1_ps(mean);
    sum[0] = sum[1] = _mm256_setzero_ps();
    for (i = 0; i + NORM_LANES <= n; i += NORM_LANES)
        for (int h = 0; h < 2; h++) {
            const __m256 v = _mm256_sub_ps(_mm256_loadu_ps(x + i + SIMD_FLOATS * h), m);
            sum[h] = _mm256_add_ps(sum[h], _mm256_mul_ps(v, v));
        }
    _mm256_storeu_ps(lanes, sum[0]);
    _mm256_storeu_ps(lanes + SIMD_FLOATS, sum[1]);
    for (int lane = 0; i + lane < n; lane++)
        lanes[lane] += (x[i + lane] - mean) * (x[i + lane] - mean);
    return (struct row_statistics){mean, norm_scale(lanes, eps, n)};
}

SIMD_INLINE void layer_norm(bool with_gelu, float *out, const float *x, const float *w, const float *b, float eps, int n)
{
    const struct row_statistics row = row_statistics(x, eps, n);
    const __m256 mean = _mm256_set1_ps(row.mean), scale = _mm256_set1_ps(row.scale);
    int i = 0;
    for (; i + SIMD_FLOATS <= n; i += SIMD_FLOATS) {
        const __m256 v = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), mean), scale);
        const __m256 y = _mm256_add_ps(_mm256_mul_ps(v, _mm256_loadu_ps(w + i)), _mm256_loadu_ps(b + i));
        _mm256_storeu_ps(out + i, with_gelu ? gelu(y) : y);
    }
    for (; i < n; i++) {
        const float y = (x[i] - row.mean) * row.scale * w[i] + b[i];
        out[i] = with_gelu ? gelu_value(y) : y;
    }
}

static void layer_norm_avx2(float *out, const float *x, const float *w, const float *b, float eps, int n)
{
    layer_norm(false, out, x, w, b, eps, n);
}

static void layer_norm_gelu_avx2(float *out, const float *x, const float *w, const float *b, float eps, int n)
{
    layer_norm(true, out, x, w, b, eps, n);
}

static void glu_silu_avx2(float *out, const float *gate, const float *up, int n) { glu(silu, out, gate, up, n); }
static void glu_gelu_avx2(float *out, const float *gate, const float *up, int n) { glu(gelu, out, gate, up, n); }

static void rope_halves_avx2(float *x, const float *cosine, const float *sine, int n_rot)
{
    const int half = n_rot / 2;
    int i = 0;
    for (; i + SIMD_FLOATS <= half; i += SIMD_FLOATS) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i);
        const __m256 c = _mm256_loadu_ps(cosine + i), s = _mm256_loadu_ps(sine + i);
        _mm256_storeu_ps(x + i, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + half + i, _mm256_add_ps(_mm256_mul_ps(b, c), _mm256_mul_ps(a, s)));
    }
    for (; i < half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = a * cosine[i] - b * sine[i];
        x[i + half] = b * cosine[i] + a * sine[i];
    }
}

/* Four pairs a step: (a c - b s, b c + a s); the subtraction stands in the even lanes. */
static void rope_pairs_avx2(float *x, const float *cosine, const float *sine, int n_rot)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    int i = 0;
    for (; 2 * i + SIMD_FLOATS <= n_rot; i += SIMD_FLOATS / 2) {
        const __m256 v = _mm256_loadu_ps(x + 2 * i), swapped = _mm256_permute_ps(v, 0xb1);
        const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cosine + i)), twice);
        const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sine + i)), twice);
        _mm256_storeu_ps(x + 2 * i, _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(swapped, s)));
    }
    for (; 2 * i < n_rot; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
}

typedef __m128i round_fn(__m256 x);

SIMD_INLINE __m128i round_f16(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

SIMD_INLINE __m128i round_bf16(__m256 x)
{
    const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i r = _mm256_blendv_epi8(rounded, quiet, is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}

SIMD_INLINE void kv_write_16(round_fn *round, uint16_t (*round_one)(float), void *head_block, int slot, const float *k,
                             const float *v, int head_dim)
{
    uint16_t *kt = head_block, *vt = kt + ATTENTION_BLOCK * head_dim + slot * head_dim;
    int d = 0;
    for (; d + SIMD_FLOATS <= head_dim; d += SIMD_FLOATS) {
        uint16_t column[SIMD_FLOATS];
        _mm_storeu_si128((__m128i *)column, round(_mm256_loadu_ps(k + d)));
        for (int i = 0; i < SIMD_FLOATS; i++)
            kt[(d + i) * ATTENTION_BLOCK + slot] = column[i];
        _mm_storeu_si128((__m128i *)(vt + d), round(_mm256_loadu_ps(v + d)));
    }
    for (; d < head_dim; d++) {
        kt[d * ATTENTION_BLOCK + slot] = round_one(k[d]);
        vt[d] = round_one(v[d]);
    }
}

static void kv_write_f16_avx2(void *head_block, int slot, const float *k, const float *v, int head_dim)
{
    kv_write_16(round_f16, f16_from_f32, head_block, slot, k, v, head_dim);
}

static void kv_write_bf16_avx2(void *head_block, int slot, const float *k, const float *v, int head_dim)
{
    kv_write_16(round_bf16, bf16_from_f32, head_block, slot, k, v, head_dim);
}

static void soft_cap_avx2(float *x, float cap, int n)
{
    int i = 0;
    for (; i + SIMD_FLOATS <= n; i += SIMD_FLOATS)
        _mm256_storeu_ps(x + i, simd_soft_cap(_mm256_loadu_ps(x + i), _mm256_set1_ps(cap)));
    for (; i < n; i++)
        x[i] = soft_cap_value(x[i], cap);
}

static void add_avx2(float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        x[i] += y[i];
}

static void multiply_avx2(float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= y[i];
}

static void add_scaled_avx2(float *x, const float *y, float s, int n)
{
    for (int i = 0; i < n; i++)
        x[i] += y[i] * s;
}

void layer_init_avx2(struct kernels *k)
{
    k->rms_norm = rms_norm_avx2;
    k->layer_norm = layer_norm_avx2;
    k->layer_norm_gelu = layer_norm_gelu_avx2;
    k->activate[GLU_SILU] = silu_avx2;
    k->activate[GLU_GELU] = gelu_avx2;
    k->multiply = multiply_avx2;
    k->add_gelu = add_gelu_avx2;
    k->add = add_avx2;
    k->add_scaled = add_scaled_avx2;
    k->soft_cap = soft_cap_avx2;
    k->glu[GLU_SILU] = glu_silu_avx2;
    k->glu[GLU_GELU] = glu_gelu_avx2;
    k->rope[ROPE_PAIRS] = rope_pairs_avx2;
    k->rope[ROPE_HALVES] = rope_halves_avx2;
    k->kv_write[KV_F16] = kv_write_f16_avx2;
    k->kv_write[KV_BF16] = kv_write_bf16_avx2;
}
#endif
