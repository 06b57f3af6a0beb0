/* prune_source.c: read, merge, keep. */
#include "compress/prune_source.h"

#include <stdlib.h>

#include "base/memory.h"

/* The layer of the larger model that is the n-th to stay. */
static int layer_behind(const struct structures *mask, int n)
{
    int layer = 0;
    while (n > 0 || !(mask->layer[layer] > 0))
        n -= mask->layer[layer++] > 0;
    return layer;
}

static enum mr_status read_one(void *context, int layer, enum param which, const float **out, struct mr_error *err)
{
    struct prune_source *s = context;
    if (s->go_on != NULL && !s->go_on(s->context))
        return mr_fail(err, MR_CANCELLED, "stopped before '%s'", train_param_name(layer, which).s);
    if (s->mask != NULL && which >= N_GLOBAL_PARAMS)
        layer = layer_behind(s->mask, layer);
    *out = s->read;
    if (s->from->w != NULL)
        *out = s->from->w + train_param(s->from, layer, which).at;
    else
        MR_TRY(train_param_read(s->read, s->from, s->file, layer, which, err));
    if (s->merged != s->from) {
        prune_merge_param(s->joined, *out, s->from, s->from->h.n_head_kv / s->merged->h.n_head_kv, which);
        *out = s->joined;
    }
    if (s->mask != NULL) {
        prune_param(s->kept, *out, s->merged, s->mask, layer, which);
        *out = s->kept;
    }
    return MR_OK;
}

enum mr_status prune_source_init(struct prune_source *s, const struct train_model *m, const struct train_model *merged,
                                 const struct gguf *file, struct mr_error *err)
{
    size_t most = 0;
    *s = (struct prune_source){.source = {read_one, s}, .file = file, .from = m, .merged = merged};
    for (enum param p = 0; p < N_PARAMS; p++) {
        const size_t n = param_floats(train_param(m, 0, p));
        most = n > most ? n : most;
    }
    s->read = mem_array(m->w == NULL ? most : 1, sizeof *s->read);
    s->joined = mem_array(merged != m ? most : 1, sizeof *s->joined);
    s->kept = mem_array(most, sizeof *s->kept);
    if (s->read != NULL && s->joined != NULL && s->kept != NULL)
        return MR_OK;
    prune_source_release(s);
    return mr_fail(err, MR_NO_MEMORY, "no memory for a parameter of %zu weights", most);
}

void prune_source_keep(struct prune_source *s, const struct structures *mask) { s->mask = mask; }

void prune_source_release(struct prune_source *s)
{
    free(s->read);
    free(s->joined);
    free(s->kept);
    s->read = s->joined = s->kept = NULL;
}
