/* inverse_factor.c: Cholesky and the inverse of a triangle, both by blocks of columns around the f32 products. */
#include "compress/inverse_factor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    BLOCK = 64,  /* columns at a time */
    ROWS = 48,   /* rows of a piece of work */
    OUTS = 256,  /* columns of a piece of the inverse */
    ATTEMPTS = 5 /* with ten times the damping each */
};

struct matrix {
    struct compute *c;
    float *a; /* [n][n], in reversed order */
    int n;
    int first, n_block; /* the block's columns, or rows */
    float *rows;        /* [BLOCK][n] of the inverse */
};

static float *at(const struct matrix *m, int i, int j) { return m->a + (size_t)i * (size_t)m->n + j; }

/* Rows of the block column, less what the columns before it explain. */
static void subtract_rows(void *context, int piece, int thread)
{
    const struct matrix *m = context;
    const int row = m->first + piece * ROWS, n_row = m->n - row < ROWS ? m->n - row : ROWS;
    float product[ROWS * BLOCK];
    const struct small_product p = {.out = product,
                                    .x = at(m, row, 0),
                                    .w = at(m, m->first, 0),
                                    .ld_out = BLOCK,
                                    .ld_x = (size_t)m->n,
                                    .ld_w = (size_t)m->n,
                                    .n_row = n_row,
                                    .n_out = m->n_block,
                                    .n_in = m->first};
    product_small(m->c, &p, compute_scratch(m->c, thread));
    for (int i = 0; i < n_row; i++)
        for (int j = 0; j < m->n_block; j++)
            at(m, row + i, m->first)[j] -= product[i * BLOCK + j];
}

/* The block on the diagonal. False: a pivot is not positive. */
static bool factor_block(const struct matrix *m)
{
    for (int j = 0; j < m->n_block; j++) {
        float *row = at(m, m->first + j, m->first);
        for (int k = 0; k <= j; k++) {
            const float *other = at(m, m->first + k, m->first);
            double sum = row[k];
            for (int i = 0; i < k; i++)
                sum -= (double)row[i] * (double)other[i];
            if (k < j)
                row[k] = (float)(sum / (double)other[k]);
            else if (!(sum > 0))
                return false;
            else
                row[k] = (float)sqrt(sum);
        }
    }
    return true;
}

/* Rows below the block on the diagonal. */
static void solve_rows(void *context, int piece, int thread)
{
    (void)thread;
    const struct matrix *m = context;
    const int row = m->first + m->n_block + piece * ROWS;
    for (int i = row; i < row + ROWS && i < m->n; i++) {
        float *x = at(m, i, m->first);
        for (int j = 0; j < m->n_block; j++) {
            const float *l = at(m, m->first + j, m->first);
            float sum = x[j];
            for (int k = 0; k < j; k++)
                sum -= x[k] * l[k];
            x[j] = sum / l[j];
        }
    }
}

static int pieces(int n, int of) { return (n + of - 1) / of; }

/* The lower triangle of a becomes L; what stands above the diagonal is left alone. */
static bool cholesky(struct matrix *m)
{
    for (m->first = 0; m->first < m->n; m->first += BLOCK) {
        m->n_block = m->n - m->first < BLOCK ? m->n - m->first : BLOCK;
        if (m->first > 0)
            pool_run(m->c->pool, subtract_rows, m, pieces(m->n - m->first, ROWS));
        if (!factor_block(m))
            return false;
        const int below = m->n - m->first - m->n_block;
        if (below > 0)
            pool_run(m->c->pool, solve_rows, m, pieces(below, ROWS));
    }
    return true;
}

/* The block on the diagonal becomes its inverse. */
static void invert_block(const struct matrix *m)
{
    for (int i = 0; i < m->n_block; i++) {
        float *row = at(m, m->first + i, m->first);
        double sum[BLOCK] = {0};
        for (int k = 0; k < i; k++)
            for (int j = 0; j <= k; j++)
                sum[j] += (double)row[k] * (double)at(m, m->first + k, m->first)[j];
        const double inverse = 1 / (double)row[i];
        for (int j = 0; j < i; j++)
            row[j] = (float)(-sum[j] * inverse);
        row[i] = (float)inverse;
    }
}

/* Some columns of the block's rows, left of the diagonal: L[block][..] times the inverse above. */
static void multiply_columns(void *context, int piece, int thread)
{
    const struct matrix *m = context;
    const int column = piece * OUTS;
    const struct small_product p = {.out = m->rows + column,
                                    .x = at(m, m->first, 0),
                                    .w = at(m, 0, column),
                                    .ld_out = (size_t)m->n,
                                    .ld_x = (size_t)m->n,
                                    .ld_w = (size_t)m->n,
                                    .n_row = m->n_block,
                                    .n_out = m->first - column < OUTS ? m->first - column : OUTS,
                                    .n_in = m->first,
                                    .columns = true};
    product_small(m->c, &p, compute_scratch(m->c, thread));
}

/* The same columns from the left: minus the inverse of the block on the diagonal times those products. */
static void place_columns(void *context, int piece, int thread)
{
    (void)thread;
    const struct matrix *m = context;
    const int column = piece * OUTS, end = m->first - column < OUTS ? m->first : column + OUTS;
    for (int i = 0; i < m->n_block; i++) {
        float *out = at(m, m->first + i, 0);
        const float *inverse = at(m, m->first + i, m->first);
        for (int j = column; j < end; j++)
            out[j] = 0;
        for (int k = 0; k <= i; k++)
            for (int j = column; j < end; j++)
                out[j] -= inverse[k] * m->rows[(size_t)k * (size_t)m->n + (size_t)j];
    }
}

static void invert_triangle(struct matrix *m)
{
    for (int i = 0; i < m->n; i++)
        memset(at(m, i, i) + 1, 0, sizeof(float) * (size_t)(m->n - i - 1));
    for (m->first = 0; m->first < m->n; m->first += BLOCK) {
        m->n_block = m->n - m->first < BLOCK ? m->n - m->first : BLOCK;
        if (m->first > 0)
            pool_run(m->c->pool, multiply_columns, m, pieces(m->first, OUTS));
        invert_block(m);
        if (m->first > 0)
            pool_run(m->c->pool, place_columns, m, pieces(m->first, OUTS));
    }
}

/* Rows and columns in reversed order. */
static void reverse(float *a, int n)
{
    const size_t n_all = (size_t)n * (size_t)n;
    for (size_t i = 0; i < n_all / 2; i++) {
        const float first = a[i];
        a[i] = a[n_all - 1 - i];
        a[n_all - 1 - i] = first;
    }
}

/* The lower triangle again from the upper one, with the diagonal raised. */
static void restore(const struct matrix *m, const float *diagonal, double damping)
{
    for (int i = 0; i < m->n; i++) {
        for (int j = 0; j < i; j++)
            *at(m, i, j) = *at(m, j, i);
        *at(m, i, i) = (float)((double)diagonal[i] + damping);
    }
}

static enum mr_status factor(struct matrix *m, float *diagonal, float damping, struct mr_error *err)
{
    double sum = 0;
    for (int i = 0; i < m->n; i++) {
        diagonal[i] = *at(m, i, i);
        sum += (double)diagonal[i];
    }
    if (!isfinite(sum))
        return mr_fail(err, MR_BAD_FORMAT, "the activations are not finite");
    double damp = sum > 0 ? (double)damping * sum / m->n : 1;
    for (int i = 0; i < ATTEMPTS; i++, damp *= 10) {
        restore(m, diagonal, damp);
        if (!cholesky(m))
            continue;
        invert_triangle(m);
        reverse(m->a, m->n);
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_FORMAT, "the products of its activations are no positive matrix");
}

enum mr_status inverse_factor(struct compute *c, float *h, int n, float damping, struct mr_error *err)
{
    struct matrix m = {.c = c, .a = h, .n = n};
    float *diagonal = mem_array((size_t)n, sizeof *diagonal);
    m.rows = mem_array((size_t)BLOCK * (size_t)n, sizeof *m.rows);
    enum mr_status status = MR_OK;
    if (diagonal == NULL || m.rows == NULL)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for a matrix of %d columns", n);
    reverse(h, n);
    if (status == MR_OK)
        status = factor(&m, diagonal, damping, err);
    free(diagonal);
    free(m.rows);
    return status;
}
