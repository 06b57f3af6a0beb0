/* adapter.h: LoRA adapters (Hu et al. 2021, arXiv:2106.09685): what a row may add to a model's products. Never merged into the
 * weights: rows with different adapters, and rows without one, stand in one batch.
 * A GGUF file with general.type "adapter", adapter.type "lora", general.architecture, adapter.lora.alpha, and for the matrix
 * NAME of the model the tensors NAME.lora_a [rank][n_in] and NAME.lora_b [n_out][rank]. Adapted are the products of q, k, v
 * (or all of them in one matrix), output, gate, up and down of dense layers. F16 and BF16 matrices stay so, others become F32;
 * activations are f32. */
#ifndef MODEL_ADAPTER_H
#define MODEL_ADAPTER_H

#include "model/model.h"

enum {
    ADAPTER_RANK_MAX = 1024
};

struct adapter; /* opaque */

/* Load for this model, which outlives it; g may be closed afterwards.
 * BAD_FORMAT, NOT_FOUND, NO_SUPPORT: the message names the key or tensor: another architecture, a shape that is not the
 * model's, two ranks, a tensor without its partner, one that nothing reads, NaN or infinity. NO_MEMORY: with what is needed
 * and what is free, of the memory that the model may take. */
enum mr_status adapter_load(struct adapter **out, struct model *m, const struct gguf *g, struct mr_error *err);
void adapter_free(struct adapter *a); /* takes NULL; no call of model_forward will name it again */

struct adapter_info {
    size_t bytes;
    int rank; /* the greatest */
    int n_product;
    float alpha;
    uint8_t digest[32]; /* SHA-256 of all that decides what it adds */
};
const struct adapter_info *adapter_info(const struct adapter *a);

#endif
