/* ops_cpu_product.h: products on threads: how they are cut into pieces, and what one thread does with a piece.
 * The sum is never cut: a piece computes its outputs whole. */
#ifndef OPS_OPS_CPU_PRODUCT_H
#define OPS_OPS_CPU_PRODUCT_H

#include "ops/ops_cpu.h"

enum {
    CPU_PIECE_ROWS = 8,  /* its rows are a multiple of */
    CPU_PIECE_PANELS = 4 /* its rows are so few that there is room for these panels: both are read from the caches */
};

/* The bytes of weights that a piece may read, where one row meets `bytes` of them in all. */
size_t cpu_piece_bytes(const struct cpu_device *d, size_t bytes, bool one_row);

/* A product as a grid of pieces: those of the same panels follow each other, so that their weights stay in the caches. */
struct cpu_cut {
    int n_panel;    /* of a piece */
    int n_row;      /* of a piece */
    int row_pieces; /* pieces side by side over the rows */
    int n_piece;    /* of all */
};
struct cpu_cut cpu_cut_product(const struct weight *w, const struct activation_view *x, int n_row, size_t piece_bytes);

/* Rows first_row <= r < end_row of x and of the product's output, n_panel panels from first_panel on. */
struct cpu_block {
    const struct product *product;
    const struct activation_view *x;
    const char *packed; /* the matrix: that of an expert where there are several */
    int first_panel, n_panel;
    int first_row, end_row;
};

/* Piece number `piece` of a cut over n_row rows that begin at first_row. */
struct cpu_block cpu_block_at(const struct cpu_cut *cut, int piece, const struct product *product,
                              const struct activation_view *x, const char *packed, int first_row, int n_row);

/* The product of a block, second terms of fine rows included. */
void cpu_multiply(struct cpu_device *d, const struct cpu_block *b, int thread);

static inline int cpu_block_first_out(const struct cpu_block *b)
{
    return b->first_panel * ((const struct matmul *)b->product->weight->kernel)->nr;
}

static inline int cpu_block_n_out(const struct cpu_block *b)
{
    const struct weight *w = b->product->weight;
    const int left = w->n_out - cpu_block_first_out(b), most = b->n_panel * ((const struct matmul *)w->kernel)->nr;
    return left < most ? left : most;
}

#endif
