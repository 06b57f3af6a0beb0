/* head_rows.c: moves the rows of heads. */
#include "format/head_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

bool head_rows_to_pairs(void *rows, size_t row_bytes, int n_row, int head_dim)
{
    char *head = mem_array((size_t)head_dim, row_bytes), *to = rows;
    if (head == NULL)
        return false;
    for (int first = 0; first + head_dim <= n_row; first += head_dim) {
        memcpy(head, to, (size_t)head_dim * row_bytes);
        for (int i = 0; i < head_dim; i++, to += row_bytes)
            memcpy(to, head + (size_t)(i / 2 + i % 2 * (head_dim / 2)) * row_bytes, row_bytes);
    }
    free(head);
    return true;
}
