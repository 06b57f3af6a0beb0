/* panel.c: weights from rows of the file to panels and back, for all types with int8 activations. */
#include "kernels/panel.h"

#include <string.h>

#include "base/fp16.h"
#include "kernels/panel_sparse.h"

static uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void store_u32(uint8_t *p, uint32_t v) { memcpy(p, &v, sizeof v); }

static uint16_t load_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void store_u16(uint8_t *p, uint16_t v) { memcpy(p, &v, sizeof v); }

size_t panel_bytes(enum quant_type type, int n_in)
{
    const struct panel_format f = panel_formats[type];
    return (size_t)(n_in / panel_unit_weights(f)) * panel_unit_bytes(f);
}

/* A plane of `bits` bits at bit `low` of u, for one output: four bytes a word, as many steps to a word as fit. */
static uint8_t *store_plane(uint8_t *plane, const uint8_t *u, int bits, int low)
{
    const int per_word = 8 / bits;
    const uint32_t mask = (0xffu >> (8 - bits)) * 0x01010101u;
    for (int s = 0; s < PANEL_STEPS; s += per_word, plane += PANEL_STEP) {
        uint32_t word = 0;
        for (int j = 0; j < per_word; j++)
            word |= (load_u32(u + 4 * (s + j)) >> low & mask) << (bits * j);
        store_u32(plane, word);
    }
    return plane;
}

static const uint8_t *load_plane(uint8_t *u, const uint8_t *plane, int bits, int low)
{
    const int per_word = 8 / bits;
    const uint32_t mask = (0xffu >> (8 - bits)) * 0x01010101u;
    for (int s = 0; s < PANEL_STEPS; s += per_word, plane += PANEL_STEP)
        for (int j = 0; j < per_word; j++)
            store_u32(u + 4 * (s + j), load_u32(u + 4 * (s + j)) | (load_u32(plane) >> (bits * j) & mask) << low);
    return plane;
}

static void store_unit(struct panel_format f, uint8_t *unit, const struct panel_row *row, int o)
{
    store_u16(unit + 2 * o, row->d);
    if (f.has_min)
        store_u16(unit + PANEL_HALVES + 2 * o, row->m);
    for (int b = 0; b < f.n_block; b++) {
        uint8_t *body = unit + panel_head_bytes(f) + b * panel_body_bytes(f);
        const uint8_t *u = row->u + b * Q8_BLOCK;
        if (f.scale != PANEL_SCALE_NONE) {
            body[o] = row->scale[b][0];
            body[PANEL_NR + o] = row->scale[b][1];
        }
        uint8_t *plane = body + panel_scale_bytes(f) + 4 * o;
        int low = 0;
        if (f.pattern != PANEL_ALL) {
            sparse_store(f, plane, row);
            continue;
        }
        if (f.byte)
            plane = store_plane(plane, u, 8, 0);
        if (f.nibble) {
            plane = store_plane(plane, u, 4, 0);
            low = 4;
        }
        if (f.two) {
            plane = store_plane(plane, u, 2, low);
            low += 2;
        }
        if (f.one)
            store_plane(plane, u, 1, low);
    }
}

void panel_pack(enum quant_type type, panel_reader *read, void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    const struct panel_format f = panel_formats[type];
    const size_t unit_bytes = panel_unit_bytes(f);
    const int n_unit = n_in / panel_unit_weights(f);
    if (n_out < PANEL_NR)
        memset(panel, 0, panel_bytes(type, n_in));
    struct panel_row row;
    for (int o = 0; o < n_out; o++) {
        const uint8_t *block = (const uint8_t *)rows + o * row_bytes;
        uint8_t *unit = panel;
        for (int i = 0; i < n_unit; i++, block += f.file_bytes, unit += unit_bytes) {
            read(&row, block);
            store_unit(f, unit, &row, o);
        }
    }
}

static void column_scales(struct panel_column *c, enum panel_scale scale, const uint8_t *body, int o)
{
    const uint8_t first = body[o], second = body[PANEL_NR + o];
    switch (scale) {
    case PANEL_SCALE_NONE:
        c->scale[0] = c->scale[1] = 1;
        c->minimum[0] = c->minimum[1] = 1;
        break;
    case PANEL_SCALE_MIN:
        c->scale[0] = c->scale[1] = first;
        c->minimum[0] = c->minimum[1] = second;
        break;
    case PANEL_SCALE_HALVES:
        c->scale[0] = (int8_t)first;
        c->scale[1] = (int8_t)second;
        break;
    case PANEL_SCALE_NIBBLES:
        c->scale[0] = first & 15;
        c->scale[1] = second & 15;
        c->minimum[0] = first >> 4;
        c->minimum[1] = second >> 4;
        break;
    }
}

void panel_column(struct panel_column *c, enum quant_type type, const void *panel, int b, int o)
{
    const struct panel_format f = panel_formats[type];
    const uint8_t *unit = (const uint8_t *)panel + (size_t)(b / f.n_block) * panel_unit_bytes(f);
    const uint8_t *body = unit + panel_head_bytes(f) + b % f.n_block * panel_body_bytes(f);
    c->d = f32_from_f16(load_u16(unit + 2 * o));
    c->m = f.has_min ? f32_from_f16(load_u16(unit + PANEL_HALVES + 2 * o)) : 0;
    column_scales(c, f.scale, body, o);

    uint8_t u[Q8_BLOCK] = {0};
    const uint8_t *plane = body + panel_scale_bytes(f) + 4 * o;
    int low = 0;
    if (f.pattern != PANEL_ALL) {
        sparse_load(f, c->q, plane);
        return;
    }
    if (f.byte)
        plane = load_plane(u, plane, 8, 0);
    if (f.nibble) {
        plane = load_plane(u, plane, 4, 0);
        low = 4;
    }
    if (f.two) {
        plane = load_plane(u, plane, 2, low);
        low += 2;
    }
    if (f.one)
        load_plane(u, plane, 1, low);
    if (type == QUANT_IQ4_NL)
        for (int k = 0; k < Q8_BLOCK; k++)
            u[k] = panel_iq4_nl[u[k]];
    for (int k = 0; k < Q8_BLOCK; k++)
        c->q[k] = (int16_t)(u[k] - f.offset);
}

void panel_unpack(enum quant_type type, float *out, const void *panel, int o, int n_in)
{
    const bool has_min = panel_formats[type].has_min;
    for (int b = 0; b < n_in / Q8_BLOCK; b++, out += Q8_BLOCK) {
        struct panel_column c;
        panel_column(&c, type, panel, b, o);
        for (int half = 0; half < 2; half++) {
            const float d = c.d * (float)c.scale[half];
            const float m = has_min ? c.m * (float)c.minimum[half] : 0;
            for (int k = half * Q8_BLOCK / 2; k < (half + 1) * Q8_BLOCK / 2; k++)
                out[k] = has_min ? d * (float)c.q[k] + m : d * (float)c.q[k];
        }
    }
}
