/* jinja_sort.c: a stable merge sort of values. */
#include <string.h>

#include "text/jinja_value.h"

struct sorting {
    struct jinja *j;
    value_order_fn *order;
    const void *context;
    int sign; /* -1: descending, equal elements still in their first order */
};

/* Sort item[0..n), with scratch of the same size. Depth is the logarithm of n. */
static void merge_sort(const struct sorting *s, struct value *item, struct value *scratch, size_t n)
{
    if (n < 2)
        return;
    const size_t half = n / 2;
    merge_sort(s, item, scratch, half);
    merge_sort(s, item + half, scratch, n - half);
    memcpy(scratch, item, n * sizeof *item);
    size_t a = 0, b = half;
    for (size_t i = 0; i < n; i++) {
        const bool first = b == n || (a < half && s->sign * s->order(s->j, s->context, scratch[a], scratch[b]) <= 0);
        item[i] = first ? scratch[a++] : scratch[b++];
    }
}

void list_sort(struct jinja *j, struct list *l, value_order_fn *order, const void *context, bool reverse)
{
    const struct sorting s = {j, order, context, reverse ? -1 : 1};
    merge_sort(&s, l->item, jinja_alloc_array(j, l->n, sizeof *l->item), l->n);
}

struct value value_pair(struct jinja *j, struct value a, struct value b)
{
    struct list *l = list_make(j, 2);
    list_add(j, l, a);
    list_add(j, l, b);
    return value_list(VALUE_TUPLE, l);
}
