/* adapter_work.c: a batch's rows sorted by their adapters. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/adapter_state.h"

struct adapter_work {
    struct device *device;
    int max_row, rank, n_group;
    int32_t *row; /* [max_row * ADAPTERS_MAX], so the next ones */
    float *scale;
    int *first;                       /* one more */
    const struct adapter **adapter;   /* of each group */
    const struct low_rank **low_rank; /* [ADAPTED_AT_ONCE] of them for each group */
    struct buffer *inner;
    struct adapted_rows rows;
    struct adaptation adaptation[ADAPTED_AT_ONCE];
};

static size_t n_entries(int max_row) { return (size_t)max_row * ADAPTERS_MAX; }

static size_t row_bytes(int rank) { return size_align((size_t)rank * sizeof(float), 64); }

size_t adapter_work_bytes(const struct adapter_work *w)
{
    if (w == NULL)
        return 0;
    const size_t entry = sizeof *w->row + sizeof *w->scale + sizeof *w->first + sizeof(struct adapter *) +
                         ADAPTED_AT_ONCE * (sizeof(struct low_rank *) + row_bytes(w->rank));
    return sizeof *w + n_entries(w->max_row) * entry;
}

void adapter_work_free(struct adapter_work *w)
{
    if (w == NULL)
        return;
    if (w->inner != NULL)
        w->inner->device->ops->buffer_free(w->inner);
    free(w->row);
    free(w->scale);
    free(w->first);
    free(w->adapter);
    free(w->low_rank);
    free(w);
}

static struct adapter_work *create(struct device *device, int max_row)
{
    const size_t n = n_entries(max_row);
    struct adapter_work *w = mem_zero_array(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->device = device;
    w->max_row = max_row;
    w->row = mem_array(n, sizeof *w->row);
    w->scale = mem_array(n, sizeof *w->scale);
    w->first = mem_array(n + 1, sizeof *w->first);
    w->adapter = mem_array(n, sizeof(struct adapter *));
    w->low_rank = mem_array(n * ADAPTED_AT_ONCE, sizeof(struct low_rank *));
    if (w->row != NULL && w->scale != NULL && w->first != NULL && w->adapter != NULL && w->low_rank != NULL)
        return w;
    adapter_work_free(w);
    return NULL;
}

enum mr_status adapter_work_reserve(struct adapter_work **work, struct device *device, int max_row, int rank,
                                    struct mr_error *err)
{
    struct adapter_work *w = *work != NULL ? *work : create(device, max_row);
    if (w == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the adapters of %d rows", max_row);
    *work = w;
    if (rank <= w->rank)
        return MR_OK;
    struct buffer *inner;
    MR_TRY(device->ops->buffer_create(device, &inner, ADAPTED_AT_ONCE * n_entries(max_row) * row_bytes(rank), err));
    device->ops->buffer_free(w->inner);
    w->inner = inner;
    w->rank = rank;
    w->rows = (struct adapted_rows){.row = w->row, .scale = w->scale, .first = w->first};
    for (int i = 0; i < ADAPTED_AT_ONCE; i++)
        w->adaptation[i] = (struct adaptation){.rows = &w->rows,
                                               .low_rank = w->low_rank + (size_t)i * n_entries(max_row),
                                               .inner = {.buffer = inner,
                                                         .offset = (size_t)i * n_entries(max_row) * row_bytes(rank),
                                                         .row_bytes = row_bytes(rank),
                                                         .n_row = (int)n_entries(max_row),
                                                         .n_col = rank}};
    return MR_OK;
}

static const struct adapter *adapter_of(const struct batch *b, int row, int term)
{
    const struct adapter_set *s = b->adapters[row];
    return s != NULL && term < s->n ? s->adapter[term] : NULL;
}

static bool has_group(const struct adapter_work *w, int first_group, const struct adapter *a)
{
    for (int g = first_group; g < w->n_group; g++)
        if (w->adapter[g] == a)
            return true;
    return false;
}

/* All rows from `row` on whose term-th adapter is a. Returns the entries so far. */
static int add_group(struct adapter_work *w, const struct batch *b, int row, int term, const struct adapter *a, int entry)
{
    w->adapter[w->n_group] = a;
    w->first[w->n_group++] = entry;
    for (int r = row; r < b->n_row; r++)
        if (adapter_of(b, r, term) == a) {
            w->row[entry] = r;
            w->scale[entry++] = b->adapters[r]->scale[term];
        }
    return entry;
}

bool adapter_work_fill(struct adapter_work *w, const struct batch *b)
{
    int entry = 0;
    if (w == NULL || b->adapters == NULL)
        return false;
    w->n_group = 0;
    for (int term = 0; term < ADAPTERS_MAX; term++) {
        const int first_group = w->n_group;
        for (int r = 0; r < b->n_row; r++) {
            const struct adapter *a = adapter_of(b, r, term);
            if (a != NULL && !has_group(w, first_group, a))
                entry = add_group(w, b, r, term, a, entry);
        }
    }
    w->first[w->n_group] = entry;
    w->rows.n_group = w->n_group;
    return entry > 0;
}

const struct adaptation *adapter_work_product(struct adapter_work *w, int layer, enum adapted which, int place)
{
    const struct low_rank **low_rank = w->low_rank + (size_t)place * n_entries(w->max_row);
    bool any = false;
    for (int g = 0; g < w->n_group; g++) {
        const struct low_rank *l = &w->adapter[g]->layer[layer][which];
        low_rank[g] = l->a.n_out > 0 ? l : NULL;
        any |= low_rank[g] != NULL;
    }
    return any ? &w->adaptation[place] : NULL;
}
