/* train_pass.h: the forward pass that remembers, and the backward pass.
 * n_seq sequences of n_tok tokens pass at a time (a micro-batch); gradients add up over calls. The inputs of all layers are
 * kept; what a layer computes inside is kept too, or, where memory is short, computed again layer by layer on the way back
 * (Chen et al. 2016, arXiv:1604.06174). The output matrix is met a few rows at a time, so that logits never stand in memory
 * for all rows. With and without recomputation, and on any number of threads, the bits are the same.
 * Threads: one thread calls. */
#ifndef TRAIN_TRAIN_PASS_H
#define TRAIN_TRAIN_PASS_H

#include "train/product.h"
#include "train/train_lora.h"
#include "train/train_model.h"

struct train_pass; /* opaque */

struct train_pass_options {
    int n_seq, n_tok;        /* of a micro-batch: at most, and exactly */
    bool is_forward;         /* no gradient will be asked for: layers share one memory */
    size_t memory_bytes;     /* for activations; where all layers' do not fit, they are computed twice */
    bool is_bf16;            /* products of rounded operands (product.h); no forward pass alone */
    const struct lora *lora; /* an adapter on m, which stands still: gradients are the adapter's alone; borrowed. NULL: none */
    const struct train_model *output; /* m is a block: whose output matrix its states meet, and which stands still; borrowed */
    struct thread_pool *pool;
    unsigned cpu_features;
};

/* m is borrowed, its weights may change between calls. NO_MEMORY: with the bytes that are missing. */
enum mr_status train_pass_create(struct train_pass **out, const struct train_model *m, const struct train_pass_options *options,
                                 struct mr_error *err);
void train_pass_free(struct train_pass *p); /* takes NULL */
bool train_pass_recomputes(const struct train_pass *p);
size_t train_pass_bytes(const struct train_pass *p);

/* What is done with logits[n_row][n_vocab] of rows first_row..: returns the loss summed over them, and, where the pass goes
 * backward, leaves d loss / d logits in their place. May spread its work over `c`. */
struct train_loss {
    double (*logits)(void *context, struct compute *c, float *logits, int first_row, int n_row, bool backward);
    /* Behind `layer` blocks (0: the embedding) the state x[n_row][n_embd] is known; a loss on it is returned, and its gradient
     * added to dx, which is NULL in the forward pass. May be NULL. */
    double (*hidden)(void *context, struct compute *c, int layer, const float *x, float *dx, int n_row);
    /* Before the product that writes a branch of a layer (PARAM_O, PARAM_DOWN): what it will read, x[n_row][n_in], which may be
     * changed where no gradient is asked for. May be NULL. */
    void (*branch)(void *context, int layer, enum param which, float *x, int n_row);
    void *context;
};

/* The loss over n_seq sequences: token[n_seq * n_tok]; gradients are added to grad[n_weight], the adapter's where there is one.
 * NULL: forward alone. */
double train_pass_run(struct train_pass *p, const int32_t *token, int n_seq, const struct train_loss *loss, float *grad);

/* Forward alone, from the states behind `layer` blocks that the last run left (0: the embedding); those above are replaced, so
 * runs that differ in one layer each go from the last layer to the first. */
double train_pass_rerun(struct train_pass *p, int n_seq, int layer, const struct train_loss *loss);

/* The same for a block, from states x[rows][n_embd] on; what leaves it meets the output matrix without a norm. *dx: the
 * gradient of x, where grad is not NULL; borrowed until the next run. */
double train_pass_run_block(struct train_pass *p, const float *x, int n_seq, const struct train_loss *loss, float *grad,
                            const float **dx);
int train_pass_n_tok(const struct train_pass *p);

/* States behind `layer` blocks in the last run, [rows][n_embd]; borrowed until the next one. */
const float *train_pass_hidden(const struct train_pass *p, int layer);
/* What the output matrix read in the last run, [rows][n_embd]: the states behind the last block, normed; borrowed likewise. */
const float *train_pass_features(const struct train_pass *p);
struct compute *train_pass_compute(struct train_pass *p);

/* Operations that a token costs forward and backward, without recomputation: 6 for each weight of a product, and attention's
 * (Chowdhery et al. 2022, arXiv:2204.02311, appendix B, over the keys that a causal mask leaves). forward alone is a third. */
double train_flops_per_token(const struct train_model *m, int n_tok);
/* Weights that multiply each token. */
double train_product_weights(const struct train_model *m);

#endif
