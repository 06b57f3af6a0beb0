/* panel_sparse.c: stored weights to slots, and back. */
#include "kernels/panel_sparse.h"

#include <string.h>

#include "quant/sparse.h"

/* The slot of each stored weight of a step, in the order in which they stand in the file. */
static void slots_of(uint8_t slot[PANEL_SLOTS], enum panel_pattern pattern, const uint8_t place[PANEL_SLOTS])
{
    int n_low = 0;
    for (int i = 0; i < PANEL_SLOTS; i++) {
        const bool is_low = place[i] < 4;
        slot[i] = (uint8_t)(pattern == PANEL_2_OF_4 || is_low ? i : PANEL_SLOTS - 1 - (i - n_low));
        n_low += is_low;
    }
}

/* What the index plane says of group g. */
static void store_places(enum panel_pattern pattern, uint8_t *index, int g, uint8_t map, const uint8_t place[PANEL_SLOTS])
{
    if (pattern == PANEL_4_OF_8)
        index[g] = map;
    for (int j = 0; pattern == PANEL_2_OF_4 && j < PANEL_SLOTS; j++)
        index[j] = (uint8_t)(index[j] | (place[j] & 3) << 2 * g);
}

/* The step that holds slot j of group g, and its byte there. */
static int step_of(enum panel_pattern pattern, int g, int j, int *byte)
{
    *byte = pattern == PANEL_2_OF_4 ? j : g % 2 + 2 * (j % 2);
    return pattern == PANEL_2_OF_4 ? g : g / 2 * 2 + j / 2;
}

static void store_slot(struct panel_format f, uint8_t *kept, int step, int byte, uint8_t u)
{
    uint8_t *to = kept + (f.byte ? step : step / 2) * PANEL_STEP + byte;
    *to = f.byte ? u : (uint8_t)(*to | u << 4 * (step % 2));
}

void sparse_store(struct panel_format f, uint8_t *plane, const struct panel_row *row)
{
    uint8_t *kept = plane + PANEL_STEP;
    memset(plane, 0, PANEL_SLOTS);
    for (int i = 0; i < PANEL_KEPT_STEPS / 2 && !f.byte; i++)
        memset(kept + i * PANEL_STEP, 0, PANEL_SLOTS);
    for (int g = 0; g < PANEL_KEPT_STEPS; g++) {
        uint8_t place[PANEL_SLOTS], slot[PANEL_SLOTS];
        sparse_places(place, row->map[g]);
        slots_of(slot, f.pattern, place);
        store_places(f.pattern, plane, g, row->map[g], place);
        for (int i = 0; i < PANEL_SLOTS; i++) {
            int byte;
            const int step = step_of(f.pattern, g, slot[i], &byte);
            store_slot(f, kept, step, byte, row->u[g * PANEL_SLOTS + i]);
        }
    }
}

/* Where the slots of group g stand among its eight k. */
static void load_places(uint8_t place[PANEL_SLOTS], enum panel_pattern pattern, const uint8_t *index, int g)
{
    uint8_t in_order[PANEL_SLOTS], slot[PANEL_SLOTS];
    if (pattern == PANEL_2_OF_4) {
        for (int j = 0; j < PANEL_SLOTS; j++)
            place[j] = (uint8_t)(4 * (j / 2) + (index[j] >> 2 * g & 3));
        return;
    }
    sparse_places(in_order, index[g]);
    slots_of(slot, pattern, in_order);
    for (int i = 0; i < PANEL_SLOTS; i++)
        place[slot[i]] = in_order[i];
}

void sparse_load(struct panel_format f, int16_t q[Q8_BLOCK], const uint8_t *plane)
{
    const uint8_t *kept = plane + PANEL_STEP;
    memset(q, 0, Q8_BLOCK * sizeof *q);
    for (int g = 0; g < PANEL_KEPT_STEPS; g++) {
        uint8_t place[PANEL_SLOTS] = {0};
        load_places(place, f.pattern, plane, g);
        for (int j = 0; j < PANEL_SLOTS; j++) {
            int byte;
            const int step = step_of(f.pattern, g, j, &byte);
            const int u = f.byte ? kept[step * PANEL_STEP + byte] : kept[step / 2 * PANEL_STEP + byte] >> 4 * (step % 2) & 15;
            q[g * SPARSE_GROUP + place[j]] = (int16_t)(u - f.offset);
        }
    }
}
