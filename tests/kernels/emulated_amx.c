/* emulated_amx.c: the AMX products on CPUs without tiles: their own source, its intrinsics replaced by functions in plain C.
 * Against exact sums; int8 bit for bit against the products with vpdpbusd, bf16 against a plain loop over what the manual says
 * of tdpbf16ps. test_matmul runs the real instructions where the CPU has them. */
#include "check_matmul.h"
#include "kernels/avx512_emulation.h"
#include "kernels/x86/x86.h"

enum {
    N_OUT = 3 * PANEL_NR + 5,
    Q8_IN = 768,
    MAX_ROW = 49, /* three tiles of rows and one */
    TILE_IN = 32
};

/* Rows of both types of activations, and weights. */
struct operands {
    uint8_t *rows;
    void *packed;
    char *x;
    size_t row_bytes, ld_x;
};

static void free_operands(struct operands *p)
{
    check_free(p->rows);
    check_free(p->packed);
    check_free(p->x);
}

static void check_same_bits(struct check *c, const struct quant *quant, const struct kernels *reference,
                            const struct kernels *vnni, const struct kernels *amx)
{
    const struct matmul *m = &amx->matmul[quant->type][ACTIVATION_Q8];
    struct operands p = {.row_bytes = quant_row_bytes(quant, Q8_IN), .ld_x = q8_row_bytes(Q8_IN)};
    p.rows = fill_weights(c, FILL_RANDOM, quant, N_OUT, Q8_IN);
    p.packed = pack_weights(m, p.rows, p.row_bytes, N_OUT, Q8_IN);
    p.x = check_alloc(p.ld_x * MAX_ROW);
    float *want = check_alloc(sizeof(float) * N_OUT * MAX_ROW), *got = check_alloc(sizeof(float) * N_OUT * MAX_ROW), row[Q8_IN];
    for (int r = 0; r < MAX_ROW; r++) {
        for (int i = 0; i < Q8_IN; i++)
            row[i] = check_gauss(c);
        reference->quantize_q8(p.x + (size_t)r * p.ld_x, row, Q8_IN);
    }
    for (int n = 1; n <= MAX_ROW; n += 4) {
        vnni->matmul[quant->type][ACTIVATION_Q8].run(want, N_OUT, p.packed, p.x, p.ld_x, n, N_OUT, Q8_IN);
        m->run(got, N_OUT, p.packed, p.x, p.ld_x, n, N_OUT, Q8_IN);
        check_that(c, memcmp(want, got, sizeof(float) * N_OUT * (size_t)n) == 0,
                   "%s: %d rows have other bits than with vpdpbusd", quant->name, n);
    }
    check_free(want);
    check_free(got);
    free_operands(&p);
}

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
    for (int first = 0; first < n; first += TILE_IN) {
        float part[2] = {0, 0};
        for (int k = first; k < first + TILE_IN; k++)
            part[k % 2] = emulated_fma_bf16(k < n ? emulated_bf16(x[k]) : 0, k < n ? w[k] : 0, part[k % 2]);
        sum = emulated_flush(sum + emulated_flush(part[0] + part[1]));
    }
    return sum;
}

static void check_bf16(struct check *c, const struct kernels *k, int n_in, int n_row)
{
    const struct matmul *m = &k->matmul[QUANT_BF16][ACTIVATION_BF16];
    struct operands p = {.row_bytes = sizeof(uint16_t) * (size_t)n_in, .ld_x = sizeof(float) * (size_t)n_in};
    p.rows = check_alloc(p.row_bytes * N_OUT);
    p.x = check_alloc(p.ld_x * (size_t)n_row);
    float *out = check_alloc(sizeof *out * N_OUT * (size_t)n_row), *x = (float *)p.x;
    uint16_t *w = (uint16_t *)p.rows;
    for (int i = 0; i < n_in * N_OUT; i++)
        w[i] = bf16_from_f32(value(c));
    for (int i = 0; i < n_in * n_row; i++)
        x[i] = value(c);
    p.packed = pack_weights(m, p.rows, p.row_bytes, N_OUT, n_in);
    m->run(out, N_OUT, p.packed, p.x, p.ld_x, n_row, N_OUT, n_in);
    bool same = true;
    for (int r = 0; r < n_row; r++)
        for (int o = 0; o < N_OUT; o++) {
            const float want = plain_product(w + (size_t)o * (size_t)n_in, x + (size_t)r * (size_t)n_in, n_in);
            same = same && memcmp(&want, &out[r * N_OUT + o], sizeof want) == 0;
        }
    check_that(c, same, "n_in=%d n_row=%d: other bits than tdpbf16ps in a plain loop", n_in, n_row);
    check_free(out);
    free_operands(&p);
}

int main(void)
{
    static const int n_ins[] = {1, 2, 31, 32, 33, 511, 512, 513, 1025}, n_rows[] = {1, 15, 16, 17, 32, 33, MAX_ROW};
    static struct kernels reference, vnni, k;
    struct check c = {.seed = 1, .state = 1, .isa = "amx emulated"};
    kernels_select(&reference, 0);
    kernels_select(&vnni, 0);
    kernels_select(&k, 0);
    matmul_q8_init_avx512vnni(&vnni);
    matmul_q8_init_amx(&k);
    matmul_bf16_init_amx(&k);
    check_matmul(&c, &reference, &k);
    for (int i = 0; quant_at(i) != NULL; i++)
        if (k.matmul[quant_at(i)->type][ACTIVATION_Q8].name != NULL)
            check_same_bits(&c, quant_at(i), &reference, &vnni, &k);
    for (size_t i = 0; i < sizeof n_ins / sizeof *n_ins; i++)
        for (size_t r = 0; r < sizeof n_rows / sizeof *n_rows; r++)
            check_bf16(&c, &k, n_ins[i], n_rows[r]);
    printf("%d checks, %d failed\n", c.n_check, c.n_fail);
    return c.n_fail != 0;
}
