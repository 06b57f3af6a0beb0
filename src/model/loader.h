/* loader.h: what the files that load weights share. */
#ifndef MODEL_LOADER_H
#define MODEL_LOADER_H

#include "model/weights.h"

/* One tensor to load: a matrix or a vector. */
struct item {
    const struct gguf_tensor *source;
    struct weight *matrix; /* NULL: a vector */
    struct tensor *vector;
    struct device *device;
    size_t bytes;
};

struct loader {
    struct weights *weights;
    const struct hparams *h;
    const struct gguf *g;
    const struct model_options *options;
    struct device *embed_device;
    struct item *item;
    size_t n_item, item_capacity;
    bool *claimed;      /* [n_tensors] */
    size_t done, total; /* bytes of the file */
};

/* The items become views of the weights' buffers. */
void loader_attach(const struct loader *l);

/* A packed file, instead of reading and packing: all items are views of its mapping, size bytes where they were placed.
 * NO_SUPPORT: packed for other products than this device and precision take. */
enum mr_status loader_map_packed(struct loader *l, size_t size, struct mr_error *err);

#endif
