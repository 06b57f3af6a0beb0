/* prune.c: shapes, choices, and the copy of what stays. */
#include "compress/prune.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum mr_status structures_create(struct structures *s, const struct hparams *h, struct mr_error *err)
{
    const size_t n = (size_t)h->n_layer;
    *s = (struct structures){.n_layer = h->n_layer, .n_group = h->n_head_kv, .n_ff = h->n_ff, .n_embd = h->n_embd};
    s->layer = mem_zero_array(n, sizeof *s->layer);
    s->group = mem_zero_array(n * (size_t)h->n_head_kv, sizeof *s->group);
    s->channel = mem_zero_array(n * (size_t)h->n_ff, sizeof *s->channel);
    s->width = mem_zero_array((size_t)h->n_embd, sizeof *s->width);
    if (s->layer != NULL && s->group != NULL && s->channel != NULL && s->width != NULL)
        return MR_OK;
    structures_release(s);
    return mr_fail(err, MR_NO_MEMORY, "no memory for the structures of %d layers", h->n_layer);
}

void structures_release(struct structures *s)
{
    free(s->layer);
    free(s->group);
    free(s->channel);
    free(s->width);
    *s = (struct structures){0};
}

struct prune_shape prune_whole(const struct hparams *h)
{
    return (struct prune_shape){h->n_layer, h->n_head_kv, h->n_ff, h->n_embd, h->n_expert};
}

size_t prune_weights(const struct train_model *m, struct prune_shape s)
{
    const struct hparams *h = &m->h;
    const size_t e = (size_t)s.n_embd, kv = (size_t)s.n_group * (size_t)h->head_dim,
                 q = kv * (size_t)(h->n_head / h->n_head_kv);
    const size_t norms = e * (m->has_post_norm ? 4 : 2) + (m->has_qk_norm ? 2 * (size_t)h->head_dim : 0);
    return (size_t)s.n_layer * (2 * e * (q + kv) + 3 * e * (size_t)s.n_ff + norms) +
           e * ((size_t)h->n_vocab * (m->is_tied ? 1 : 2) + 1);
}

/* share of n, rounded to whole units; what is no multiple of a unit stays whole as long as nothing is taken. */
static int left_of(int n, double share, int unit) { return share >= 1 ? n : (int)((double)n * share / unit + 0.5) * unit; }

bool prune_shape_at(struct prune_shape *out, const struct train_model *m, unsigned parts, double share)
{
    struct prune_shape s = prune_whole(&m->h);
    s.n_layer = parts & PRUNE_LAYERS ? left_of(s.n_layer, share, 1) : s.n_layer;
    s.n_group = parts & PRUNE_HEADS ? left_of(s.n_group, share, 1) : s.n_group;
    s.n_ff = parts & PRUNE_CHANNELS ? left_of(s.n_ff, share, PRUNE_TILE) : s.n_ff;
    s.n_embd = parts & PRUNE_WIDTH ? left_of(s.n_embd, share, PRUNE_TILE) : s.n_embd;
    *out = s;
    return s.n_layer > 0 && s.n_group > 0 && s.n_ff > 0 && s.n_embd > 0;
}

enum mr_status prune_shape_for(struct prune_shape *out, const struct train_model *m, unsigned parts, size_t n_weight,
                               struct mr_error *err)
{
    enum {
        STEPS = 4096
    };
    for (int i = STEPS; i > 0; i--) {
        struct prune_shape s;
        if (!prune_shape_at(&s, m, parts, (double)i / STEPS))
            break;
        if (prune_weights(m, s) <= n_weight) {
            *out = s;
            return MR_OK;
        }
    }
    return mr_fail(
        err, MR_BAD_INPUT,
        "%zu of %zu weights cannot be reached: what is pruned must leave a head, %d channels, a width of %d and a layer",
        n_weight, m->n_weight, PRUNE_TILE, PRUNE_TILE);
}

void prune_order(int *order, const float *score, int n)
{
    for (int i = 0; i < n; i++) { /* sorted so far: order[0..i-1] */
        int at = i;
        for (; at > 0 && score[order[at - 1]] > score[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

int prune_count_above(const float *score, int n, float threshold)
{
    float best = 0;
    int count = 0;
    for (int i = 0; i < n; i++)
        best = score[i] > best ? score[i] : best;
    for (int i = 0; i < n; i++)
        count += score[i] >= best * threshold;
    return count;
}

struct prune_shape prune_shape_above(const struct train_model *m, const struct structures *score, unsigned parts,
                                     float threshold)
{
    struct prune_shape s = prune_whole(&m->h);
    int group = 1, channel = 1;
    for (int l = 0; l < score->n_layer; l++) {
        const int a = prune_count_above(score->group + (size_t)l * (size_t)score->n_group, score->n_group, threshold);
        const int b = prune_count_above(score->channel + (size_t)l * (size_t)score->n_ff, score->n_ff, threshold);
        group = a > group ? a : group;
        channel = b > channel ? b : channel;
    }
    channel = (channel + PRUNE_TILE - 1) / PRUNE_TILE * PRUNE_TILE;
    s.n_group = parts & PRUNE_HEADS ? group : s.n_group;
    s.n_ff = parts & PRUNE_CHANNELS && channel < s.n_ff ? channel : s.n_ff;
    return s;
}

void prune_choose_best(float *mask, const float *score, int n, int keep)
{
    memset(mask, 0, (size_t)n * sizeof *mask);
    for (int k = 0; k < keep; k++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (mask[i] < 1 && (best < 0 || score[i] > score[best]))
                best = i;
        mask[best] = 1;
    }
}

void prune_choose(struct structures *mask, const struct structures *score, struct prune_shape shape)
{
    prune_choose_best(mask->layer, score->layer, score->n_layer, shape.n_layer);
    prune_choose_best(mask->width, score->width, score->n_embd, shape.n_embd);
    for (int l = 0; l < score->n_layer; l++) {
        const size_t group = (size_t)l * (size_t)score->n_group, channel = (size_t)l * (size_t)score->n_ff;
        prune_choose_best(mask->group + group, score->group + group, score->n_group, shape.n_group);
        prune_choose_best(mask->channel + channel, score->channel + channel, score->n_ff, shape.n_ff);
    }
}

static int count(const float *mask, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        kept += mask[i] > 0;
    return kept;
}

static enum mr_status shape_of_mask(struct prune_shape *out, const struct structures *mask, struct mr_error *err)
{
    struct prune_shape s = {.n_layer = count(mask->layer, mask->n_layer), .n_embd = count(mask->width, mask->n_embd)};
    bool first = true;
    for (int l = 0; l < mask->n_layer; l++) {
        const int group = count(mask->group + (size_t)l * (size_t)mask->n_group, mask->n_group);
        const int channel = count(mask->channel + (size_t)l * (size_t)mask->n_ff, mask->n_ff);
        if (!(mask->layer[l] > 0))
            continue;
        if (!first && (group != s.n_group || channel != s.n_ff))
            return mr_fail(err, MR_BAD_INPUT, "layer %d keeps %d heads and %d channels, others %d and %d", l, group, channel,
                           s.n_group, s.n_ff);
        s.n_group = group;
        s.n_ff = channel;
        first = false;
    }
    *out = s;
    return s.n_layer > 0 && s.n_group > 0 && s.n_ff > 0 && s.n_embd > 0
               ? MR_OK
               : mr_fail(err, MR_BAD_INPUT, "nothing would be left: %d layers, %d heads, %d channels, width %d", s.n_layer,
                         s.n_group, s.n_ff, s.n_embd);
}

/* Which rows or columns of a matrix stay: entries of a mask, each standing for `each` neighbours; NULL: all. */
struct kept {
    const float *mask;
    int each;
};

static bool stays(struct kept k, int i) { return k.mask == NULL || k.mask[i / k.each] > 0; }

static void copy(float *to, const float *from, int n_out, int n_in, struct kept rows, struct kept columns)
{
    for (int o = 0; o < n_out; o++)
        for (int i = 0; i < n_in && stays(rows, o); i++)
            if (stays(columns, i))
                *to++ = from[(size_t)o * (size_t)n_in + (size_t)i];
}

void prune_param(float *to, const float *from, const struct train_model *m, const struct structures *mask, int layer,
                 enum param which)
{
    const struct hparams *h = &m->h;
    const struct param_place p = train_param(m, layer, which);
    const size_t l = which < N_GLOBAL_PARAMS ? 0 : (size_t)layer;
    const struct kept all = {NULL, 1}, width = {mask->width, 1}, channel = {mask->channel + l * (size_t)mask->n_ff, 1};
    const struct kept kv = {mask->group + l * (size_t)mask->n_group, h->head_dim};
    const struct kept q = {kv.mask, h->head_dim * (h->n_head / h->n_head_kv)};
    struct kept rows = all, columns = width;
    if (which == PARAM_Q)
        rows = q;
    else if (which == PARAM_K || which == PARAM_V)
        rows = kv;
    else if (which == PARAM_GATE || which == PARAM_UP)
        rows = channel;
    else if (which == PARAM_O || which == PARAM_DOWN) {
        rows = width;
        columns = which == PARAM_O ? q : channel;
    } else if (p.n_in == 0)
        columns = which == PARAM_Q_NORM || which == PARAM_K_NORM ? all : width;
    copy(to, from, p.n_in > 0 ? p.n_out : 1, p.n_in > 0 ? p.n_in : p.n_out, rows, columns);
}

enum mr_status prune_plan(struct train_model *out, const struct train_model *m, const struct structures *mask,
                          struct mr_error *err)
{
    struct prune_shape s = {0};
    struct hparams h = m->h;
    *out = (struct train_model){0};
    MR_TRY(shape_of_mask(&s, mask, err));
    if (s.n_embd != h.n_embd && (h.embed_scale < 1 || h.embed_scale > 1))
        return mr_fail(err, MR_BAD_INPUT, "the width of the family '%s' cannot be pruned: its embedding is scaled by it",
                       h.arch);
    if (s.n_layer != h.n_layer && h.window_period > 0)
        return mr_fail(err, MR_BAD_INPUT,
                       "layers of the family '%s' cannot be pruned: which of them see a window goes by their place", h.arch);
    h.n_layer = s.n_layer;
    h.n_head = s.n_group * (h.n_head / h.n_head_kv);
    h.n_head_kv = s.n_group;
    h.n_ff = s.n_ff;
    h.n_embd = s.n_embd;
    return train_model_plan(out, &h, m->is_tied, m->rope_base, err);
}

enum mr_status prune_apply(struct train_model *out, const struct train_model *m, const struct structures *mask,
                           struct mr_error *err)
{
    struct train_model plan;
    *out = (struct train_model){0};
    MR_TRY(prune_plan(&plan, m, mask, err));
    MR_TRY(train_model_create(out, &plan.h, m->is_tied, m->rope_base, err));
    for (enum param p = 0; p < N_GLOBAL_PARAMS; p++)
        prune_param(out->w + train_param(out, 0, p).at, m->w + train_param(m, 0, p).at, m, mask, 0, p);
    for (int layer = 0, to = 0; layer < m->h.n_layer; layer++) {
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS && mask->layer[layer] > 0; p++)
            prune_param(out->w + train_param(out, to, p).at, m->w + train_param(m, layer, p).at, m, mask, layer, p);
        to += mask->layer[layer] > 0;
    }
    return MR_OK;
}

enum mr_status prune_merge_plan(struct train_model *out, const struct train_model *m, int n_head_kv, struct mr_error *err)
{
    struct hparams h = m->h;
    *out = (struct train_model){0};
    if (n_head_kv < 1 || h.n_head_kv % n_head_kv != 0)
        return mr_fail(err, MR_BAD_INPUT, "%d key/value heads cannot be merged to %d", h.n_head_kv, n_head_kv);
    h.n_head_kv = n_head_kv;
    return train_model_plan(out, &h, m->is_tied, m->rope_base, err);
}

void prune_merge_param(float *to, const float *from, const struct train_model *m, int each, enum param which)
{
    const size_t floats = (size_t)m->h.head_dim * (size_t)m->h.n_embd, all = param_floats(train_param(m, 0, which));
    if (which != PARAM_K && which != PARAM_V) {
        memcpy(to, from, all * sizeof *to);
        return;
    }
    for (size_t i = 0; i < all / (size_t)each; i++) {
        const float *head = from + i / floats * (size_t)each * floats + i % floats;
        float sum = 0;
        for (int k = 0; k < each; k++)
            sum += head[(size_t)k * floats];
        to[i] = sum / (float)each;
    }
}

enum mr_status prune_merge_heads(struct train_model *out, const struct train_model *m, int n_head_kv, struct mr_error *err)
{
    struct train_model plan;
    *out = (struct train_model){0};
    MR_TRY(prune_merge_plan(&plan, m, n_head_kv, err));
    MR_TRY(train_model_create(out, &plan.h, m->is_tied, m->rope_base, err));
    const int each = m->h.n_head_kv / n_head_kv;
    for (int layer = -1; layer < m->h.n_layer; layer++)
        for (enum param p = layer < 0 ? 0 : N_GLOBAL_PARAMS; p < (layer < 0 ? N_GLOBAL_PARAMS : N_PARAMS); p++)
            prune_merge_param(out->w + train_param(out, layer, p).at, m->w + train_param(m, layer, p).at, m, each, p);
    return MR_OK;
}
