/* quant.c: the table of block types. */
#include "quant/quant.h"

#include <stddef.h>
#include <string.h>

#include "quant/sparse.h"
#include "quant/types.h"

/* One row per block type. */
static const struct quant *const table[] = {
    &quant_f32,  &quant_f16,  &quant_bf16, &quant_q8_0, &quant_q4_0, &quant_q4_1, &quant_q5_0,
    &quant_q5_1, &quant_q2_k, &quant_q3_k, &quant_q4_k, &quant_q5_k, &quant_q6_k, &quant_iq4_nl,
};

enum {
    N_QUANTS = sizeof table / sizeof *table
};

const struct quant *quant_at(int i) { return i >= 0 && i < N_QUANTS ? table[i] : NULL; }

const struct quant *quant_find(uint32_t type)
{
    for (int i = 0; i < N_QUANTS; i++)
        if ((uint32_t)table[i]->type == type)
            return table[i];
    for (int i = 0; quant_sparse_at(i) != NULL; i++)
        if ((uint32_t)quant_sparse_at(i)->type == type)
            return quant_sparse_at(i);
    return NULL;
}

const struct quant *quant_find_name(const char *name)
{
    for (int i = 0; i < N_QUANTS; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    for (int i = 0; quant_sparse_at(i) != NULL; i++)
        if (strcmp(quant_sparse_at(i)->name, name) == 0)
            return quant_sparse_at(i);
    return NULL;
}

size_t quant_row_bytes(const struct quant *q, size_t n)
{
    return n % (size_t)q->block == 0 ? n / (size_t)q->block * q->bytes : 0;
}
