/* simd_amx.h: AMX tiles: eight registers of at most 16 rows of 64 bytes (Intel, Software Developer's Manual, volume 1, chapter
 * 18). KERNELS_EMULATE_AVX512 is set by a test that runs these kernels where the CPU has no tiles. The shapes belong to a
 * thread; released, the registers cost nothing when the system switches threads. */
#ifndef KERNELS_X86_SIMD_AMX_H
#define KERNELS_X86_SIMD_AMX_H

#if defined(KERNELS_EMULATE_AVX512)
#include "kernels/amx_emulation.h" /* tests/kernels */
#else
#include <immintrin.h>
#endif
#include <stdint.h>

enum {
    AMX_ROWS = 16,      /* of a tile */
    AMX_ROW_BYTES = 64, /* at most */
    AMX_TILES = 8
};

/* What ldtilecfg reads. */
struct amx_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_row[16];
};
_Static_assert(sizeof(struct amx_shapes) == 64, "as the CPU reads it");

/* Both 0: the tile is not used. */
static inline void amx_set_shape(struct amx_shapes *s, int tile, int n_row, int row_bytes)
{
    s->palette = 1;
    s->n_row[tile] = (uint8_t)(row_bytes > 0 ? n_row : 0);
    s->row_bytes[tile] = (uint16_t)(n_row > 0 ? row_bytes : 0);
}

#endif
