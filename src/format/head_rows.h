/* head_rows.h: the order of rows within a head of q and k. The hub's files have the two halves of a head's values one after
 * the other, where value i turns with value i + n / 2; GGUF files of some families have the two of each pair side by side. */
#ifndef FORMAT_HEAD_ROWS_H
#define FORMAT_HEAD_ROWS_H

#include <stdbool.h>
#include <stddef.h>

/* From the hub's order to pairs, in place: n_row rows in heads of head_dim, which is even and divides them. false: no
 * memory. */
bool head_rows_to_pairs(void *rows, size_t row_bytes, int n_row, int head_dim);

#endif
