/* emulated_avx512bf16.c: the bf16 products on CPUs without AVX512_BF16: their own source, its intrinsics replaced by functions
 * in plain C. Against exact sums, and bit for bit against a plain loop over what the manual says of vdpbf16ps. test_matmul runs
 * the real instruction where the CPU has it. */
#include "check_matmul.h"
#include "kernels/avx512_emulation.h"
#include "kernels/x86/x86.h"

enum {
    N_OUT = 3 * PANEL_NR + 5,
    MAX_IN = 4097, /* more than one part of k for few rows and for many, and an odd one */
    MAX_ROW = 50
};

/* Values of every kind: ordinary, denormal before or after the product, ties of the rounding, zeros of both signs. */
static float value(struct check *c)
{
    static const float odd[] = {0.0f, -0.0f, 0x1p-130f, -0x1.fp-127f, 0x1p-70f, -0x1p-63f, 0x1.01p0f, 0x1.03p0f, 0x1.018p0f};
    const uint32_t which = (uint32_t)check_random(c) % 40;
    return which < sizeof odd / sizeof *odd ? odd[which] : check_gauss(c);
}

static float plain_product(const uint16_t *w, const float *x, int n)
{
    float sum = 0;
    for (int k = 0; k < n; k += 2) {
        const uint16_t a[2] = {w[k], k + 1 < n ? w[k + 1] : 0};
        const uint16_t b[2] = {emulated_bf16(x[k]), k + 1 < n ? emulated_bf16(x[k + 1]) : 0};
        sum = emulated_dot_bf16(sum, a, b);
    }
    return sum;
}

static void check_bits(struct check *c, const struct kernels *k, int n_in, int n_row)
{
    const struct matmul *m = &k->matmul[QUANT_BF16][ACTIVATION_BF16];
    const size_t row_bytes = sizeof(uint16_t) * (size_t)n_in, ld_x = sizeof(float) * (size_t)n_in;
    uint16_t *rows = check_alloc(row_bytes * N_OUT);
    float *x = check_alloc(ld_x * (size_t)n_row), *out = check_alloc(sizeof *out * N_OUT * (size_t)n_row);
    for (int i = 0; i < n_in * N_OUT; i++)
        rows[i] = bf16_from_f32(value(c));
    for (int i = 0; i < n_in * n_row; i++)
        x[i] = value(c);
    void *packed = pack_weights(m, (const uint8_t *)rows, row_bytes, N_OUT, n_in);
    m->run(out, N_OUT, packed, x, ld_x, n_row, N_OUT, n_in);
    bool same = true;
    for (int r = 0; r < n_row; r++)
        for (int o = 0; o < N_OUT; o++) {
            const float want = plain_product(rows + (size_t)o * (size_t)n_in, x + (size_t)r * (size_t)n_in, n_in);
            same = same && memcmp(&want, &out[r * N_OUT + o], sizeof want) == 0;
        }
    check_that(c, same, "n_in=%d n_row=%d: other bits than vdpbf16ps in a plain loop", n_in, n_row);
    check_free(packed);
    check_free(rows);
    check_free(x);
    check_free(out);
}

int main(void)
{
    static const int n_ins[] = {1, 2, 255, 256, 257, 515, MAX_IN}, n_rows[] = {1, 6, 7, MAX_ROW};
    static struct kernels reference, k;
    struct check c = {.seed = 1, .state = 1, .isa = "avx512bf16 emulated"};
    kernels_select(&reference, 0);
    kernels_select(&k, 0);
    matmul_bf16_init_avx512bf16(&k);
    check_matmul(&c, &reference, &k);
    for (size_t i = 0; i < sizeof n_ins / sizeof *n_ins; i++)
        for (size_t r = 0; r < sizeof n_rows / sizeof *n_rows; r++)
            check_bits(&c, &k, n_ins[i], n_rows[r]);
    printf("%d checks, %d failed\n", c.n_check, c.n_fail);
    return c.n_fail != 0;
}
