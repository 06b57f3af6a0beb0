/* sparse_mask.c: scores, choice, and the mending of what stays. */
#include "compress/sparse_mask.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "quant/sparse.h"

/* Scores, and behind them a copy that is sorted, or a map. */
size_t sparse_mask_scratch(size_t n) { return 2 * n + 3 * SPARSE_COLUMNS; }

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The n_out smallest go; of equals the last ones stay. */
static void drop_smallest(float *x, const float *score, float *sorted, size_t n, size_t n_out)
{
    if (n_out == 0)
        return;
    memcpy(sorted, score, n * sizeof *score);
    qsort(sorted, n, sizeof *sorted, ascending);
    const float limit = sorted[n_out - 1];
    size_t left = n_out;
    for (size_t i = 0; i < n; i++)
        left -= score[i] < limit;
    for (size_t i = 0; i < n; i++) {
        const bool is_equal = score[i] == limit;
        if (score[i] < limit || (is_equal && left > 0)) {
            x[i] = 0;
            left -= is_equal;
        }
    }
}

static void drop_pattern(const struct sparse_mask *m, float *x, const float *score, uint8_t *map, size_t n)
{
    sparse_choose(map, score, n, m->kept, m->of);
    for (size_t i = 0; i < n; i++)
        if (!(map[i / SPARSE_GROUP] >> i % SPARSE_GROUP & 1))
            x[i] = 0;
}

/* Zero what goes of n weights; the scratch behind the scores is free. */
static void drop(const struct sparse_mask *m, float *x, const float *score, float *rest, size_t n)
{
    if (m->of > 0)
        drop_pattern(m, x, score, (uint8_t *)rest, n);
    else
        drop_smallest(x, score, rest, n, (size_t)floor(m->ratio * (double)n + 0.5));
}

/* Which of columns first .. first + n stay, as the row is now: kept[i] 1 or 0. */
static void choose_columns(const struct sparse_mask *m, float *kept, const float *x, size_t n_all, size_t first, size_t n)
{
    float *score = m->scratch, *rest = score + SPARSE_COLUMNS;
    for (size_t i = 0; i < n; i++) {
        score[i] = fabsf(x[first + i] / m->factor[(first + i) * n_all + first + i]);
        kept[i] = 1;
    }
    drop(m, kept, score, rest, n);
}

/* Columns first .. first + n: each that goes mends those behind it here; error[n] is what it owes those behind these. With a
 * pattern each group is chosen when all before it have mended it. */
static void mend_block(const struct sparse_mask *m, float *x, size_t n_all, size_t first, size_t n, float *error)
{
    float kept[SPARSE_COLUMNS];
    const size_t step = m->of > 0 ? SPARSE_GROUP : n;
    for (size_t i = 0; i < n; i++) {
        if (i % step == 0)
            choose_columns(m, kept + i, x, n_all, first + i, step);
        const float *row = m->factor + (first + i) * n_all + first;
        error[i] = kept[i] != 0 ? 0 : x[first + i] / row[i];
        if (kept[i] != 0)
            continue;
        x[first + i] = 0;
        for (size_t j = i + 1; j < n; j++)
            x[first + j] -= error[i] * row[j];
    }
}

static void sparsegpt_row(const struct sparse_mask *m, float *x, size_t n)
{
    float error[SPARSE_COLUMNS];
    for (size_t first = 0; first < n; first += SPARSE_COLUMNS) {
        const size_t here = n - first < SPARSE_COLUMNS ? n - first : SPARSE_COLUMNS;
        mend_block(m, x, n, first, here, error);
        for (size_t i = 0; i < here; i++) {
            const float *row = m->factor + (first + i) * n;
            for (size_t j = first + here; error[i] != 0 && j < n; j++)
                x[j] -= error[i] * row[j];
        }
    }
}

void sparse_mask_row(const struct sparse_mask *m, float *x, size_t n)
{
    if (m->method == SPARSE_SPARSEGPT) {
        sparsegpt_row(m, x, n);
        return;
    }
    float *score = m->scratch;
    for (size_t i = 0; i < n; i++)
        score[i] = fabsf(x[i]) * (m->method == SPARSE_WANDA ? sqrtf(m->mean[i]) : 1);
    drop(m, x, score, score + n, n);
}
