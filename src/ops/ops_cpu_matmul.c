/* ops_cpu_matmul.c: the products of one activation over threads. */
#include "ops/ops_cpu_product.h"

enum {
    MAX_PRODUCTS = 8
};

struct products {
    struct cpu_device *device;
    const struct product *product;
    const struct activation_view *x;
    struct cpu_cut cut[MAX_PRODUCTS];
    int n_product;
    int n_piece;
};

static void plan(struct products *p)
{
    const int n_row = p->x->f32.n_row;
    size_t total = 0;
    for (int i = 0; i < p->n_product; i++)
        total += p->product[i].weight->bytes;
    for (int i = 0; i < p->n_product; i++) {
        p->cut[i] = cpu_cut_product(p->product[i].weight, p->x, n_row, cpu_piece_bytes(p->device, total, n_row == 1));
        p->n_piece += p->cut[i].n_piece;
    }
}

/* The sums of a block are whole: bias, and what follows it. */
static void finish(struct cpu_device *d, const struct cpu_block *b, int thread)
{
    const struct kernels *k = &d->kernels;
    const struct product *p = b->product;
    const int first = cpu_block_first_out(b), n_out = cpu_block_n_out(b);
    const bool adapted = p->adaptation != NULL, fused = p->gelu && !adapted;
    const float *bias = p->bias.buffer != NULL ? cpu_row(&p->bias, 0) + first : NULL;
    for (int r = b->first_row; bias != NULL && r < b->end_row; r++)
        (fused ? k->add_gelu : k->add)(cpu_row(&p->out, r) + first, bias, n_out);
    if (adapted)
        cpu_adapt_add(d, p, b->first_row, b->end_row, first, n_out, thread);
    for (int r = b->first_row; p->gelu && !fused && r < b->end_row; r++)
        k->activate[GLU_GELU](cpu_row(&p->out, r) + first, n_out);
}

static void run_piece(void *context, int piece, int thread)
{
    const struct products *p = context;
    int i = 0;
    while (piece >= p->cut[i].n_piece)
        piece -= p->cut[i++].n_piece;
    const struct weight *w = p->product[i].weight;
    const struct cpu_block b =
        cpu_block_at(&p->cut[i], piece, &p->product[i], p->x, cpu_address(w->buffer, w->offset), 0, p->x->f32.n_row);
    cpu_multiply(p->device, &b, thread);
    finish(p->device, &b, thread);
}

void cpu_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x)
{
    while (n_product > 0) {
        struct products p = {.device = cpu_of(d), .product = product, .x = x};
        p.n_product = n_product < MAX_PRODUCTS ? n_product : MAX_PRODUCTS;
        cpu_adapt_inner(cpu_of(d), product, p.n_product, &x->f32);
        plan(&p);
        pool_run(cpu_of(d)->pool, run_piece, &p, p.n_piece);
        product += p.n_product;
        n_product -= p.n_product;
    }
}
