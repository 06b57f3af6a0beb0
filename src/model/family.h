/* family.h: what a family of models is: one file and one row in family.c.
 * A family says which keys and tensors it uses, and writes its forward pass out over ops: embed, layer(i), head. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "model/hparams.h"

struct loader;
struct pass;
struct weights;
struct layer_weights;

struct family {
    const char *arch;        /* general.architecture */
    const char *const *keys; /* keys below ARCH. that it understands beside the common ones; NULL-terminated */
    const char *norm_key;    /* key of the epsilon of its norms */
    enum mr_status (*configure)(struct hparams *h, const struct gguf *g, struct mr_error *err);
    /* Tensors of the model beside embedding, output and output norm; NULL: none. */
    enum mr_status (*bind_model)(struct loader *l, struct weights *w, struct mr_error *err);
    /* The tensors of one layer. */
    enum mr_status (*bind_layer)(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err);
    void (*embed)(struct pass *p);
    void (*layer)(struct pass *p, int layer);
    void (*head)(struct pass *p);
};

/* NULL: no such family. */
const struct family *family_find(struct gguf_string arch);
/* NULL past the end. */
const struct family *family_at(int i);

extern const struct family family_llama;
extern const struct family family_qwen2;
extern const struct family family_qwen3;
extern const struct family family_gemma3;
extern const struct family family_olmoe;
extern const struct family family_gpt2;

#define NORM_KEY_RMS   "attention.layer_norm_rms_epsilon"
#define NORM_KEY_LAYER "attention.layer_norm_epsilon"

#endif
