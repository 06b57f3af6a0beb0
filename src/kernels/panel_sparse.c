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

/* Step t of the index plane. */
static void store_places(enum panel_pattern pattern, uint8_t *index, int t, uint8_t map, const uint8_t place[PANEL_SLOTS])
{
    if (pattern == PANEL_4_OF_8)
        index[t] = map;
    for (int j = 0; pattern == PANEL_2_OF_4 && j < PANEL_SLOTS; j++)
        index[j] = (uint8_t)(index[j] | (place[j] & 3) << 2 * t);
}

void sparse_store(struct panel_format f, uint8_t *plane, const struct panel_row *row)
{
    uint8_t *kept = plane + PANEL_STEP;
    memset(plane, 0, PANEL_SLOTS);
    for (int t = 0; t < PANEL_KEPT_STEPS; t++) {
        uint8_t place[PANEL_SLOTS], slot[PANEL_SLOTS], u[PANEL_SLOTS] = {0};
        sparse_places(place, row->map[t]);
        slots_of(slot, f.pattern, place);
        store_places(f.pattern, plane, t, row->map[t], place);
        for (int i = 0; i < PANEL_SLOTS; i++)
            u[slot[i]] = row->u[t * PANEL_SLOTS + i];
        for (int j = 0; j < PANEL_SLOTS; j++)
            if (f.byte)
                kept[t * PANEL_STEP + j] = u[j];
            else if (t % 2 == 0)
                kept[t / 2 * PANEL_STEP + j] = u[j];
            else
                kept[t / 2 * PANEL_STEP + j] = (uint8_t)(kept[t / 2 * PANEL_STEP + j] | u[j] << 4);
    }
}

/* Where the slots of step t stand among its eight k. */
static void load_places(uint8_t place[PANEL_SLOTS], enum panel_pattern pattern, const uint8_t *index, int t)
{
    uint8_t in_order[PANEL_SLOTS], slot[PANEL_SLOTS];
    if (pattern == PANEL_2_OF_4) {
        for (int j = 0; j < PANEL_SLOTS; j++)
            place[j] = (uint8_t)(4 * (j / 2) + (index[j] >> 2 * t & 3));
        return;
    }
    sparse_places(in_order, index[t]);
    slots_of(slot, pattern, in_order);
    for (int i = 0; i < PANEL_SLOTS; i++)
        place[slot[i]] = in_order[i];
}

void sparse_load(struct panel_format f, int16_t q[Q8_BLOCK], const uint8_t *plane)
{
    const uint8_t *kept = plane + PANEL_STEP;
    memset(q, 0, Q8_BLOCK * sizeof *q);
    for (int t = 0; t < PANEL_KEPT_STEPS; t++) {
        uint8_t place[PANEL_SLOTS] = {0};
        load_places(place, f.pattern, plane, t);
        for (int j = 0; j < PANEL_SLOTS; j++) {
            const int u = f.byte ? kept[t * PANEL_STEP + j] : kept[t / 2 * PANEL_STEP + j] >> 4 * (t % 2) & 15;
            q[t * SPARSE_GROUP + place[j]] = (int16_t)(u - f.offset);
        }
    }
}
