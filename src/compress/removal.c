/* removal.c: one probe for heads and channels, from the last layer to the first; a pruned model for each layer and tile of the
 * width. */
#include "compress/removal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/probe.h"

struct removal {
    const struct train_model *m;
    const struct importance_options *o;
    struct structures *score, mask;
    struct probe *probe;
    int *order; /* [n_ff or n_embd] */
    double base;
    int64_t done, total;
};

/* One removal is measured: its rise. */
static enum mr_status take_rise(struct removal *r, double loss, double *rise, struct mr_error *err)
{
    *rise = loss - r->base;
    if (!isfinite(loss))
        return mr_fail(err, MR_BAD_FORMAT, "the loss over the text is not a number");
    r->done++;
    if (r->o->go_on != NULL && !r->o->go_on(r->o->context, r->done, r->total))
        return mr_fail(err, MR_CANCELLED, "stopped after %lld of %lld removals", (long long)r->done, (long long)r->total);
    return MR_OK;
}

static enum mr_status measure_groups(struct removal *r, int layer, struct mr_error *err)
{
    const struct hparams *h = &r->m->h;
    const int each = h->n_head / h->n_head_kv;
    float *keep = probe_heads(r->probe, layer);
    for (int g = 0; g < h->n_head_kv; g++) {
        double rise;
        for (int i = 0; i < each; i++)
            keep[g * each + i] = 0;
        MR_TRY(take_rise(r, probe_loss(r->probe, layer), &rise, err));
        for (int i = 0; i < each; i++)
            keep[g * each + i] = 1;
        r->score->group[(size_t)layer * (size_t)h->n_head_kv + (size_t)g] = (float)rise;
    }
    return MR_OK;
}

/* A tile of neighbours in order: the rise, and a hair for the place in the tile. */
static void set_tile(float *score, const int *order, int n, double rise)
{
    for (int i = 0; i < n; i++)
        score[order[i]] = (float)(rise + (double)i * 1e-6 * (fabs(rise) + 1e-6));
}

static int tile_at(int first, int n) { return n - first < PRUNE_TILE ? n - first : PRUNE_TILE; }

static enum mr_status measure_channels(struct removal *r, int layer, struct mr_error *err)
{
    const int n_ff = r->m->h.n_ff;
    float *keep = probe_channels(r->probe, layer), *score = r->score->channel + (size_t)layer * (size_t)n_ff;
    prune_order(r->order, score, n_ff);
    for (int first = 0, n; first < n_ff; first += n) {
        double rise;
        n = tile_at(first, n_ff);
        for (int i = first; i < first + n; i++)
            keep[r->order[i]] = 0;
        MR_TRY(take_rise(r, probe_loss(r->probe, layer), &rise, err));
        for (int i = first; i < first + n; i++)
            keep[r->order[i]] = 1;
        set_tile(score, r->order + first, n, rise);
    }
    return MR_OK;
}

/* The loss of the model that the mask leaves. */
static enum mr_status measure_mask(struct removal *r, double *rise, struct mr_error *err)
{
    struct train_model pruned;
    struct probe *probe = NULL;
    enum mr_status status = prune_apply(&pruned, r->m, &r->mask, err);
    if (status == MR_OK)
        status = probe_create(&probe, &pruned, r->o->windows, (int)r->o->windows->n_train, r->o->pool, r->o->cpu_features, err);
    if (status == MR_OK)
        status = take_rise(r, probe_loss(probe, 0), rise, err);
    probe_free(probe);
    train_model_release(&pruned);
    return status;
}

static enum mr_status measure_layers(struct removal *r, struct mr_error *err)
{
    for (int l = 0; l < r->m->h.n_layer && r->m->h.n_layer > 1; l++) {
        double rise;
        r->mask.layer[l] = 0;
        MR_TRY(measure_mask(r, &rise, err));
        r->mask.layer[l] = 1;
        r->score->layer[l] = (float)rise;
    }
    return MR_OK;
}

static enum mr_status measure_width(struct removal *r, struct mr_error *err)
{
    const int n_embd = r->m->h.n_embd;
    prune_order(r->order, r->score->width, n_embd);
    for (int first = 0, n; first < n_embd && n_embd > PRUNE_TILE; first += n) {
        double rise;
        n = tile_at(first, n_embd);
        for (int i = first; i < first + n; i++)
            r->mask.width[r->order[i]] = 0;
        MR_TRY(measure_mask(r, &rise, err));
        for (int i = first; i < first + n; i++)
            r->mask.width[r->order[i]] = 1;
        set_tile(r->score->width, r->order + first, n, rise);
    }
    return MR_OK;
}

static int64_t count_removals(const struct removal *r)
{
    const struct hparams *h = &r->m->h;
    const int64_t tiles = (h->n_ff + PRUNE_TILE - 1) / PRUNE_TILE;
    return (r->o->parts & PRUNE_HEADS ? (int64_t)h->n_layer * h->n_head_kv : 0) +
           (r->o->parts & PRUNE_CHANNELS ? (int64_t)h->n_layer * tiles : 0) + (r->o->parts & PRUNE_LAYERS ? h->n_layer : 0) +
           (r->o->parts & PRUNE_WIDTH ? (h->n_embd + PRUNE_TILE - 1) / PRUNE_TILE : 0);
}

static enum mr_status measure(struct removal *r, struct mr_error *err)
{
    const struct hparams *h = &r->m->h;
    struct importance_options by_weight = *r->o;
    by_weight.method = IMPORTANCE_WEIGHT;
    r->total = count_removals(r);
    r->order = mem_array((size_t)(h->n_ff > h->n_embd ? h->n_ff : h->n_embd), sizeof *r->order);
    if (r->order == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an order of structures");
    MR_TRY(structures_create(&r->mask, h, err));
    prune_choose(&r->mask, r->score, prune_whole(h));
    MR_TRY(importance_measure(r->score, r->m, &by_weight, err));
    MR_TRY(probe_create(&r->probe, r->m, r->o->windows, (int)r->o->windows->n_train, r->o->pool, r->o->cpu_features, err));
    r->base = probe_loss(r->probe, 0);
    for (int layer = h->n_layer - 1; layer >= 0; layer--) {
        if (r->o->parts & PRUNE_HEADS)
            MR_TRY(measure_groups(r, layer, err));
        if (r->o->parts & PRUNE_CHANNELS)
            MR_TRY(measure_channels(r, layer, err));
    }
    if (r->o->parts & PRUNE_LAYERS)
        MR_TRY(measure_layers(r, err));
    return r->o->parts & PRUNE_WIDTH ? measure_width(r, err) : MR_OK;
}

enum mr_status removal_measure(struct structures *score, const struct train_model *m, const struct importance_options *options,
                               struct mr_error *err)
{
    struct removal r = {.m = m, .o = options, .score = score};
    const enum mr_status status = measure(&r, err);
    probe_free(r.probe);
    structures_release(&r.mask);
    free(r.order);
    return status;
}
