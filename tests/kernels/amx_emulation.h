/* amx_emulation.h: the AMX intrinsics that kernels use, as functions in plain C after the manual's words (Intel, Software
 * Developer's Manual, volume 2). Where the CPU would raise an exception the process ends. */
#ifndef TESTS_KERNELS_AMX_EMULATION_H
#define TESTS_KERNELS_AMX_EMULATION_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/avx512_emulation.h"

struct emulated_tile {
    int n_row, row_bytes;
    union emulated_512 row[16];
};

static struct {
    int configured;
    struct emulated_tile tile[8];
} emulated_tiles;

#define EMULATED_TILE __attribute__((noinline, unused)) static void

EMULATED_TILE emulated_loadconfig(const void *p)
{
    uint8_t bytes[64];
    memcpy(bytes, p, sizeof bytes);
    memset(&emulated_tiles, 0, sizeof emulated_tiles);
    emulated_tiles.configured = 1;
    if (bytes[0] != 1 || bytes[1] != 0)
        abort();
    for (int i = 2; i < 16; i++)
        if (bytes[i] != 0)
            abort();
    for (int i = 0; i < 16; i++) {
        const int n_row = bytes[48 + i], row_bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8;
        if (n_row > 16 || row_bytes > 64 || (i >= 8 && (n_row != 0 || row_bytes != 0)) || (n_row == 0) != (row_bytes == 0))
            abort();
        if (i < 8) {
            emulated_tiles.tile[i].n_row = n_row;
            emulated_tiles.tile[i].row_bytes = row_bytes;
        }
    }
}

EMULATED_TILE emulated_release(void) { memset(&emulated_tiles, 0, sizeof emulated_tiles); }

static inline struct emulated_tile *emulated_tile_at(int i)
{
    if (!emulated_tiles.configured || emulated_tiles.tile[i].n_row == 0)
        abort();
    return &emulated_tiles.tile[i];
}

EMULATED_TILE emulated_tile_zero(int i)
{
    struct emulated_tile *t = emulated_tile_at(i);
    memset(t->row, 0, sizeof t->row);
}

EMULATED_TILE emulated_tile_load(int i, const void *p, size_t stride)
{
    struct emulated_tile *t = emulated_tile_at(i);
    memset(t->row, 0, sizeof t->row);
    for (int r = 0; r < t->n_row; r++)
        memcpy(&t->row[r], (const char *)p + (size_t)r * stride, (size_t)t->row_bytes);
}

EMULATED_TILE emulated_tile_store(int i, void *p, size_t stride)
{
    const struct emulated_tile *t = emulated_tile_at(i);
    for (int r = 0; r < t->n_row; r++)
        memcpy((char *)p + (size_t)r * stride, &t->row[r], (size_t)t->row_bytes);
}

/* sum is m x n, a is m x k, b is k x n, all in 32 bits. */
static inline void emulated_check_shapes(const struct emulated_tile *sum, const struct emulated_tile *a,
                                         const struct emulated_tile *b)
{
    if (sum->n_row != a->n_row || a->row_bytes != 4 * b->n_row || sum->row_bytes != b->row_bytes)
        abort();
}

EMULATED_TILE emulated_tile_dpbsud(int to, int x, int y)
{
    struct emulated_tile *sum = emulated_tile_at(to);
    const struct emulated_tile *a = emulated_tile_at(x), *b = emulated_tile_at(y);
    emulated_check_shapes(sum, a, b);
    for (int m = 0; m < sum->n_row; m++)
        for (int k = 0; k < b->n_row; k++)
            for (int i = 0; i < sum->row_bytes; i++)
                sum->row[m].i32[i / 4] += a->row[m].i8[4 * k + i % 4] * b->row[k].u8[i];
}

EMULATED_TILE emulated_tile_dpbf16ps(int to, int x, int y)
{
    struct emulated_tile *sum = emulated_tile_at(to);
    const struct emulated_tile *a = emulated_tile_at(x), *b = emulated_tile_at(y);
    emulated_check_shapes(sum, a, b);
    for (int m = 0; m < sum->n_row; m++)
        for (int n = 0; n < sum->row_bytes / 4; n++) {
            float part[2] = {0, 0};
            for (int k = 0; k < b->n_row; k++)
                for (int j = 0; j < 2; j++)
                    part[j] = emulated_fma_bf16(a->row[m].u16[2 * k + j], b->row[k].u16[2 * n + j], part[j]);
            sum->row[m].f[n] = emulated_flush(emulated_flush(sum->row[m].f[n]) + emulated_flush(part[0] + part[1]));
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#undef _tile_dpbf16ps
#define _tile_loadconfig(p)        emulated_loadconfig(p)
#define _tile_release()            emulated_release()
#define _tile_zero(t)              emulated_tile_zero(t)
#define _tile_loadd(t, p, stride)  emulated_tile_load(t, p, stride)
#define _tile_stored(t, p, stride) emulated_tile_store(t, p, stride)
#define _tile_dpbsud(to, x, y)     emulated_tile_dpbsud(to, x, y)
#define _tile_dpbf16ps(to, x, y)   emulated_tile_dpbf16ps(to, x, y)

#endif
