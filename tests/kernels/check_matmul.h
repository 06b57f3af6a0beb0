/* check_matmul.h: the matrix products of a table against exact sums, on odd sizes and extreme input. */
#ifndef TESTS_KERNELS_CHECK_MATMUL_H
#define TESTS_KERNELS_CHECK_MATMUL_H

#include <float.h>
#include <math.h>

#include "kernels/panel.h"
#include "weights.h"

enum {
    MAX_ROWS = 2 * 8 + 1, /* two tiles and one more row */
    SPARE = 3,            /* unused floats behind each row of the output */
    SANITIZED_N_IN = 1024 /* sanitizers take ten times as long; longer rows have no other shape */
};

/* A product to check, with the answer. */
struct problem {
    const char *name; /* type and activation */
    enum quant_type type;
    const struct quant *quant;
    enum activation activation;
    int n_out, n_in, n_row;
    size_t row_bytes, ld_x;
    uint8_t *rows;
    char *x;
    double *want, *bound; /* [n_row][n_out] */
};

enum x_fill {
    X_RANDOM,
    X_ALL_MAX,
    X_DENORMAL,
    X_ZERO,
    N_X_FILLS
};

static inline float x_value(struct check *c, enum x_fill fill, int k)
{
    switch (fill) {
    case X_ALL_MAX:
        return k / 3 % 2 ? 1e4f : -1e4f;
    case X_DENORMAL:
        return check_gauss(c) * 0x1p-130f;
    case X_ZERO:
        return k % 2 ? 0.0f : -0.0f;
    default:
        return check_gauss(c);
    }
}

static inline size_t x_row_bytes(enum activation activation, int n_in)
{
    return activation == ACTIVATION_Q8 ? q8_row_bytes(n_in) : sizeof(float) * (size_t)n_in;
}

static inline void fill_x(struct check *c, struct problem *p, const struct kernels *k, enum x_fill fill)
{
    float *row = check_alloc(sizeof(float) * (size_t)p->n_in);
    for (int r = 0; r < p->n_row; r++) {
        for (int i = 0; i < p->n_in; i++)
            row[i] = x_value(c, fill, i);
        if (p->activation == ACTIVATION_Q8)
            k->quantize_q8(p->x + (size_t)r * p->ld_x, row, p->n_in);
        else
            memcpy(p->x + (size_t)r * p->ld_x, row, sizeof(float) * (size_t)p->n_in);
    }
    check_free(row);
}

/* As products with bf16 activations round: to nearest even, denormals to zero. */
static inline float as_bf16(float x)
{
    const float rounded = f32_from_bf16(bf16_from_f32(x));
    return fabsf(x) < FLT_MIN || fabsf(rounded) < FLT_MIN ? 0.0f : rounded;
}

/* The values that the kernel sees: x[n_row][n_in]. */
static inline void see_x(double *x, const struct problem *p)
{
    for (int r = 0; r < p->n_row; r++, x += p->n_in) {
        const void *row = p->x + (size_t)r * p->ld_x;
        for (int k = 0; k < p->n_in; k++)
            x[k] = p->activation == ACTIVATION_F32    ? (double)((const float *)row)[k]
                   : p->activation == ACTIVATION_BF16 ? (double)as_bf16(((const float *)row)[k])
                                                      : (double)q8_d(row, p->n_in)[k / Q8_BLOCK] * q8_q(row)[k];
    }
}

/* Bounds on the float terms that make each weight of output o: |w| and, where there are minima, twice |m * minimum|. */
static inline void magnitudes(double *size, const struct problem *p, const char *panel, const float *w, int o)
{
    for (int k = 0; k < p->n_in; k++)
        size[k] = fabs((double)w[k]);
    if (p->activation != ACTIVATION_Q8 || !panel_formats[p->type].has_min)
        return;
    for (int b = 0; b < p->n_in / Q8_BLOCK; b++, size += Q8_BLOCK) {
        struct panel_column column;
        panel_column(&column, p->type, panel, b, o % PANEL_NR);
        for (int k = 0; k < Q8_BLOCK; k++)
            size[k] += 2 * fabs((double)column.m * column.minimum[k / (Q8_BLOCK / 2)]);
    }
}

/* Float sums of n terms differ from the exact sum by at most n epsilon times the sum of the terms' magnitudes (Higham 2002,
 * section 4.2). Terms: one or two a block, each of three rounded factors; for float activations one a weight. Products
 * below the normal range lose at most FLT_MIN * epsilon each. */
static inline void solve(struct problem *p, const struct matmul *m, const void *packed)
{
    const size_t n_in = (size_t)p->n_in, panel_bytes = m->panel_bytes(p->n_in);
    float *w = check_alloc(sizeof *w * n_in);
    double *size = check_alloc(sizeof *size * n_in), *x = check_alloc(sizeof *x * n_in * (size_t)p->n_row);
    const int n_term = p->activation == ACTIVATION_Q8 ? 2 * q8_n_blocks(p->n_in) + 4 : p->n_in + 2;
    see_x(x, p);
    for (int o = 0; o < p->n_out; o++) {
        p->quant->decode(w, p->rows + (size_t)o * p->row_bytes, n_in);
        magnitudes(size, p, (const char *)packed + (size_t)(o / PANEL_NR) * panel_bytes, w, o);
        for (int r = 0; r < p->n_row; r++) {
            double sum = 0, total = 0, sum_of_x = 0;
            for (size_t k = 0; k < n_in; k++) {
                const double at = x[(size_t)r * n_in + k];
                sum_of_x += fabs(at);
                sum += (double)w[k] * at;
                total += size[k] * fabs(at);
            }
            p->want[r * p->n_out + o] = sum;
            /* what is below the normal range may be lost, weights and products alike, where denormals are zero */
            const double lost = p->activation == ACTIVATION_BF16 ? n_term * FLT_MIN * (1 + sum_of_x) : 0;
            p->bound[r * p->n_out + o] = n_term * (double)FLT_EPSILON * (total + FLT_MIN) + lost;
        }
    }
    check_free(x);
    check_free(size);
    check_free(w);
}

static inline void check_values(struct check *c, const struct problem *p, const float *out, size_t ld_out)
{
    for (int r = 0; r < p->n_row; r++)
        for (int o = 0; o < p->n_out; o++) {
            const int i = r * p->n_out + o;
            const double got = out[(size_t)r * ld_out + (size_t)o];
            if (!check_that(c, fabs(got - p->want[i]) <= p->bound[i],
                            "%s n_out=%d n_in=%d n_row=%d: out[%d][%d] = %g, want %g +- %g", p->name, p->n_out, p->n_in,
                            p->n_row, r, o, got, p->want[i], p->bound[i]))
                return;
        }
}

/* Every number of rows gives the same bits for each row, and writes nothing else. */
static inline void check_row_counts(struct check *c, const struct problem *p, const struct matmul *m, const void *packed,
                                    const float *all)
{
    const size_t ld_out = (size_t)(p->n_out + SPARE), bytes = sizeof(float) * ld_out * (size_t)p->n_row;
    float *out = check_alloc(bytes);
    for (int n = 1; n <= p->n_row; n++)
        for (int first = 0; first + n <= p->n_row; first += n) {
            memset(out, CHECK_GUARD_BYTE, bytes);
            m->run(out, ld_out, packed, p->x + (size_t)first * p->ld_x, p->ld_x, n, p->n_out, p->n_in);
            if (!check_that(c, memcmp(out, all + (size_t)first * ld_out, sizeof(float) * ld_out * (size_t)n) == 0,
                            "%s n_out=%d n_in=%d: %d rows from row %d differ from %d rows", p->name, p->n_out, p->n_in, n,
                            first, p->n_row)) {
                check_free(out);
                return;
            }
        }
    check_free(out);
}

static inline void check_unpack(struct check *c, const struct problem *p, const struct matmul *m, const void *packed)
{
    const size_t bytes = sizeof(float) * (size_t)p->n_in;
    float *want = check_alloc(bytes), *got = check_alloc(bytes);
    for (int o = 0; o < p->n_out; o++) {
        const char *panel = (const char *)packed + (size_t)(o / m->nr) * m->panel_bytes(p->n_in);
        p->quant->decode(want, p->rows + (size_t)o * p->row_bytes, (size_t)p->n_in);
        m->unpack(got, panel, o % m->nr, p->n_in);
        if (!check_that(c, memcmp(want, got, bytes) == 0, "%s n_out=%d n_in=%d: row %d unpacked differs from decode", p->name,
                        p->n_out, p->n_in, o))
            break;
    }
    check_guards(c, got, bytes, p->name);
    check_free(want);
    check_free(got);
}

/* A NaN or an infinity in one row makes that row's outputs NaN or infinite and leaves its neighbour alone. */
static inline void check_not_finite(struct check *c, const struct problem *p, const struct matmul *m, const struct kernels *k,
                                    const void *packed, const float *all)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const size_t ld_out = (size_t)(p->n_out + SPARE);
    float *row = check_alloc(sizeof(float) * (size_t)p->n_in), *out = check_alloc(sizeof(float) * ld_out * 2);
    char *x = check_alloc(2 * p->ld_x);
    float *w = check_alloc(sizeof(float) * (size_t)p->n_in);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int j = 0; j < p->n_in; j++)
            row[j] = j == p->n_in / 2 ? bad[i] : 1;
        memcpy(x, p->x, p->ld_x);
        if (p->activation == ACTIVATION_Q8)
            k->quantize_q8(x + p->ld_x, row, p->n_in);
        else
            memcpy(x + p->ld_x, row, sizeof(float) * (size_t)p->n_in);
        m->run(out, ld_out, packed, x, p->ld_x, 2, p->n_out, p->n_in);
        check_that(c, memcmp(out, all, sizeof(float) * (size_t)p->n_out) == 0, "%s: %g reached another row", p->name,
                   (double)bad[i]);
        for (int o = 0; o < p->n_out; o++) {
            p->quant->decode(w, p->rows + (size_t)o * p->row_bytes, (size_t)p->n_in);
            if (w[p->n_in / 2] == 0 && quant_pattern(p->quant) != NULL && p->activation != ACTIVATION_Q8)
                continue; /* no weight is stored there */
            check_that(c, !isfinite(out[ld_out + (size_t)o]), "%s: %g was lost in output %d", p->name, (double)bad[i], o);
        }
    }
    check_free(w);
    check_free(row);
    check_free(out);
    check_free(x);
}

static inline void check_product(struct check *c, struct problem *p, const struct kernels *reference, const struct kernels *k,
                                 enum fill fill)
{
    const struct matmul *m = &k->matmul[p->type][p->activation];
    p->row_bytes = quant_row_bytes(p->quant, (size_t)p->n_in);
    p->ld_x = (x_row_bytes(p->activation, p->n_in) + 63) / 64 * 64;
    p->rows = fill_weights(c, fill, p->quant, p->n_out, p->n_in);
    p->x = check_alloc(p->ld_x * (size_t)p->n_row);
    p->want = check_alloc(sizeof(double) * (size_t)(p->n_row * p->n_out));
    p->bound = check_alloc(sizeof(double) * (size_t)(p->n_row * p->n_out));
    const size_t ld_out = (size_t)(p->n_out + SPARE), bytes = sizeof(float) * ld_out * (size_t)p->n_row;
    float *out = check_alloc(bytes);
    void *packed = pack_weights(m, p->rows, p->row_bytes, p->n_out, p->n_in);
    check_guards(c, packed, (size_t)((p->n_out + m->nr - 1) / m->nr) * m->panel_bytes(p->n_in), p->name);
    check_unpack(c, p, m, packed);
    for (enum x_fill x = 0; x < N_X_FILLS; x++) {
        if (x != X_RANDOM && fill != FILL_RANDOM && fill != FILL_ALL_ONES && fill != FILL_ALL_ZEROS)
            continue;
        fill_x(c, p, reference, x);
        solve(p, m, packed);
        memset(out, CHECK_GUARD_BYTE, bytes);
        m->run(out, ld_out, packed, p->x, p->ld_x, p->n_row, p->n_out, p->n_in);
        check_guards(c, out, bytes, p->name);
        check_values(c, p, out, ld_out);
        if (x == X_RANDOM || !CHECK_SANITIZED)
            check_row_counts(c, p, m, packed, out);
    }
    if (fill == FILL_RANDOM)
        check_not_finite(c, p, m, reference, packed, out);
    check_free(packed);
    check_free(out);
    check_free(p->rows);
    check_free(p->x);
    check_free(p->want);
    check_free(p->bound);
}

static inline void check_type(struct check *c, struct problem *p, const struct kernels *reference, const struct kernels *k)
{
    static const int n_outs[] = {1, PANEL_NR - 1, PANEL_NR, PANEL_NR + 1, 3 * PANEL_NR + 2};
    static const int float_n_ins[] = {1, 2, 7, 33, 576, 640}, block_n_ins[] = {32, 64, 96, 576, 640, 2048},
                     super_n_ins[] = {256, 512, 768, 1024, 1280, 2048};
    const int *n_ins = p->quant->block == 1 ? float_n_ins : p->quant->block == Q8_BLOCK ? block_n_ins : super_n_ins;
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 6; j++)
            for (enum fill fill = 0; fill < N_FILLS; fill++) {
                if (CHECK_SANITIZED && n_ins[j] > SANITIZED_N_IN)
                    continue;
                p->n_out = n_outs[i];
                p->n_in = n_ins[j];
                p->n_row = i == 1 || p->n_in < 100 ? MAX_ROWS : 3;
                check_product(c, p, reference, k, fill);
            }
}

static inline void check_matmul(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    for (int i = 0; any_quant_at(i) != NULL; i++)
        for (enum activation a = 0; a < N_ACTIVATIONS; a++) {
            const struct quant *q = any_quant_at(i);
            const struct matmul *m = &k->matmul[q->type][a];
            if (m->name == NULL || !check_wanted(c, m->name))
                continue;
            if (reference != k && m->run == reference->matmul[q->type][a].run && strcmp(c->isa, "scalar") != 0)
                continue; /* not better than the reference here */
            struct problem p = {.name = m->name, .type = q->type, .quant = q, .activation = a};
            check_type(c, &p, reference, k);
        }
}

#endif
