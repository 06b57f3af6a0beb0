/* adapter_state.h: what the forward pass knows of adapters. */
#ifndef MODEL_ADAPTER_STATE_H
#define MODEL_ADAPTER_STATE_H

#include "model/adapter.h"

/* The products of a layer that an adapter may add to. */
enum adapted {
    ADAPTED_Q,
    ADAPTED_K,
    ADAPTED_V,
    ADAPTED_QKV,
    ADAPTED_O,
    ADAPTED_GATE,
    ADAPTED_UP,
    ADAPTED_DOWN,
    N_ADAPTED
};

enum {
    ADAPTED_AT_ONCE = 3 /* products of one op */
};

struct adapter {
    struct model *model;
    struct low_rank (*layer)[N_ADAPTED]; /* [n_layer] */
    struct buffer *buffer;
    struct adapter_info info;
};

/* The rows of one batch by their adapters, and memory for a x. */
struct adapter_work;

/* Make or enlarge a model's for adapters of this rank. */
enum mr_status adapter_work_reserve(struct adapter_work **work, struct device *device, int max_row, int rank,
                                    struct mr_error *err);
size_t adapter_work_bytes(const struct adapter_work *work); /* takes NULL */
void adapter_work_free(struct adapter_work *work);          /* takes NULL */

/* Sort the rows of a batch. false: none has an adapter; work may then be NULL. */
bool adapter_work_fill(struct adapter_work *work, const struct batch *b);

/* What is added to a product of the layer, valid until the next call for the same place; NULL: nothing. */
const struct adaptation *adapter_work_product(struct adapter_work *work, int layer, enum adapted which, int place);

#endif
