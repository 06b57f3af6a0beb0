/* prune.h: a smaller model out of a larger one, by leaving out whole structures: key/value heads with their query heads,
 * channels of the feed-forward blocks, dimensions of the hidden state, layers. What is left is an ordinary model of the same
 * family: all layers have one shape, so each loses as many heads and channels, of its own choice. */
#ifndef COMPRESS_PRUNE_H
#define COMPRESS_PRUNE_H

#include "train/train_model.h"

enum {
    PRUNE_TILE = 32 /* channels and widths are left in multiples of it: those of the kernels' blocks */
};

/* What stays, or how much it matters: one entry for each structure. Masks hold 0 and 1. */
struct structures {
    int n_layer, n_group, n_ff, n_embd; /* group: a key/value head with its query heads */
    float *layer;                       /* [n_layer] */
    float *group;                       /* [n_layer][n_group] */
    float *channel;                     /* [n_layer][n_ff] */
    float *width;                       /* [n_embd] */
};

/* All entries 0. NO_MEMORY. */
enum mr_status structures_create(struct structures *s, const struct hparams *h, struct mr_error *err);
void structures_release(struct structures *s);

/* How many stay. */
struct prune_shape {
    int n_layer, n_group, n_ff, n_embd;
    int n_expert; /* of a mixture (experts.h); 0 in all others */
};
struct prune_shape prune_whole(const struct hparams *h);
/* Weights of a model of this shape. */
size_t prune_weights(const struct train_model *m, struct prune_shape shape);

enum prune_part {
    PRUNE_HEADS = 1 << 0,
    PRUNE_CHANNELS = 1 << 1,
    PRUNE_WIDTH = 1 << 2,
    PRUNE_LAYERS = 1 << 3,
    PRUNE_EXPERTS = 1 << 4 /* alone */
};

/* `share` of each of `parts`, in whole units; false: nothing would be left of one. */
bool prune_shape_at(struct prune_shape *out, const struct train_model *m, unsigned parts, double share);
/* The largest shape of at most n_weight weights in which all `parts` lost about the same share. BAD_INPUT: there is none that
 * leaves a head, a tile of channels and of the width, and a layer. */
enum mr_status prune_shape_for(struct prune_shape *out, const struct train_model *m, unsigned parts, size_t n_weight,
                               struct mr_error *err);
/* The shape of at most n_weight weights that loses the least importance in all layers together, where the scores of all kinds
 * are changes of one loss: each kind loses what is worth least, not the same share. */
enum mr_status prune_shape_global(struct prune_shape *out, const struct train_model *m, const struct structures *score,
                                  unsigned parts, size_t n_weight, struct mr_error *err);
/* Heads and channels whose score reaches `threshold` times the best of their layer; the layer that keeps most decides. */
struct prune_shape prune_shape_above(const struct train_model *m, const struct structures *score, unsigned parts,
                                     float threshold);

/* order[n]: indices by rising score; ties by number. */
void prune_order(int *order, const float *score, int n);
/* How many of n scores reach `threshold` times the best of them. */
int prune_count_above(const float *score, int n, float threshold);
/* mask[n]: 1 for the `keep` best scores, ties to the lower number. */
void prune_choose_best(float *mask, const float *score, int n, int keep);

/* The mask that keeps the best of each kind: of layers and dimensions in the model, of heads and channels in each layer; ties
 * to the lower number. */
void prune_choose(struct structures *mask, const struct structures *score, struct prune_shape shape);

/* The shape of the model that a mask leaves. BAD_INPUT: it leaves nothing of a kind, or not the same number in all layers that
 * stay, or changes the width of a family whose embedding is scaled by it (gemma3). */
enum mr_status prune_plan(struct train_model *out, const struct train_model *m, const struct structures *mask,
                          struct mr_error *err);
/* What stays of one parameter, from[] of m's shape; layer: the one of m. */
void prune_param(float *to, const float *from, const struct train_model *m, const struct structures *mask, int layer,
                 enum param which);
/* The model itself. */
enum mr_status prune_apply(struct train_model *out, const struct train_model *m, const struct structures *mask,
                           struct mr_error *err);

/* n_head_kv key/value heads, each the mean of as many neighbours (Ainslie et al. 2023, arXiv:2305.13245, section 2.1).
 * BAD_INPUT: it does not divide the number of them. */
enum mr_status prune_merge_plan(struct train_model *out, const struct train_model *m, int n_head_kv, struct mr_error *err);
/* One parameter, from[] of m's shape, with `each` neighbours merged. */
void prune_merge_param(float *to, const float *from, const struct train_model *m, int each, enum param which);
enum mr_status prune_merge_heads(struct train_model *out, const struct train_model *m, int n_head_kv, struct mr_error *err);

#endif
