/* panel_sparse.h: the planes of one output of a sparse type (panel.h says how they stand). */
#ifndef KERNELS_PANEL_SPARSE_H
#define KERNELS_PANEL_SPARSE_H

#include "kernels/panel.h"

/* plane: the output's first bytes in the block's first plane; each further one is PANEL_STEP behind. */
void sparse_store(struct panel_format f, uint8_t *plane, const struct panel_row *row);

/* q[k] of all 32, 0 where none is stored. */
void sparse_load(struct panel_format f, int16_t q[Q8_BLOCK], const uint8_t *plane);

#endif
