/* pipeline_bench.c: LayerNorm and GELU in front of a product, fused and not. Each thread takes a part of the rows. */
#include "measure/pipeline_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/timed_rounds.h"

enum {
    N_ROW = 1024,
    N = 1024,
    ROUNDS = 14, /* even ones fused, odd ones not */
    ALIGN = 64
};

static const enum quant_type product_type[] = {QUANT_F32, QUANT_F16, QUANT_Q8_0, QUANT_Q4_0};

struct pipeline {
    const struct kernels *k;
    const struct matmul *m;
    int n_threads;
    float *x, *normed, *activated, *out; /* [N_ROW][N] */
    float *row;                          /* [n_threads][N] the fused kernel's, where the product reads int8 */
    float *weight, *bias;                /* [N] */
    char *q8;                            /* [N_ROW] int8 rows */
    char *packed;
};

static void pipeline_release(struct pipeline *p)
{
    void *const all[] = {p->x, p->normed, p->activated, p->out, p->row, p->weight, p->bias, p->q8, p->packed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static float value(size_t i) { return (float)((i * 37 + 11) % 127) / 64.0f - 1; }

static bool fill_weights(struct pipeline *p, const struct quant *q)
{
    const size_t row_bytes = quant_row_bytes(q, N), panel_bytes = p->m->panel_bytes(N);
    float *w = mem_array((size_t)p->m->nr * N, sizeof *w);
    char *rows = mem_array((size_t)p->m->nr, row_bytes);
    p->packed = mem_aligned(ALIGN, panel_bytes * (N / (size_t)p->m->nr));
    const bool ok = w != NULL && rows != NULL && p->packed != NULL;
    for (size_t i = 0; ok && i < (size_t)p->m->nr * N; i++)
        w[i] = value(i) * 0.05f;
    if (ok)
        q->encode(rows, w, (size_t)p->m->nr * N);
    for (size_t panel = 0; ok && panel < N / (size_t)p->m->nr; panel++)
        p->m->pack(p->packed + panel * panel_bytes, rows, row_bytes, p->m->nr, N);
    free(w);
    free(rows);
    return ok;
}

static bool pipeline_init(struct pipeline *p, const struct quant *q)
{
    const size_t bytes = sizeof(float) * N_ROW * N;
    float **const rows[] = {&p->x, &p->normed, &p->activated, &p->out};
    bool ok = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ok &= (*rows[i] = mem_aligned(ALIGN, bytes)) != NULL;
    ok &= (p->row = mem_aligned(ALIGN, sizeof(float) * N * (size_t)p->n_threads)) != NULL;
    ok &= (p->weight = mem_aligned(ALIGN, sizeof(float) * N)) != NULL;
    ok &= (p->bias = mem_aligned(ALIGN, sizeof(float) * N)) != NULL;
    ok &= (p->q8 = mem_aligned(ALIGN, q8_row_bytes(N) * N_ROW)) != NULL;
    for (size_t i = 0; ok && i < (size_t)N_ROW * N; i++)
        p->x[i] = value(i * 3);
    for (size_t i = 0; ok && i < N; i++) {
        p->weight[i] = 1 + value(i) * 0.1f;
        p->bias[i] = value(i + 5) * 0.1f;
    }
    return ok && fill_weights(p, q);
}

static void fused_rows(const struct pipeline *p, int thread, size_t first, size_t end)
{
    const bool is_q8 = p->m->activation == ACTIVATION_Q8;
    for (size_t r = first; r < end; r++) {
        float *to = is_q8 ? p->row + (size_t)thread * N : p->activated + r * N;
        p->k->layer_norm_gelu(to, p->x + r * N, p->weight, p->bias, 1e-5f, N);
        if (is_q8)
            p->k->quantize_q8(p->q8 + r * q8_row_bytes(N), to, N);
    }
}

static void unfused_rows(const struct pipeline *p, size_t first, size_t end)
{
    for (size_t r = first; r < end; r++)
        p->k->layer_norm(p->normed + r * N, p->x + r * N, p->weight, p->bias, 1e-5f, N);
    for (size_t r = first; r < end; r++) {
        memcpy(p->activated + r * N, p->normed + r * N, sizeof(float) * N);
        p->k->activate[GLU_GELU](p->activated + r * N, N);
    }
    for (size_t r = first; p->m->activation == ACTIVATION_Q8 && r < end; r++)
        p->k->quantize_q8(p->q8 + r * q8_row_bytes(N), p->activated + r * N, N);
}

static void run(void *context, int thread, int round)
{
    const struct pipeline *p = context;
    const size_t first = (size_t)N_ROW * (size_t)thread / (size_t)p->n_threads;
    const size_t end = (size_t)N_ROW * ((size_t)thread + 1) / (size_t)p->n_threads;
    if (round % 2 == 0)
        fused_rows(p, thread, first, end);
    else
        unfused_rows(p, first, end);
    const bool is_q8 = p->m->activation == ACTIVATION_Q8;
    const size_t ld_x = is_q8 ? q8_row_bytes(N) : sizeof(float) * N;
    const char *x = is_q8 ? p->q8 : (const char *)p->activated;
    if (end > first)
        p->m->run(p->out + first * N, N, p->packed, x + first * ld_x, ld_x, (int)(end - first), N, N);
}

static enum mr_status measure(struct pipeline_figure *f, struct pipeline *p, const atomic_bool *stop, struct mr_error *err)
{
    double seconds[ROUNDS];
    MR_TRY(timed_rounds(seconds, p->n_threads, ROUNDS, run, p, stop, err));
    const size_t rows = sizeof(float) * N_ROW * N, q8 = q8_row_bytes(N) * N_ROW;
    const bool is_q8 = p->m->activation == ACTIVATION_Q8;
    *f = (struct pipeline_figure){.kernel = p->m->name, .n_row = N_ROW, .n = N, .fused_s = seconds[2], .unfused_s = seconds[3]};
    for (int r = 2; r < ROUNDS; r++) { /* the first two touch the memory */
        double *best = r % 2 == 0 ? &f->fused_s : &f->unfused_s;
        *best = seconds[r] < *best ? seconds[r] : *best;
    }
    f->fused_bytes = 2 * rows + (is_q8 ? q8 + sizeof(float) * N * (size_t)p->n_threads : rows);
    f->unfused_bytes = 4 * rows + (is_q8 ? q8 : 0);
    return MR_OK;
}

enum mr_status pipeline_bench(struct pipeline_figure figure[PIPELINE_FIGURES_MAX], int *n_figure, const struct kernels *k,
                              const char *filter, int n_threads, const atomic_bool *stop, struct mr_error *err)
{
    *n_figure = 0;
    for (size_t i = 0; i < sizeof product_type / sizeof *product_type; i++) {
        const struct matmul *own = k->matmul[product_type[i]];
        struct pipeline p = {.k = k, .n_threads = n_threads};
        p.m = own[ACTIVATION_Q8].name != NULL ? &own[ACTIVATION_Q8] : &own[ACTIVATION_F32];
        char name[128];
        snprintf(name, sizeof name, "layer_norm_gelu %s", p.m->name);
        if (strstr(name, filter) == NULL)
            continue;
        enum mr_status status = MR_OK;
        if (!pipeline_init(&p, quant_find(product_type[i])))
            status = mr_fail(err, MR_NO_MEMORY, "no memory for %d rows of %d", N_ROW, N);
        if (status == MR_OK)
            status = measure(&figure[*n_figure], &p, stop, err);
        pipeline_release(&p);
        MR_TRY(status);
        ++*n_figure;
    }
    return MR_OK;
}
