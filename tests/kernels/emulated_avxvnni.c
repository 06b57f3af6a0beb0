/* emulated_avxvnni.c: the AVX-VNNI products on CPUs that have AVX2 alone: their own source, with vpdpbusd in plain C. Against
 * the reference, and bit for bit against AVX2. test_matmul runs the real instruction where the CPU has it. */
#include "check_matmul.h"
#include "kernels/x86/x86.h"

enum {
    N_OUT = 2 * PANEL_NR + 3,
    N_IN = 768,
    N_ROW = 21
};

static void check_same_bits(struct check *c, enum quant_type type, const struct quant *quant, const struct kernels *a,
                            const struct kernels *b)
{
    const struct matmul *m = &a->matmul[type][ACTIVATION_Q8];
    const size_t ld_x = q8_row_bytes(N_IN), bytes = sizeof(float) * N_OUT * N_ROW;
    uint8_t *rows = fill_weights(c, FILL_RANDOM, quant, N_OUT, N_IN);
    void *packed = pack_weights(m, rows, quant_row_bytes(quant, N_IN), N_OUT, N_IN);
    char *x = check_alloc(ld_x * N_ROW);
    float *want = check_alloc(bytes), *got = check_alloc(bytes), row[N_IN];
    for (int r = 0; r < N_ROW; r++) {
        for (int i = 0; i < N_IN; i++)
            row[i] = check_gauss(c);
        a->quantize_q8(x + (size_t)r * ld_x, row, N_IN);
    }
    for (int n = 1; n <= N_ROW; n += 4) {
        m->run(want, N_OUT, packed, x, ld_x, n, N_OUT, N_IN);
        b->matmul[type][ACTIVATION_Q8].run(got, N_OUT, packed, x, ld_x, n, N_OUT, N_IN);
        check_that(c, memcmp(want, got, sizeof(float) * N_OUT * (size_t)n) == 0, "%s: %d rows have other bits than with AVX2",
                   quant->name, n);
    }
    check_free(rows);
    check_free(packed);
    check_free(x);
    check_free(want);
    check_free(got);
}

int main(void)
{
    static struct kernels reference, avx2, k;
    struct check c = {.seed = 1, .state = 1, .isa = "avxvnni emulated"};
    if ((cpu_detect() & CPU_AVX2) == 0)
        return 0;
    kernels_select(&reference, 0);
    kernels_select(&avx2, CPU_AVX2);
    kernels_select(&k, 0);
    matmul_q8_init_avxvnni(&k);
    check_matmul(&c, &reference, &k);
    for (int type = 0; type < QUANT_TYPE_END; type++)
        if (k.matmul[type][ACTIVATION_Q8].name != NULL)
            check_same_bits(&c, (enum quant_type)type, quant_find((enum quant_type)type), &avx2, &k);
    printf("%d checks, %d failed\n", c.n_check, c.n_fail);
    return c.n_fail != 0;
}
