/* test_matmul.c: the matrix products of every block type and instruction set; --bench: their speeds. */
#include "check_matmul.h"
#include "limits.h"

/* Seconds of the fastest of some runs; *limit: the highest rate measured in between. */
static double fastest(double *limit, const struct matmul *m, float *out, const void *packed, const void *x, size_t ld_x,
                      int n_row, int n_out, int n_in)
{
    double best = 1e9;
    const double end = seconds() + 0.5;
    do {
        const double start = seconds();
        m->run(out, (size_t)n_out, packed, x, ld_x, n_row, n_out, n_in);
        const double took = seconds() - start;
        best = took < best ? took : best;
        const double rate = m->activation == ACTIVATION_Q8 ? limit_int8() : limit_f32();
        *limit = rate > *limit ? rate : *limit;
    } while (seconds() < end);
    return best;
}

enum {
    BENCH_IN = 2048,
    BENCH_ROWS = 256,
    BENCH_BYTES = 128 << 20 /* packed weights of the one-row case: more than a last-level cache holds */
};

static void bench_product(struct check *c, const struct kernels *k, const struct quant *q, enum activation a, void *packed)
{
    const struct matmul *m = &k->matmul[q->type][a];
    const size_t ld_x = x_row_bytes(a, BENCH_IN), row_bytes = quant_row_bytes(q, BENCH_IN);
    struct problem p = {.type = q->type, .quant = q, .activation = a, .n_in = BENCH_IN, .n_row = BENCH_ROWS, .ld_x = ld_x};
    const int n_panel = (int)(BENCH_BYTES / m->panel_bytes(BENCH_IN)), n_out = n_panel * m->nr;
    p.x = check_alloc(ld_x * BENCH_ROWS);
    fill_x(c, &p, k, X_RANDOM);
    p.rows = fill_weights(c, FILL_RANDOM, q, m->nr, BENCH_IN);
    const double start = seconds();
    for (int i = 0; i < n_panel; i++)
        m->pack((char *)packed + (size_t)i * m->panel_bytes(BENCH_IN), p.rows, row_bytes, m->nr, BENCH_IN);
    const double pack_s = seconds() - start;
    float *out = check_alloc(sizeof(float) * 4 * (size_t)(n_out + 128 * BENCH_ROWS));
    double limit = 0;
    const double one = fastest(&limit, m, out, packed, p.x, ld_x, 1, n_out, BENCH_IN);
    const double few = fastest(&limit, m, out, packed, p.x, ld_x, 4, n_out, BENCH_IN);
    limit = 0;
    const double many = fastest(&limit, m, out, packed, p.x, ld_x, BENCH_ROWS, 128, BENCH_IN);
    const double bytes = (double)n_panel * (double)m->panel_bytes(BENCH_IN), ops = 2.0 * BENCH_IN;
    const double many_rate = BENCH_ROWS * ops * 128 / many * 1e-9;
    printf("%-20s 1 row %5.1f GB/s, read %5.1f   4 rows %5.1f GB/s   %d rows %6.1f GOP/s, limit %6.1f, %3.0f %%   pack %.2f "
           "GB/s\n",
           m->name, bytes / one * 1e-9, limit_read(packed, BENCH_BYTES), bytes / few * 1e-9, BENCH_ROWS, many_rate, limit,
           100 * many_rate / limit, bytes / pack_s * 1e-9);
    check_free(out);
    check_free(p.rows);
    check_free(p.x);
}

static void bench_all(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    void *packed = bench_map(BENCH_BYTES);
    if (packed == NULL)
        return;
    memset(packed, 1, BENCH_BYTES);
    printf("%s, one thread; limit: vpmaddubsw + vpmaddwd + vpaddd, or vfmadd231ps\n", c->isa);
    for (int i = 0; any_quant_at(i) != NULL; i++)
        for (enum activation a = 0; a < N_ACTIVATIONS; a++) {
            const enum quant_type type = any_quant_at(i)->type;
            if (k->matmul[type][a].name != NULL && check_wanted(c, k->matmul[type][a].name) &&
                (strcmp(c->isa, "scalar") == 0 || k->matmul[type][a].run != reference->matmul[type][a].run))
                bench_product(c, k, any_quant_at(i), a, packed);
        }
    munmap(packed, BENCH_BYTES);
}

int main(int argc, char **argv) { return check_main(argc, argv, check_matmul, bench_all); }
