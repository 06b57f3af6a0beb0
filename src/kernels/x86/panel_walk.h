/* panel_walk.h: how the int8 products of every x86 instruction set go over packed blocks and activation rows. All is inlined
 * with the block type as a constant. */
#ifndef KERNELS_X86_PANEL_WALK_H
#define KERNELS_X86_PANEL_WALK_H

#include "kernels/panel.h"

#define WALK_INLINE static inline __attribute__((always_inline))

/* The packed blocks of one panel, walked in ascending order. */
struct cursor {
    const uint8_t *head, *body;
    int left; /* blocks left in this unit */
};

WALK_INLINE void cursor_next(enum quant_type type, struct cursor *at)
{
    const struct panel_format f = panel_formats[type];
    at->body += panel_body_bytes(f);
    if (--at->left > 0)
        return;
    at->head = at->body;
    at->body += panel_head_bytes(f);
    at->left = f.n_block;
}

WALK_INLINE struct cursor cursor_at(enum quant_type type, const uint8_t *panel)
{
    return (struct cursor){panel, panel + panel_head_bytes(panel_formats[type]), panel_formats[type].n_block};
}

/* The rows of a tile. */
struct tile_rows {
    const char *x;
    size_t ld_x;
    int n_in;
};

WALK_INLINE const void *row_at(const struct tile_rows *rows, int r) { return rows->x + (size_t)r * rows->ld_x; }

#endif
