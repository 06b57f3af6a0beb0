/* quant.c: the table of block types. */
#include "quant/quant.h"

#include <stddef.h>
#include <string.h>

/* One row per block type. */
static const struct quant *const table[] = {
    NULL,
};

enum {
    N_QUANTS = sizeof table / sizeof *table
};

const struct quant *quant_at(int i) { return i >= 0 && i < N_QUANTS ? table[i] : NULL; }

const struct quant *quant_find(uint32_t type)
{
    for (int i = 0; i < N_QUANTS; i++)
        if (table[i] != NULL && (uint32_t)table[i]->type == type)
            return table[i];
    return NULL;
}

const struct quant *quant_find_name(const char *name)
{
    for (int i = 0; i < N_QUANTS; i++)
        if (table[i] != NULL && strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

size_t quant_row_bytes(const struct quant *q, size_t n)
{
    return n % (size_t)q->block == 0 ? n / (size_t)q->block * q->bytes : 0;
}
