/* matmul_q8_256.h: products of int8 activations in registers of 256 bits, the source of both variants (panel_avx2.h says what
 * tells them apart). One row reads the packed weights once, as they stand. More rows share an expansion of a few blocks to
 * bytes, which stays in the first-level cache, and run over it in tiles. */
#ifndef KERNELS_X86_MATMUL_Q8_256_H
#define KERNELS_X86_MATMUL_Q8_256_H

#include "kernels/matmul_q8_types.h"
#include "kernels/x86/panel_avx2.h"
#include "kernels/x86/panel_walk.h"

enum {
    STREAMS = 2, /* panels that one or two rows read side by side: 1.1 to 1.2 times the rate of one; 4 vary by shape */
    PREFETCH_BYTES = 1024, /* ahead of the block at work; 512 to 2048 differ little, none is a quarter slower */
    HALF_BYTES = PANEL_STEP / 2,
    CHUNK_BYTES = 8192, /* expanded weights: a quarter of a first-level cache */
    CHUNK_BLOCKS = CHUNK_BYTES / (PANEL_STEPS * PANEL_STEP),
    TILE_ROWS = 4,  /* 4 rows x 2 halves: 8 sums, 2 weights, 1 activation in 16 registers */
    FEW_ROWS = 12,  /* below, unpacking for every four rows beats an expansion: 8 rows 1.16 to 1.35, 16 rows 1.0 */
    BLOCK_ROWS = 64 /* rows that share an expansion */
};

/* Activations 4 s .. 4 s + 3 of block b, in all lanes. */
SIMD_INLINE __m256i load_x(const struct tile_rows *rows, int r, int b, int s)
{
    return simd_broadcast_32(q8_q(row_at(rows, r)) + b * Q8_BLOCK + 4 * s);
}

SIMD_INLINE void half_sums_signed(enum quant_type type, __m256i isum[TILE_ROWS], const uint8_t *planes,
                                  const struct tile_rows *rows, int n_row, int b)
{
    for (int r = 0; r < n_row; r++)
        isum[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int s = 0; s < PANEL_STEPS; s++) {
        const __m256i w = load_step(type, planes, s), magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++)
            isum[r] = add_signed(isum[r], w, magnitude, load_x(rows, r, b, s));
    }
}

/* The activations that step t of block b meets: at 2 of 4 eight, at 4 of 8 sixteen. */
SIMD_INLINE __m256i load_sparse_x(enum panel_pattern pattern, const void *row, int b, int t)
{
    const int8_t *q = q8_q(row) + b * Q8_BLOCK;
    return pattern == PANEL_2_OF_4 ? simd_broadcast_64(q + 8 * t) : simd_broadcast_128(q + 16 * (t / 2));
}

/* Of a sparse type, offset included: the slots meet those of the activations of their step that stand where they do. */
SIMD_INLINE void half_sums_sparse(enum quant_type type, __m256i isum[TILE_ROWS], const uint8_t *planes,
                                  const struct tile_rows *rows, int n_row, int b)
{
    const struct panel_format f = panel_formats[type];
    for (int r = 0; r < n_row; r++)
        isum[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int t = 0; t < PANEL_KEPT_STEPS; t++) {
        const __m256i places = load_places(f.pattern, planes, t), u = load_slots(type, planes, t);
        const __m256i w = is_signed(type) ? u : _mm256_sub_epi8(u, _mm256_set1_epi8((char)f.offset));
        const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            const __m256i x = load_sparse_x(f.pattern, row_at(rows, r), b, t);
            isum[r] = add_signed(isum[r], w, magnitude, _mm256_shuffle_epi8(x, places));
        }
    }
}

/* One half of block b times n_row rows, straight from the packed planes: the sums without offset. */
SIMD_INLINE void half_sums(enum quant_type type, __m256i isum[TILE_ROWS], const uint8_t *planes,
                           const struct half_scales *scales, const struct tile_rows *rows, int n_row, int b)
{
    if (is_signed(type)) {
        half_sums_signed(type, isum, planes, rows, n_row, b);
        return;
    }
#pragma GCC unroll 4
    for (int g = 0; g < n_groups(type); g++) {
        __m256i sum[TILE_ROWS];
        for (int r = 0; r < n_row; r++)
            sum[r] = _mm256_setzero_si256();
        simd_reload();
#pragma GCC unroll 8
        for (int i = 0; i < group_steps(type); i++) {
            const int s = g * group_steps(type) + i;
            const __m256i w = load_step(type, planes, s);
#pragma GCC unroll 4
            for (int r = 0; r < n_row; r++) {
                sum[r] = add_products(sum[r], w, load_x(rows, r, b, s));
            }
        }
        for (int r = 0; r < n_row; r++) {
            const __m256i part = scale_group(type, sum[r], g, scales);
            isum[r] = g == 0 ? part : _mm256_add_epi32(isum[r], part);
        }
    }
}

SIMD_INLINE void prefetch_block(enum quant_type type, const uint8_t *body)
{
    const size_t bytes = panel_unit_bytes(panel_formats[type]) / panel_formats[type].n_block;
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)body + PREFETCH_BYTES + i, _MM_HINT_T0);
}

/* One block of 16 outputs, straight from its packed bytes. */
SIMD_INLINE void add_packed_block(enum quant_type type, __m256 acc[TILE_ROWS][2], const uint8_t *head, const uint8_t *body,
                                  const struct tile_rows *rows, int n_row, int b)
{
    const struct panel_format f = panel_formats[type];
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const struct half_scales scales = load_scales(type, body + SIMD_FLOATS * h);
        const uint8_t *planes = body + panel_scale_bytes(f) + HALF_BYTES * h;
        const __m256 d = simd_load_f16(head + 2 * SIMD_FLOATS * h);
        const __m256 m = f.has_min ? simd_load_f16(head + PANEL_HALVES + 2 * SIMD_FLOATS * h) : d;
        __m256i isum[TILE_ROWS];
        if (f.pattern != PANEL_ALL)
            half_sums_sparse(type, isum, planes, rows, n_row, b);
        else
            half_sums(type, isum, planes, &scales, rows, n_row, b);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            const struct row_scales row = load_row_scales(row_at(rows, r), rows->n_in, b);
            if (f.pattern == PANEL_ALL)
                isum[r] = add_offset(type, isum[r], scales.pair, &row);
            acc[r][h] = add_block(type, acc[r][h], d, m, isum[r], scales.pair, &row);
        }
    }
}

/* Panels whose outputs begin at o, o + stream_outputs, ...: n_stream of them side by side. */
SIMD_INLINE void few_panels(enum quant_type type, float *out, size_t ld_out, const uint8_t *packed,
                            const struct tile_rows *rows, int n_row, int n_stream, int stream_outputs, int n_out)
{
    const size_t stream_bytes = panel_bytes(type, rows->n_in) * (size_t)(stream_outputs / PANEL_NR);
    const int n_block = rows->n_in / Q8_BLOCK;
    struct cursor at = cursor_at(type, packed);
    __m256 acc[STREAMS][TILE_ROWS][2];
    for (int p = 0; p < n_stream; p++)
        for (int r = 0; r < n_row; r++)
            acc[p][r][0] = acc[p][r][1] = _mm256_setzero_ps();
    for (int b = 0; b < n_block; b++) {
        for (int p = 0; p < n_stream; p++) {
            const uint8_t *body = at.body + (size_t)p * stream_bytes;
            prefetch_block(type, body);
            add_packed_block(type, acc[p], at.head + (size_t)p * stream_bytes, body, rows, n_row, b);
        }
        cursor_next(type, &at);
    }
    for (int p = 0; p < n_stream; p++)
        for (int r = 0; r < n_row; r++) {
            const int o = p * stream_outputs;
            simd_store_16(out + (size_t)r * ld_out + o, acc[p][r][0], acc[p][r][1], n_out - o);
        }
}

/* One row, or a row and its second term, waits for memory alone, which serves several streams better. */
SIMD_INLINE void streamed_rows(enum quant_type type, float *out, size_t ld_out, const uint8_t *packed,
                               const struct tile_rows *rows, int n_row, int n_out)
{
    const int n_each = n_out / (STREAMS * PANEL_NR) * PANEL_NR;
    const size_t bytes = panel_bytes(type, rows->n_in);
    for (int o = 0; o < n_each; o += PANEL_NR)
        few_panels(type, out + o, ld_out, packed + (size_t)(o / PANEL_NR) * bytes, rows, n_row, STREAMS, n_each, n_out - o);
    for (int o = STREAMS * n_each; o < n_out; o += PANEL_NR)
        few_panels(type, out + o, ld_out, packed + (size_t)(o / PANEL_NR) * bytes, rows, n_row, 1, 0, n_out - o);
}

/* One or two rows. */
SIMD_INLINE void one_or_two_rows(enum quant_type type, float *out, size_t ld_out, const uint8_t *packed,
                                 const struct tile_rows *rows, int n_row, int n_out)
{
    if (n_row == 2)
        streamed_rows(type, out, ld_out, packed, rows, 2, n_out);
    else
        streamed_rows(type, out, ld_out, packed, rows, 1, n_out);
}

/* Few rows: an expansion would not pay. A panel comes from memory once; what a second tile reads is in the caches. Rows that
 * are no tile go over the weights again: a function for each number of them would double the time to compile. */
SIMD_INLINE void few_rows(enum quant_type type, float *out, size_t ld_out, const uint8_t *packed, const struct tile_rows *rows,
                          int n_row, int n_out)
{
    const size_t bytes = panel_bytes(type, rows->n_in);
    const int n_tiled = n_row / TILE_ROWS * TILE_ROWS;
    for (int o = 0; n_tiled > 0 && o < n_out; o += PANEL_NR)
        for (int r = 0; r < n_tiled; r += TILE_ROWS) {
            const struct tile_rows here = {row_at(rows, r), rows->ld_x, rows->n_in};
            few_panels(type, out + (size_t)r * ld_out + o, ld_out, packed + (size_t)(o / PANEL_NR) * bytes, &here, TILE_ROWS, 1,
                       0, n_out - o);
        }
    for (int r = n_tiled; r < n_row; r += 2) {
        const struct tile_rows here = {row_at(rows, r), rows->ld_x, rows->n_in};
        one_or_two_rows(type, out + (size_t)r * ld_out, ld_out, packed, &here, n_row - r >= 2 ? 2 : 1, n_out);
    }
}

/* Some blocks of a panel, expanded. */
struct chunk {
    _Alignas(64) uint8_t u[CHUNK_BYTES]; /* [block][step][16 outputs][4 k] */
    struct chunk_scales {
        float d[PANEL_NR], m[PANEL_NR];
        struct half_scales half[2];
    } scales[CHUNK_BLOCKS];
};

SIMD_INLINE void expand(enum quant_type type, struct chunk *chunk, struct cursor *at, int n_block)
{
    const struct panel_format f = panel_formats[type];
    uint8_t *u = chunk->u;
    for (int b = 0; b < n_block; b++, u += expanded_steps(type) * PANEL_STEP) {
        struct chunk_scales *to = &chunk->scales[b];
        for (int h = 0; h < 2; h++) {
            _mm256_storeu_ps(to->d + SIMD_FLOATS * h, simd_load_f16(at->head + 2 * SIMD_FLOATS * h));
            if (f.has_min)
                _mm256_storeu_ps(to->m + SIMD_FLOATS * h, simd_load_f16(at->head + PANEL_HALVES + 2 * SIMD_FLOATS * h));
            to->half[h] = load_scales(type, at->body + SIMD_FLOATS * h);
            const uint8_t *planes = at->body + panel_scale_bytes(f) + HALF_BYTES * h;
#pragma GCC unroll 8
            for (int s = 0; s < PANEL_STEPS; s++) {
                const __m256i w = load_step(type, planes, s);
                simd_store(u + s * PANEL_STEP + HALF_BYTES * h, w);
                if (is_signed(type))
                    simd_store(u + (PANEL_STEPS + s) * PANEL_STEP + HALF_BYTES * h, _mm256_abs_epi8(w));
            }
        }
        cursor_next(type, at);
    }
}

/* The sums of one group of steps: n_row rows x 16 outputs. */
SIMD_INLINE void tile_group(enum quant_type type, __m256i sum[TILE_ROWS][2], const uint8_t *u, const struct tile_rows *rows,
                            int n_row, int first, int b)
{
    for (int r = 0; r < n_row; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    simd_reload();
#pragma GCC unroll 8
    for (int i = 0; i < group_steps(type); i++) {
        const int s = first + i;
        const __m256i w0 = simd_load(u + s * PANEL_STEP), w1 = simd_load(u + s * PANEL_STEP + HALF_BYTES);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            const __m256i x = load_x(rows, r, b, s);
            sum[r][0] = add_products(sum[r][0], w0, x);
            sum[r][1] = add_products(sum[r][1], w1, x);
        }
    }
}

/* The sums of one block of a signed type. */
SIMD_INLINE void tile_signed(__m256i isum[TILE_ROWS][2], const uint8_t *u, const struct tile_rows *rows, int n_row, int b)
{
    for (int r = 0; r < n_row; r++)
        isum[r][0] = isum[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int s = 0; s < PANEL_STEPS; s++) {
        const uint8_t *at = u + s * PANEL_STEP, *magnitude = at + PANEL_STEPS * PANEL_STEP;
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            const __m256i x = load_x(rows, r, b, s);
            isum[r][0] = add_signed(isum[r][0], simd_load(at), simd_load(magnitude), x);
            isum[r][1] = add_signed(isum[r][1], simd_load(at + HALF_BYTES), simd_load(magnitude + HALF_BYTES), x);
        }
    }
}

/* The sums of one block, without offset. */
SIMD_INLINE void tile_sums(enum quant_type type, __m256i isum[TILE_ROWS][2], const uint8_t *u, const struct chunk_scales *w,
                           const struct tile_rows *rows, int n_row, int b)
{
    if (is_signed(type)) {
        tile_signed(isum, u, rows, n_row, b);
        return;
    }
#pragma GCC unroll 4
    for (int g = 0; g < n_groups(type); g++) {
        __m256i sum[TILE_ROWS][2];
        tile_group(type, sum, u, rows, n_row, g * group_steps(type), b);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++)
            for (int h = 0; h < 2; h++) {
                const __m256i part = scale_group(type, sum[r][h], g, &w->half[h]);
                isum[r][h] = g == 0 ? part : _mm256_add_epi32(isum[r][h], part);
            }
    }
}

/* Add blocks first .. first + n_block of n_row rows to acc[row][16]. */
SIMD_INLINE void tile(enum quant_type type, float (*acc)[PANEL_NR], const struct chunk *chunk, struct tile_rows rows, int n_row,
                      int first, int n_block)
{
    for (int b = 0; b < n_block; b++) {
        const uint8_t *u = chunk->u + b * expanded_steps(type) * PANEL_STEP;
        const struct chunk_scales *w = &chunk->scales[b];
        __m256i isum[TILE_ROWS][2];
        tile_sums(type, isum, u, w, &rows, n_row, first + b);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            const struct row_scales row = load_row_scales(row_at(&rows, r), rows.n_in, first + b);
            for (int h = 0; h < 2; h++) {
                float *at = acc[r] + SIMD_FLOATS * h;
                const __m256 d = _mm256_loadu_ps(w->d + SIMD_FLOATS * h), m = _mm256_loadu_ps(w->m + SIMD_FLOATS * h);
                const __m256i sum = add_offset(type, isum[r][h], w->half[h].pair, &row);
                _mm256_storeu_ps(at, add_block(type, _mm256_loadu_ps(at), d, m, sum, w->half[h].pair, &row));
            }
        }
    }
}

/* All blocks of one panel for n_row <= BLOCK_ROWS rows. */
SIMD_INLINE void panel_rows(enum quant_type type, float (*acc)[PANEL_NR], const uint8_t *panel, struct tile_rows rows,
                            int n_row)
{
    struct chunk chunk;
    struct cursor at = cursor_at(type, panel);
    const int per_chunk = CHUNK_BYTES / (expanded_steps(type) * PANEL_STEP);
    const int n_block = rows.n_in / Q8_BLOCK;
    for (int first = 0; first < n_block; first += per_chunk) {
        const int n = n_block - first < per_chunk ? n_block - first : per_chunk;
        expand(type, &chunk, &at, n);
        int r = 0;
        for (; r + TILE_ROWS <= n_row; r += TILE_ROWS) {
            const struct tile_rows here = {rows.x + (size_t)r * rows.ld_x, rows.ld_x, rows.n_in};
            tile(type, acc + r, &chunk, here, TILE_ROWS, first, n);
        }
        for (; r < n_row; r++) {
            const struct tile_rows here = {rows.x + (size_t)r * rows.ld_x, rows.ld_x, rows.n_in};
            tile(type, acc + r, &chunk, here, 1, first, n);
        }
    }
}

SIMD_INLINE void run(enum quant_type type, float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row,
                     int n_out, int n_in)
{
    const struct tile_rows all = {x, ld_x, n_in};
    if (n_row <= FEW_ROWS) {
        few_rows(type, out, ld_out, packed, &all, n_row, n_out);
        return;
    }
    const size_t bytes = panel_bytes(type, n_in);
    for (int first = 0; first < n_row; first += BLOCK_ROWS) {
        const int n = n_row - first < BLOCK_ROWS ? n_row - first : BLOCK_ROWS;
        const struct tile_rows rows = {(const char *)x + (size_t)first * ld_x, ld_x, n_in};
        const uint8_t *panel = packed;
        for (int o = 0; o < n_out; o += PANEL_NR, panel += bytes) {
            _Alignas(64) float acc[BLOCK_ROWS][PANEL_NR];
            memset(acc, 0, sizeof acc[0] * (size_t)n);
            panel_rows(type, acc, panel, rows, n);
            for (int r = 0; r < n; r++)
                simd_store_16(out + (size_t)(first + r) * ld_out + o, _mm256_load_ps(acc[r]),
                              _mm256_load_ps(acc[r] + SIMD_FLOATS), n_out - o);
        }
    }
}

#endif
