/* product.h: the products of training, float by float, on the thread pool and the f32 kernels: Y = X W^T and its two gradients,
 * dX = dY W and dW = dY^T X. The kernels multiply rows with packed panels; what differs between the three is how panels are
 * packed and which operand gives the rows. Weights change at every step, so panels are packed on the fly into memory of the
 * thread, a cache's worth at a time.
 * Every output is one ascending sum, long sums in parts of fixed length: the bits depend neither on the number of threads nor
 * on the pieces of work.
 * With is_bf16 both operands of the products of whole matrices are rounded to bf16, and sums stay f32. A CPU that multiplies
 * bf16 does so; another multiplies the rounded values as floats, which is slower than without. Threads: one thread calls. */
#ifndef TRAIN_PRODUCT_H
#define TRAIN_PRODUCT_H

#include <stdbool.h>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

struct compute {
    struct thread_pool *pool; /* borrowed */
    struct kernels kernels;
    int n_thread;
    float *panels; /* [n_thread][PRODUCT_SCRATCH] */
    bool is_bf16;
    float *
        transposed; /* [n_transposed], of a gradient's rows; with is_bf16 also of rounded operands: n_row * n_in of a product */
    size_t n_transposed;
};

/* n_transposed: the largest n_row * n_out of a product_weight_grad. NO_MEMORY. */
enum mr_status compute_init(struct compute *c, struct thread_pool *pool, unsigned cpu_features, size_t n_transposed,
                            struct mr_error *err);
void compute_release(struct compute *c); /* also of a zeroed struct */

/* y[n_row][n_out] = (add: +=) x[n_row][n_in] w[n_out][n_in]^T */
void product_forward(struct compute *c, float *y, const float *x, const float *w, int n_row, int n_out, int n_in, bool add);
/* dx[n_row][n_in] = (add: +=) dy[n_row][n_out] w[n_out][n_in] */
void product_input_grad(struct compute *c, float *dx, const float *dy, const float *w, int n_row, int n_out, int n_in,
                        bool add);
/* dw[n_out][n_in] += dy[n_row][n_out]^T x[n_row][n_in] */
void product_weight_grad(struct compute *c, float *dw, const float *dy, const float *x, int n_row, int n_out, int n_in);

/* One product on the calling thread: out[n_row][n_out] = (add: +=) x[n_row][n_in] times w, which is w[n_out][n_in], or
 * `columns`: w[n_in][n_out]. Strides ld_* in floats; scratch[PRODUCT_SCRATCH] is the thread's. */
struct small_product {
    float *out;
    const float *x, *w;
    size_t ld_out, ld_x, ld_w;
    int n_row, n_out, n_in;
    bool columns, add, is_bf16; /* is_bf16: w is rounded while it is packed; x is rounded already, or by the kernel */
};
void product_small(const struct compute *c, const struct small_product *p, float *scratch);
float *compute_scratch(const struct compute *c, int thread);

#endif
