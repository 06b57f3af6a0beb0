/* kernel_bench.c: matrix products alone. */
#include "measure/kernel_bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/memory.h"
#include "measure/spread.h"
#include "measure/timed_rounds.h"

enum {
    ROUNDS_MAX = 15,
    ROUND_US = 2000,
    CASE_US = 150000, /* all rounds of one case together, where a single one is shorter */
    N_SHAPES = 3,
    N_ROW_COUNTS = 3,
    HUGE_PAGE = 2 << 20,
    PIECE_BYTES = 128 << 10, /* weights of a piece of a product with several rows */
    COLD_CACHES = 3          /* weights of few rows take this many times the last level's cache */
};
static const size_t cold_bytes_min = (size_t)64 << 20;
static const int shape[N_SHAPES][2] = {{2048, 8192}, {8192, 2048}, {576, 1536}}; /* inputs, outputs */
static const int row_count[N_ROW_COUNTS] = {1, 8, 128};

struct product {
    const struct matmul *m;
    int n_in, n_out, n_row, n_threads;
    size_t panel_bytes, ld_x;
    char *packed; /* n_copy times the panels of the whole product */
    char *x;      /* activation rows */
    float *out;   /* [n_row][n_out] */
    int n_copy, n_panel;
    int n_repeat; /* products in a round, each on the next copy */
};

enum peak_type kernel_peak_type(enum activation activation, enum quant_type type)
{
    return activation == ACTIVATION_Q8 ? PEAK_INT8 : activation == ACTIVATION_BF16 || type == QUANT_BF16 ? PEAK_BF16 : PEAK_F32;
}

static void product_release(struct product *p)
{
    free(p->packed);
    free(p->x);
    free(p->out);
}

/* Smooth values around 0 without a random state: what they are does not matter, only that none is denormal. */
static float weight(int i) { return (float)((i * 37 + 11) % 127 - 63) / 64.0f; }

static enum mr_status fill_weights(struct product *p, const struct quant *q, struct mr_error *err)
{
    const size_t n = (size_t)p->m->nr * (size_t)p->n_in, row_bytes = quant_row_bytes(q, (size_t)p->n_in);
    float *w = mem_array(n, sizeof *w);
    char *rows = mem_array((size_t)p->m->nr, row_bytes);
    const bool ok = w != NULL && rows != NULL;
    for (size_t i = 0; ok && i < n; i++)
        w[i] = weight((int)i);
    if (ok) {
        q->encode(rows, w, n);
        p->m->pack(p->packed, rows, row_bytes, p->m->nr, p->n_in);
        for (size_t i = 1; i < (size_t)p->n_panel * (size_t)p->n_copy; i++)
            memcpy(p->packed + i * p->panel_bytes, p->packed, p->panel_bytes);
    }
    free(w);
    free(rows);
    return ok ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the weights of kernel %s", p->m->name);
}

static enum mr_status fill_activations(struct product *p, const struct kernels *k, struct mr_error *err)
{
    const bool is_q8 = p->m->activation == ACTIVATION_Q8;
    float *row = mem_array((size_t)p->n_in, sizeof *row);
    p->ld_x = is_q8 ? q8_row_bytes(p->n_in) : size_align((size_t)p->n_in * sizeof(float), 64);
    p->x = mem_aligned(64, p->ld_x * (size_t)p->n_row);
    p->out = mem_aligned(64, sizeof *p->out * (size_t)p->n_row * (size_t)p->n_out);
    const bool ok = row != NULL && p->x != NULL && p->out != NULL;
    for (int r = 0; ok && r < p->n_row; r++) {
        char *x = p->x + p->ld_x * (size_t)r;
        for (int i = 0; i < p->n_in; i++)
            row[i] = weight(i + r);
        if (is_q8)
            k->quantize_q8(x, row, p->n_in);
        else
            memcpy(x, row, (size_t)p->n_in * sizeof *row);
    }
    free(row);
    return ok ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the activations of kernel %s", p->m->name);
}

static enum mr_status product_init(struct product *p, const struct kernels *k, const struct quant *q, size_t cold_bytes,
                                   struct mr_error *err)
{
    p->panel_bytes = p->m->panel_bytes(p->n_in);
    p->n_panel = (p->n_out + p->m->nr - 1) / p->m->nr;
    const size_t bytes = p->panel_bytes * (size_t)p->n_panel;
    p->n_copy = p->n_row >= row_count[N_ROW_COUNTS - 1] ? 1 : (int)(cold_bytes / bytes) + 1;
    p->packed = mem_aligned(HUGE_PAGE, size_align(bytes * (size_t)p->n_copy, HUGE_PAGE));
    if (p->packed == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the weights of kernel %s", p->m->name);
    madvise(p->packed, size_align(bytes * (size_t)p->n_copy, HUGE_PAGE), MADV_HUGEPAGE); /* as the device's buffers */
    MR_TRY(fill_weights(p, q, err));
    return fill_activations(p, k, err);
}

/* A thread's panels, in the pieces that the cpu back end would make of them. */
static void run_products(void *ctx, int thread, int round)
{
    const struct product *p = ctx;
    const int first = (int)((int64_t)p->n_panel * thread / p->n_threads);
    const int end = (int)((int64_t)p->n_panel * (thread + 1) / p->n_threads);
    const int piece = p->n_row == 1 ? end - first : (int)(PIECE_BYTES / p->panel_bytes) + 1;
    for (int i = 0; i < p->n_repeat; i++) {
        const char *copy = p->packed + (size_t)((round * p->n_repeat + i) % p->n_copy) * p->panel_bytes * (size_t)p->n_panel;
        for (int panel = first; panel < end; panel += piece) {
            const int n = end - panel < piece ? end - panel : piece, o = panel * p->m->nr, left = p->n_out - o;
            p->m->run(p->out + o, (size_t)p->n_out, copy + (size_t)panel * p->panel_bytes, p->x, p->ld_x, p->n_row,
                      left < n * p->m->nr ? left : n * p->m->nr, p->n_in);
        }
    }
}

static enum mr_status product_time(struct product *p, double *seconds, const atomic_bool *stop, struct mr_error *err)
{
    double round[ROUNDS_MAX];
    p->n_repeat = 1;
    MR_TRY(timed_rounds(round, p->n_threads, 1, run_products, p, stop, err)); /* warm-up, and how long one takes */
    const double us = round[0] * 1e6;
    p->n_repeat = (int)(ROUND_US / us) + 1;
    const int n_fit = (int)(CASE_US / (us * p->n_repeat)) + 1, n_round = n_fit < ROUNDS_MAX ? n_fit : ROUNDS_MAX;
    MR_TRY(timed_rounds(round, p->n_threads, n_round, run_products, p, stop, err));
    *seconds = spread_of(round, n_round).min / p->n_repeat;
    return MR_OK;
}

static struct kernel_figure figure_of(const struct product *p, const struct limits *l, enum peak_type peak, double seconds)
{
    const double ops = 2.0 * p->n_in * p->n_out * p->n_row, bytes = (double)p->panel_bytes * p->n_panel;
    struct kernel_figure f = {.kernel = p->m->name, .n_in = p->n_in, .n_out = p->n_out, .n_row = p->n_row};
    f.seconds = seconds;
    f.gops = ops / seconds * 1e-9;
    f.gb_s = bytes / seconds * 1e-9;
    f.mfu = f.gops / limits_gops(l, peak);
    f.mbu = f.gb_s / l->read_gb_s;
    return f;
}

enum mr_status kernel_bench(const struct kernels *k, const char *filter, const struct limits *limits, kernel_figure_fn *each,
                            void *context, const atomic_bool *stop, struct mr_error *err)
{
    const size_t cache = COLD_CACHES * limits->cache[CPU_CACHE_LEVELS - 1].bytes;
    const size_t cold_bytes = cache > cold_bytes_min ? cache : cold_bytes_min;
    const int n = QUANT_TYPE_END * N_ACTIVATIONS * N_SHAPES * N_ROW_COUNTS;
    for (int i = 0; i < n; i++) {
        const int type = i / (N_ACTIVATIONS * N_SHAPES * N_ROW_COUNTS), at = i / (N_SHAPES * N_ROW_COUNTS) % N_ACTIVATIONS;
        const int *s = shape[i / N_ROW_COUNTS % N_SHAPES];
        const struct quant *q = quant_find((uint32_t)type);
        struct product p = {.m = &k->matmul[type][at], .n_threads = limits->n_threads};
        p.n_in = s[0];
        p.n_out = s[1];
        p.n_row = row_count[i % N_ROW_COUNTS];
        if (p.m->name == NULL || q == NULL || p.n_in % q->block != 0 || strstr(p.m->name, filter) == NULL)
            continue;
        double seconds;
        enum mr_status status = product_init(&p, k, q, cold_bytes, err);
        if (status == MR_OK)
            status = product_time(&p, &seconds, stop, err);
        if (status == MR_OK) {
            const enum peak_type peak = kernel_peak_type(p.m->activation, (enum quant_type)type);
            const struct kernel_figure f = figure_of(&p, limits, peak, seconds);
            each(context, &f);
        }
        product_release(&p);
        MR_TRY(status);
    }
    return MR_OK;
}
