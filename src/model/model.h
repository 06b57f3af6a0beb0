/* model.h: a language model: weights on devices, and the forward pass.
 * The families (llama, qwen2, qwen3, gemma3, olmoe, gpt2) are files of their own behind the table in family.c.
 * A row's logits have the same bits whatever else is in the batch, however the prompt is cut into batches, and on any
 * number of threads (docs/architecture.md, "The numeric rule").
 * Threads: one thread calls; the work is spread by the device. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cache/kv_cache.h"
#include "format/gguf.h"
#include "ops/ops.h"

/* The arithmetic: docs/forward-pass.md has the table. */
enum precision {
    PRECISION_AUTO, /* weights as in the file: quantised ones with int8 activations, others with f32 ones */
    PRECISION_FP32, /* f32 weights, activations, keys and values */
    PRECISION_BF16, /* bf16 weights, keys and values; activations too where the device multiplies bf16, else f32 */
    PRECISION_FP16, /* f16 weights, keys and values, f32 activations */
    PRECISION_INT8, /* as auto, but weights wider than 8 bits become Q8_0 */
    PRECISION_INT4, /* as int8, but weights wider than 4 bits become Q4_0 */
    N_PRECISIONS
};

/* "auto", "fp32", ...; false: no such name. */
bool precision_from_name(enum precision *out, const char *name);
const char *precision_name(enum precision p);

struct model; /* opaque */

struct model_options {
    struct device *device;           /* of the layers and the head */
    struct device *embedding_device; /* NULL: the same */
    enum precision precision;
    bool kv_int8;   /* int8 keys and values, whatever the precision */
    int max_row;    /* rows of one forward call; bounds the activations */
    int max_logits; /* rows of one forward call that ask for logits */
    /* Called before the weights load and every few megabytes, with bytes done and in all; false: do not go on. NULL: nobody
     * listens. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
    size_t memory_bytes; /* that weights and activations may take; 0: what the system has free */
};

/* max_row 512, max_logits 64, the rest zero: the caller sets device. */
void model_options_defaults(struct model_options *options);

/* How weights are kept. */
enum weight_form model_weight_form(enum precision p);

/* Load the weights, a few megabytes of the file at a time; g may be closed afterwards, a packed one (below) not
 * before the model is freed.
 * BAD_FORMAT, NOT_FOUND, NO_SUPPORT: the message names the key or tensor, and its value or shape. NO_MEMORY: with what the
 * model needs and what is free, before anything is loaded. CANCELLED: progress said
 * not to go on. */
enum mr_status model_open(struct model **out, const struct gguf *g, const struct model_options *options, struct mr_error *err);
/* Write the model to a file whose weights lie as they do in memory: opened, they are mapped and used as they are, so that file
 * must stay open as long as its model, and must not be cut. g: the file that the model was opened from. BAD_INPUT: g is packed
 * already. CANCELLED: progress, which is as in the options, said not to go on. */
enum mr_status model_pack(const struct model *m, const struct gguf *g, const char *path,
                          bool (*progress)(void *context, size_t done, size_t total), void *progress_context,
                          struct mr_error *err);
void model_free(struct model *m); /* takes NULL; its caches have been freed */

struct model_info {
    const char *family; /* "llama" */
    const char *kv_type;
    const char *precision; /* of the products: "fp32", "int8", or "f32 activations" as "fp32" */
    int n_vocab;
    int n_ctx_train; /* tokens of context that the file states */
    int n_position;  /* positions beyond which no sequence may go; 0: any */
    int n_layer;
    int n_embd;
    int pooling; /* of embeddings, as the file states it: 1 mean, 2 first, 3 last; 0: nothing */
    int n_head;
    int n_head_kv;
    int head_dim;
    int n_expert; /* 0: no mixture of experts */
    int n_expert_used;
    int64_t n_parameter;
    int64_t n_parameter_used; /* by one token: of a mixture, only its experts */
    size_t activation_bytes;
    size_t weight_bytes;  /* packed, on all devices */
    size_t adapter_bytes; /* of those that are loaded now, with what rows need for them */
    int max_row;
    int max_logits;
};
const struct model_info *model_info(const struct model *m);

/* What a file will need, without loading it. */
struct model_memory {
    size_t weight_bytes;
    size_t weight_bytes_used;  /* by one token: of a mixture, only its experts */
    size_t kv_bytes_per_token; /* while no window is full */
    size_t kv_bytes;           /* of one sequence of n_ctx tokens */
    size_t activation_bytes;
};
enum mr_status model_estimate(struct model_memory *out, const struct gguf *g, const struct model_options *options, int n_ctx,
                              struct mr_error *err);
/* Name of the kernel that would multiply with this tensor ("q4_1_q8_avx2"), "" where it is none's weight (norms). */
const char *model_kernel_name(const struct gguf_tensor *t, const struct model_options *options);

/* Key/value memory of a model: the blocks (kv_cache.h), and the device memory behind them, which takes real memory only as
 * blocks are first used. */
struct model_kv;
/* n_seq sequences of up to max_token tokens, n_token tokens in all (rounded up to blocks per sequence). */
enum mr_status model_kv_create(struct model_kv **out, struct model *m, int n_seq, int max_token, int64_t n_token,
                               struct mr_error *err);
void model_kv_free(struct model_kv *kv); /* takes NULL */
/* Copy the contents of a block of the group out of the memory, or into it: kv_block_bytes. */
void model_kv_export(const struct model_kv *kv, int group, uint32_t block, void *out);
void model_kv_import(struct model_kv *kv, int group, uint32_t block, const void *contents);
struct kv_cache *model_kv_cache(const struct model_kv *kv); /* open, fork, truncate, close sequences there */

enum {
    ADAPTERS_MAX = 8 /* of one row */
};

struct adapter; /* adapter.h */

/* What is added to the products of a row: each adapter's part times its scale, in this order. */
struct adapter_set {
    int n;
    const struct adapter *adapter[ADAPTERS_MAX];
    float scale[ADAPTERS_MAX];
};

/* Token rows. Rows of one sequence stand together, in ascending positions that continue the sequence. */
struct batch {
    int n_row;                                 /* 1 to max_row */
    const int32_t *token;                      /* [n_row] */
    const kv_seq *seq;                         /* [n_row] */
    const bool *wants_logits;                  /* [n_row]; NULL: the last row alone */
    const bool *wants_hidden;                  /* [n_row]; NULL: no row */
    const struct adapter_set *const *adapters; /* [n_row], NULL or n 0 for a row without; NULL: there are none */
    int n_layer; /* only the first so many, then the head: a guess of what all of them give; 0: all */
};

/* Run the rows; their keys and values, of the layers that ran, are in the cache afterwards. Positions follow from the
 * sequences' lengths. A row that only some layers have seen is to be taken out again before all of them see the next one.
 * FULL: no block is free, nothing changed. BAD_INPUT: a token id is not in the vocabulary, a sequence grows beyond max_token
 * rows or layers are too many; nothing changed. BAD_FORMAT: NaN or infinity came up in a row, model_fault_row says which, and
 * the message names the layer, the step and the row's position; no sequence grew, so that the others can be run again. */
enum mr_status model_forward(struct model *m, struct model_kv *kv, const struct batch *batch, struct mr_error *err);

/* Logits [n_vocab] of the i-th row that asked for them in the last model_forward; host memory, valid until the next one. */
const float *model_logits(const struct model *m, int i);
int model_n_logits(const struct model *m);

/* Hidden state [n_embd] behind the last norm, of the i-th row that asked for it in the last model_forward; host memory, valid
 * until the next one. */
const float *model_hidden(const struct model *m, int i);
/* The first row of the batch in which the last model_forward found NaN or infinity; -1: in none. */
int model_fault_row(const struct model *m);

#endif
