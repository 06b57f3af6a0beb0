/* loaded_model.h: what stands behind struct mr_model: a file's weights, its tokenizer, and the threads that compute. */
#ifndef ENGINE_LOADED_MODEL_H
#define ENGINE_LOADED_MODEL_H

#include "base/thread_pool.h"
#include "engine/draft_model.h"
#include "format/gguf.h"
#include "millrace.h"
#include "model/model.h"
#include "ops/device.h"
#include "text/tokenizer.h"

struct loaded_adapter {
    int32_t id;
    struct adapter *adapter;
    int n_user;       /* requests */
    bool is_unloaded; /* only those still use it */
};

struct mr_model {
    struct gguf *file; /* kept: the tokenizer borrows from it */
    struct tokenizer *tokenizer;
    struct thread_pool *pool;
    struct device *device;
    struct model *model;
    struct draft_model draft;
    int32_t *end_token; /* ids that end a generation */
    int n_end_tokens;
    struct loaded_adapter *adapter;
    int n_adapter;
    size_t adapter_capacity;
    int32_t last_adapter_id;
};

/* As mr_options says of a model on m's device. */
void loaded_model_options(struct model_options *out, const struct mr_model *m, const struct mr_options *options);

#endif
