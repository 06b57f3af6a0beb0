/* peaks_amx.c: the int8 and bf16 peaks of AMX: six tiles of sums, two of operands, all of 16 rows of 64 bytes. */
#include "kernels/peaks.h"
#include "kernels/x86/simd_amx.h"

enum {
    N_SUMS = 6
};

static void begin(void)
{
    _Alignas(64) struct amx_shapes shapes = {0};
    for (int t = 0; t < AMX_TILES; t++)
        amx_set_shape(&shapes, t, AMX_ROWS, AMX_ROW_BYTES);
    _tile_loadconfig(&shapes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
}

static void peak_int8_amx(int64_t n_round)
{
    begin();
    for (int64_t i = 0; i < n_round; i++) {
        _tile_dpbsud(0, 6, 7);
        _tile_dpbsud(1, 6, 7);
        _tile_dpbsud(2, 6, 7);
        _tile_dpbsud(3, 6, 7);
        _tile_dpbsud(4, 6, 7);
        _tile_dpbsud(5, 6, 7);
    }
    _tile_release();
}

static void peak_bf16_amx(int64_t n_round)
{
    begin();
    for (int64_t i = 0; i < n_round; i++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_release();
}

void peaks_init_amx(struct peaks *p)
{
    p->peak[PEAK_INT8] = (struct peak){"tdpbsud", N_SUMS * 2 * AMX_ROWS * 16 * 64, peak_int8_amx};
    p->peak[PEAK_BF16] = (struct peak){"tdpbf16ps", N_SUMS * 2 * AMX_ROWS * 16 * 32, peak_bf16_amx};
}
