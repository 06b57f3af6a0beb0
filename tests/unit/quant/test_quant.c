/* test_quant.c: the table of block types, and what holds for each of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "quant/k_scales.h"
#include "quant/quant.h"

enum {
    N = 1024, /* weights; whole blocks of every type */
    MAX_BYTES = N * sizeof(float)
};

/* Reproducible, between -1 and 1. */
static float weight(int i) { return (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-23f - 1.0f; }

static void types_are_found_by_id_and_by_name(void **state)
{
    (void)state;
    int n = 0;
    for (; quant_at(n) != NULL; n++) {
        const struct quant *q = quant_at(n);
        assert_ptr_equal(quant_find((uint32_t)q->type), q);
        assert_ptr_equal(quant_find_name(q->name), q);
        assert_true(q->type < QUANT_TYPE_END && N % q->block == 0);
    }
    assert_int_equal(n, 14);
    assert_null(quant_at(-1));
    assert_null(quant_find(4));
    assert_null(quant_find(UINT32_MAX));
    assert_null(quant_find_name("q4"));
}

static void row_bytes_are_whole_blocks_or_nothing(void **state)
{
    (void)state;
    assert_int_equal(quant_row_bytes(quant_find(QUANT_F32), 3), 12);
    assert_int_equal(quant_row_bytes(quant_find(QUANT_Q8_0), 576), 18 * 34);
    assert_int_equal(quant_row_bytes(quant_find(QUANT_Q8_0), 33), 0);
    assert_int_equal(quant_row_bytes(quant_find(QUANT_Q4_K), 576), 0);
}

/* The 6-bit scales of the K types come back whatever they are. */
static void packed_scales_come_back(void **state)
{
    (void)state;
    uint8_t packed[K_SCALES_BYTES], scale[8], min[8], scale2[8], min2[8];
    int8_t signed_scale[16], signed_scale2[16];
    for (int round = 0; round < 64; round++) {
        for (int i = 0; i < 8; i++) {
            scale[i] = (uint8_t)((round * 7 + i * 11) & 63);
            min[i] = (uint8_t)((round * 13 + i * 5 + 31) & 63);
        }
        k_scales_pack(packed, scale, min);
        k_scales_unpack(scale2, min2, packed);
        assert_memory_equal(scale, scale2, sizeof scale);
        assert_memory_equal(min, min2, sizeof min);
        for (int i = 0; i < 16; i++)
            signed_scale[i] = (int8_t)((round * 5 + i * 9) % 64 - 32);
        q3_k_scales_pack(packed, signed_scale);
        q3_k_scales_unpack(signed_scale2, packed);
        assert_memory_equal(signed_scale, signed_scale2, sizeof signed_scale);
    }
}

/* Blocks lie anywhere in a file: decoding and encoding do not depend on the address. */
static void addresses_need_no_alignment(void **state)
{
    (void)state;
    static float x[N], aligned_out[N], out[N];
    static unsigned char aligned[MAX_BYTES], bytes[MAX_BYTES + 1];
    for (int i = 0; i < N; i++)
        x[i] = weight(i);
    for (int k = 0; quant_at(k) != NULL; k++) {
        const struct quant *q = quant_at(k);
        const size_t n = quant_row_bytes(q, N);
        q->encode(aligned, x, N);
        q->encode(bytes + 1, x, N);
        assert_memory_equal(aligned, bytes + 1, n);
        q->decode(aligned_out, aligned, N);
        q->decode(out, bytes + 1, N);
        assert_memory_equal(aligned_out, out, sizeof out);
    }
}

/* Each weight is off by at most the distance of two levels, and blocks do not touch each other. */
static void encoding_stays_near_the_weights(void **state)
{
    (void)state;
    static const struct {
        enum quant_type type;
        float largest; /* error on weights in -1..1 */
    } cases[] = {
        {QUANT_F32, 0},      {QUANT_F16, 0.0003f}, {QUANT_BF16, 0.0021f}, {QUANT_Q8_0, 0.0045f}, {QUANT_Q6_K, 0.05f},
        {QUANT_Q5_1, 0.04f}, {QUANT_Q5_0, 0.07f},  {QUANT_Q5_K, 0.1f},    {QUANT_Q4_1, 0.07f},   {QUANT_Q4_0, 0.13f},
        {QUANT_Q4_K, 0.12f}, {QUANT_IQ4_NL, 0.2f}, {QUANT_Q3_K, 0.4f},    {QUANT_Q2_K, 0.6f},
    };
    static float x[N], out[N];
    static unsigned char bytes[MAX_BYTES];
    for (int i = 0; i < N; i++)
        x[i] = weight(i);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct quant *q = quant_find(cases[k].type);
        float largest = 0;
        q->encode(bytes, x, N);
        q->decode(out, bytes, N);
        for (int i = 0; i < N; i++)
            largest = fmaxf(largest, fabsf(out[i] - x[i]));
        if (largest > cases[k].largest)
            fail_msg("%s: error %g above %g", q->name, (double)largest, (double)cases[k].largest);
    }
}

/* What decodes exactly encodes exactly: a model may be read and written again without loss. */
static void levels_encode_to_themselves(void **state)
{
    (void)state;
    static const enum quant_type types[] = {QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q8_0};
    static float x[N], out[N];
    static unsigned char bytes[MAX_BYTES];
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        const struct quant *q = quant_find(types[k]);
        for (int i = 0; i < N; i++) /* the largest of each block is 127, so that the scale is 1/4 */
            x[i] = (float)(i % 32 == 0 ? 127 : (i * 37) % 255 - 127) * 0.25f;
        q->encode(bytes, x, N);
        q->decode(out, bytes, N);
        assert_memory_equal(x, out, sizeof x);
    }
}

static void zeros_and_one_block_beside_zeros(void **state)
{
    (void)state;
    static float x[N], out[N];
    static unsigned char bytes[MAX_BYTES];
    for (int i = 256; i < 512; i++)
        x[i] = weight(i);
    for (int k = 0; quant_at(k) != NULL; k++) {
        const struct quant *q = quant_at(k);
        q->encode(bytes, x, N);
        q->decode(out, bytes, N);
        for (int i = 0; i < N; i++)
            if (i < 256 || i >= 512)
                assert_true(out[i] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_found_by_id_and_by_name), cmocka_unit_test(row_bytes_are_whole_blocks_or_nothing),
        cmocka_unit_test(packed_scales_come_back),           cmocka_unit_test(addresses_need_no_alignment),
        cmocka_unit_test(encoding_stays_near_the_weights),   cmocka_unit_test(levels_encode_to_themselves),
        cmocka_unit_test(zeros_and_one_block_beside_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
