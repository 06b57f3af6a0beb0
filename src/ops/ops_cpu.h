/* ops_cpu.h: what the files of the cpu back end share. */
#ifndef OPS_OPS_CPU_H
#define OPS_OPS_CPU_H

#include "base/thread_pool.h"
#include "ops/cpu_device.h"
#include "ops/ops.h"

enum {
    CPU_MIN_WORK = 8192,     /* values that are worth a thread of their own */
    CPU_MAX_WORK = 64 << 10, /* values that one thread takes at a time, where rows are no longer: some 50 microseconds */
    /* Multiply-adds of a piece; second terms of fine rows come on top. A thread that loses its CPU delays the step by its
     * absence and the one piece that it held; so many take a thread of AVX2 50 to 100 microseconds. */
    CPU_PIECE_WORK = 4 << 20
};

struct cpu_buffer {
    struct buffer buffer;
    char *memory;
    bool borrowed;
};

/* What attention needs for one thread: queries, two states, and the kernel's scratch. */
struct attention_scratch {
    float q[ATTENTION_MAX_QUERIES * ATTENTION_MAX_HEAD_DIM];
    float acc[ATTENTION_MAX_QUERIES * ATTENTION_MAX_HEAD_DIM];
    float segment_acc[ATTENTION_MAX_QUERIES * ATTENTION_MAX_HEAD_DIM];
    float kernel[2 * ATTENTION_BLOCK * ATTENTION_MAX_HEAD_DIM];
    float m[ATTENTION_MAX_QUERIES], l[ATTENTION_MAX_QUERIES];
    float segment_m[ATTENTION_MAX_QUERIES], segment_l[ATTENTION_MAX_QUERIES];
    int32_t begin[ATTENTION_MAX_QUERIES], end[ATTENTION_MAX_QUERIES];
};

enum {
    CPU_REST_ROWS = 32,
    CPU_REST_OUTS = 256,          /* a multiple of every panel's outputs */
    CPU_GATHER_FLOATS = 64 << 10, /* rows of one adapter side by side: stay in L2 */
};

struct cpu_device {
    struct device device;
    struct ops ops; /* the device's */
    struct thread_pool *pool;
    struct kernels kernels;
    int n_thread;
    bool untiled;
    struct attention_scratch *attention; /* [n_thread] */
    float *partial;                      /* states of segments, [CPU_PARTIAL_FLOATS] */
    float *rest;                         /* products to be added to others, [n_thread][CPU_REST_ROWS][CPU_REST_OUTS] */
    float *gather;                       /* [n_thread][CPU_GATHER_FLOATS] */
};

enum {
    CPU_PARTIAL_FLOATS = 1 << 20
};

enum {
    CPU_PIECE_BYTES = 128 << 10, /* weights of a piece that many rows read again and again: stay in L2 */
    CPU_ROWS_BYTES = 128 << 10   /* and so do the rows that one look at them serves */
};

static inline struct cpu_device *cpu_of(struct device *d) { return (struct cpu_device *)d; }

/* Activation rows that one look at a piece's weights serves, a multiple of 8. */
static inline int cpu_rows_in_cache(size_t row_bytes)
{
    return row_bytes < CPU_ROWS_BYTES / 8 ? (int)(CPU_ROWS_BYTES / row_bytes / 8 * 8) : 8;
}

static inline char *cpu_address(const struct buffer *b, size_t offset)
{
    return ((const struct cpu_buffer *)b)->memory + offset;
}

static inline float *cpu_row(const struct tensor *t, int row)
{
    return (float *)cpu_address(t->buffer, t->offset + (size_t)row * t->row_bytes);
}

/* The fine rows of a view, x->q8_rest.n_row of them. */
static inline const int32_t *cpu_fine_rows(const struct activation_view *x)
{
    return x->q8_rest.n_row > 0 ? (const int32_t *)cpu_row(&x->fine_row, 0) : NULL;
}

/* The first of n ascending numbers that is not below `value`; n: all are. */
static inline int cpu_lower_bound(const int32_t *number, int n, int32_t value)
{
    int low = 0;
    while (low < n) {
        const int middle = (low + n) / 2;
        if (number[middle] < value)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Call f(context, first, end) over pieces of 0..n_row, as many as n_row rows of row_work values are worth. */
typedef void cpu_rows_fn(struct cpu_device *d, const void *context, int first, int end);
void cpu_for_rows(struct cpu_device *d, cpu_rows_fn *f, const void *context, int n_row, int row_work);

/* The first part of what adapters add to these products of x: a x of each entry (ops_cpu_adapt.c). */
void cpu_adapt_inner(struct cpu_device *d, const struct product *product, int n_product, const struct tensor *x);
/* The second part, of the rows first_row <= r < end_row: added to the outputs first <= o < first + n_out, first being a
 * multiple of 16. */
void cpu_adapt_add(struct cpu_device *d, const struct product *product, int first_row, int end_row, int first, int n_out,
                   int thread);
/* Both, for the whole product. */
void cpu_adapt(struct cpu_device *d, const struct product *product, const struct tensor *x);

/* Overwrite the fused ops. */
void cpu_ops_unfuse(struct ops *ops);

/* The steps of rope_store; context: struct attention_args. */
void cpu_norm_head_rows(struct cpu_device *d, const void *context, int first, int end);
void cpu_turn_rows(struct cpu_device *d, const void *context, int first, int end);
void cpu_store_rows(struct cpu_device *d, const void *context, int first, int end);

/* The int8 form of a view's rows first <= r < end, where somebody reads it. */
void cpu_quantize_rows(struct cpu_device *d, const struct activation_view *x, int first, int end);

enum mr_status cpu_buffer_create(struct device *d, struct buffer **out, size_t bytes, struct mr_error *err);
enum mr_status cpu_buffer_borrow(struct device *d, struct buffer **out, const void *memory, size_t bytes, struct mr_error *err);
void cpu_buffer_free(struct buffer *b);
void cpu_upload(struct device *d, const struct tensor *to, const float *from);
void cpu_download(struct device *d, float *to, const struct tensor *from);
void cpu_move(struct device *d, struct buffer *b, size_t to, size_t from, size_t bytes);
void cpu_read(struct device *d, void *to, const struct buffer *b, size_t from, size_t bytes);
void cpu_write(struct device *d, struct buffer *b, size_t to, const void *from, size_t bytes);
enum mr_status cpu_weight_plan(struct device *d, struct weight *out, const struct weight_source *w, enum weight_form form,
                               struct mr_error *err);
enum mr_status cpu_weight_pack(struct device *d, const struct weight *out, const struct weight_source *w, const void *rows,
                               int first, int n_row, struct mr_error *err);
const char *cpu_weight_kernel_name(const struct weight *w);
void cpu_embed(struct device *d, const struct tensor *out, const struct weight *w, const int32_t *token, float scale);
void cpu_gather_rows(struct device *d, const struct tensor *out, const struct tensor *x, const int32_t *row);
void cpu_norm(struct device *d, const struct norm_args *args);
void cpu_quantize(struct device *d, const struct activation_view *x);
void cpu_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x);
void cpu_rope_angles(struct device *d, const struct tensor *out, const struct rope *rope, const int32_t *position);
void cpu_rope_store(struct device *d, const struct attention_args *args);
void cpu_attention(struct device *d, const struct attention_args *args);
void cpu_glu(struct device *d, const struct activation_view *out, const struct tensor *gate, const struct tensor *up,
             enum glu_kind kind);
bool cpu_is_finite(struct device *d, const struct tensor *x);
void cpu_route(struct device *d, const struct routing *out, const struct tensor *score);
void cpu_gather_slots(struct device *d, const struct activation_view *out, const struct activation_view *x,
                      const struct routing *routing);
void cpu_matmul_experts(struct device *d, const struct product *product, int n_product, const struct activation_view *x,
                        const struct routing *routing);
void cpu_mix_experts(struct device *d, const struct tensor *out, const struct tensor *x, const struct routing *routing);
void cpu_soft_cap(struct device *d, const struct tensor *x, float cap);

#endif
