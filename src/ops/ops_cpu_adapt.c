/* ops_cpu_adapt.c: what adapters add to products, in two parts: the inner rows a x of all entries before the product, spread
 * over the threads; b times those where a piece of the product has just been finished, while its outputs are in the cache.
 * Both are the products of kernels.h with float activations, so an entry's bits depend neither on the rows beside it nor on
 * threads; rows without an adapter are not touched. */
#include <string.h>

#include "ops/ops_cpu.h"

enum {
    CHUNK = 32 /* entries of one piece */
};
_Static_assert((int)CHUNK <= (int)CPU_REST_ROWS, "the outputs of a chunk fit into the scratch memory");

struct inner {
    struct cpu_device *device;
    const struct product *product;
    const struct tensor *x;
};

static int n_chunks(const struct adapted_rows *rows)
{
    int n = 0;
    for (int g = 0; g < rows->n_group; g++)
        n += (rows->first[g + 1] - rows->first[g] + CHUNK - 1) / CHUNK;
    return n;
}

static void multiply(const struct weight *w, const struct tensor *out, int entry, const float *x, size_t ld_x, int n)
{
    const struct matmul *m = w->kernel;
    m->run(cpu_row(out, entry), out->row_bytes / sizeof(float), cpu_address(w->buffer, w->offset), x, ld_x, n, w->n_out,
           w->n_in);
}

/* How many entries from `entry` on stand in neighbouring rows, as they do in a prompt. */
static int run_length(const int32_t *row, int entry, int end)
{
    int n = 1;
    while (entry + n < end && row[entry + n] == row[entry] + n)
        n++;
    return n;
}

/* Copy the rows of as many entries as there is room for next to each other. */
static int gather(float *to, const struct tensor *x, const int32_t *row, int n)
{
    const int room = CPU_GATHER_FLOATS / x->n_col;
    n = n < room ? n : room;
    for (int i = 0; i < n; i++)
        memcpy(to + (size_t)i * (size_t)x->n_col, cpu_row(x, row[i]), (size_t)x->n_col * sizeof *to);
    return n;
}

static void run_chunk(const struct inner *in, const struct adaptation *a, int group, int entry, int end, int thread)
{
    const struct low_rank *l = a->low_rank[group];
    float *side_by_side = in->device->gather + (size_t)thread * CPU_GATHER_FLOATS;
    if (l == NULL)
        return;
    for (int n; entry < end; entry += n) {
        const int32_t *row = a->rows->row + entry;
        n = run_length(a->rows->row, entry, end);
        const bool scattered = n < end - entry && 2 * in->x->n_col <= CPU_GATHER_FLOATS;
        if (scattered) {
            n = gather(side_by_side, in->x, row, end - entry);
            multiply(&l->a, &a->inner, entry, side_by_side, (size_t)in->x->n_col * sizeof(float), n);
        } else {
            multiply(&l->a, &a->inner, entry, cpu_row(in->x, row[0]), in->x->row_bytes, n);
        }
    }
}

/* All products' pieces: chunks of entries, group by group. */
static void run_inner(void *context, int piece, int thread)
{
    const struct inner *in = context;
    const struct product *p = in->product;
    while (p->adaptation == NULL || piece >= n_chunks(p->adaptation->rows))
        piece -= p->adaptation == NULL ? 0 : n_chunks(p->adaptation->rows), p++;
    const struct adapted_rows *rows = p->adaptation->rows;
    int group = 0, n;
    while (piece >= (n = (rows->first[group + 1] - rows->first[group] + CHUNK - 1) / CHUNK)) {
        piece -= n;
        group++;
    }
    const int first = rows->first[group] + piece * CHUNK, end = rows->first[group + 1];
    run_chunk(in, p->adaptation, group, first, first + CHUNK < end ? first + CHUNK : end, thread);
}

void cpu_adapt_inner(struct cpu_device *d, const struct product *product, int n_product, const struct tensor *x)
{
    struct inner in = {d, product, x};
    int n_piece = 0;
    for (int i = 0; i < n_product; i++)
        n_piece += product[i].adaptation != NULL ? n_chunks(product[i].adaptation->rows) : 0;
    if (n_piece > 0)
        pool_run(d->pool, run_inner, &in, n_piece);
}

/* The entries first <= e < end of one group, outputs from `first_out` on, at most CPU_REST_OUTS. */
static void add_chunk(struct cpu_device *d, const struct product *product, const struct low_rank *l, int entry, int n,
                      int first_out, int n_out, float *scratch)
{
    const struct adaptation *a = product->adaptation;
    const struct matmul *m = l->b.kernel;
    const char *packed = cpu_address(l->b.buffer, l->b.offset) + (size_t)(first_out / m->nr) * m->panel_bytes(l->b.n_in);
    m->run(scratch, CPU_REST_OUTS, packed, cpu_row(&a->inner, entry), a->inner.row_bytes, n, n_out, l->b.n_in);
    for (int i = 0; i < n; i++)
        d->kernels.add_scaled(cpu_row(&product->out, a->rows->row[entry + i]) + first_out, scratch + (size_t)i * CPU_REST_OUTS,
                              a->rows->scale[entry + i] * l->scale, n_out);
}

void cpu_adapt_add(struct cpu_device *d, const struct product *product, int first_row, int end_row, int first, int n_out,
                   int thread)
{
    const struct adaptation *a = product->adaptation;
    float *scratch = d->rest + (size_t)thread * CPU_REST_ROWS * CPU_REST_OUTS;
    for (int g = 0; g < a->rows->n_group; g++) {
        const struct low_rank *l = a->low_rank[g];
        if (l == NULL)
            continue;
        const int begin = a->rows->first[g], n_entry = a->rows->first[g + 1] - begin;
        const int e_first = begin + cpu_lower_bound(a->rows->row + begin, n_entry, first_row),
                  e_end = begin + cpu_lower_bound(a->rows->row + begin, n_entry, end_row);
        for (int o = 0; o < n_out; o += CPU_REST_OUTS)
            for (int e = e_first; e < e_end; e += CHUNK) {
                const int left = e_end - e, outs = n_out - o;
                add_chunk(d, product, l, e, left < CHUNK ? left : CHUNK, first + o, outs < CPU_REST_OUTS ? outs : CPU_REST_OUTS,
                          scratch);
            }
    }
}

static void add_piece(void *context, int piece, int thread)
{
    const struct inner *in = context;
    const int first = piece * CPU_REST_OUTS, left = in->product->out.n_col - first;
    cpu_adapt_add(in->device, in->product, 0, in->product->out.n_row, first, left < CPU_REST_OUTS ? left : CPU_REST_OUTS,
                  thread);
}

void cpu_adapt(struct cpu_device *d, const struct product *product, const struct tensor *x)
{
    struct inner in = {d, product, x};
    cpu_adapt_inner(d, product, 1, x);
    pool_run(d->pool, add_piece, &in, (product->out.n_col - 1) / CPU_REST_OUTS + 1);
}
