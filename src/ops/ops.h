/* ops.h: the table that a back end fills: shapes, tiling and threads around kernels.
 * All tensors of a call are on the device of its first argument. Arrays passed as plain pointers (tokens, positions, block
 * tables) are host memory, read before the call returns. Tensors are float32 unless said otherwise; no argument may overlap
 * another unless said so. Ops cannot fail: what they need was allocated with the device or by the caller.
 * An op is what may be one step on a device; a device may also run it as several (device.h, unfused).
 * A row's results depend on that row alone (docs/architecture.md, "The numeric rule"). */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "ops/device.h"

/* A matrix w[n_out][n_in] as a file holds it. */
struct weight_source {
    const struct quant *quant;
    int n_out;
    int n_in;
};

/* How a device keeps a matrix, and with which activations it multiplies. */
enum weight_form {
    WEIGHT_AS_IT_IS, /* the file's type; int8 activations where a product of it takes them, else f32 */
    WEIGHT_AUTO,     /* as it is, but BF16 as below */
    WEIGHT_F32,      /* decoded; this and the next with f32 activations */
    WEIGHT_F16,
    WEIGHT_BF16,   /* activations rounded to bf16 where the device multiplies those, else f32 */
    WEIGHT_8_BITS, /* as it is, but types wider than 8 bits as Q8_0 where rows have whole blocks */
    WEIGHT_4_BITS  /* types wider than 4 bits as Q4_0 where rows have whole blocks */
};

/* The same on a device, in the layout that its product reads. */
struct weight {
    struct buffer *buffer;
    size_t offset;
    size_t bytes;
    int n_out;
    int n_in;
    bool wants_q8;       /* its product reads activation_view.q8, else f32 */
    bool rounds_bf16;    /* its product rounds those floats to bf16 */
    const void *kernel;  /* the back end's */
    int n_expert;        /* 0: one matrix; else so many, expert_bytes apart */
    size_t expert_bytes; /* a multiple of 64 */
};

/* What an adapter adds to one product: scale * b (a x), of low rank (Hu et al. 2021, arXiv:2106.09685). Both matrices read
 * floats. */
struct low_rank {
    struct weight a; /* [rank][n_in] */
    struct weight b; /* [n_out][rank] */
    float scale;
};

/* The rows of a batch that have adapters. An entry is one row with one of its adapters; those with the same adapter stand
 * together, by ascending rows; a row's own entries are added in their order. */
struct adapted_rows {
    const int32_t *row; /* [first[n_group]] of each entry; host memory, as the rest */
    const float *scale; /* the same */
    const int *first;   /* [n_group + 1] entry of each group */
    int n_group;
};

struct adaptation {
    const struct adapted_rows *rows;
    const struct low_rank *const *low_rank; /* [n_group]; NULL: the group's adapter leaves this product alone */
    struct tensor inner;                    /* room for a x of each entry: [entries][the greatest rank] */
};

/* out[n_row][n_out] = f(x w^T (+ bias[n_out]) (+ what adapters add)) */
struct product {
    const struct weight *weight;
    struct tensor bias; /* one row, or absent */
    struct tensor out;
    bool gelu;                           /* f is that of GLU_GELU; needs a bias */
    const struct adaptation *adaptation; /* NULL: no row has an adapter; not for experts */
};

enum {
    MAX_EXPERTS = 1024
};

/* Which experts the rows of a layer go to. A slot is one row at one of its experts; slots are sorted by expert, then by row.
 * All but the weights are int32 in the place of floats. */
struct routing {
    int n_expert;
    int n_used;           /* experts of a row, the likeliest first */
    bool normalize;       /* the weights of a row add up to 1; else they are probabilities among all experts */
    struct tensor weight; /* [n_row][n_used] */
    struct tensor slot;   /* [n_row][n_used]: where the row stands among the slots */
    struct tensor row;    /* [1][n_row * n_used]: whose row a slot is */
    struct tensor group;  /* [1][routing_group_ints]: the experts that have rows, see below */
};

/* Layout of `group`: their number n; the n experts, ascending; from 1 + n_expert on the first slot of each, and n_slot. */
static inline int routing_group_ints(int n_expert) { return 2 + 2 * n_expert; }

struct norm_args {
    struct tensor x;            /* [n_row][n] */
    struct tensor delta;        /* absent, or added to x first; overwritten where delta_weight is there */
    struct tensor delta_weight; /* absent, or the weight of an RMS norm of delta before it is added */
    struct tensor weight;       /* one row: out = rms_norm(x) * weight; absent: no out */
    struct tensor bias;         /* absent, or one row: out = layer_norm(x) * weight + bias instead */
    bool gelu;                  /* of a layer norm: out = f(that), f as in GLU_GELU */
    struct activation_view out; /* out.f32 may be delta */
    float eps;
};

struct rope {
    enum rope_style style;
    int n_rot;                                            /* leading values of a head that turn; even */
    float scale;                                          /* of sine and cosine */
    float inverse_wavelength[ATTENTION_MAX_HEAD_DIM / 2]; /* radians per position of each pair, [n_rot / 2] */
};

/* One layer's keys and values: block b at offset + b * stride, its KV heads one after the other (kernels/attention.h). */
struct kv_view {
    struct buffer *buffer;
    size_t offset;
    size_t stride;
    enum kv_type type;
};

struct attention_args {
    struct tensor q;      /* [n_row][n_head * head_dim] */
    struct tensor k;      /* [n_row][n_head_kv * head_dim] */
    struct tensor v;      /* the same */
    struct tensor q_norm; /* absent, or the weight of an RMS norm before q turns: [head_dim] of each head, */
    struct tensor k_norm; /* or as long as the whole row: of all heads together */
    float norm_eps;
    struct tensor angles; /* of rope_angles: [n_row][n_rot] */
    enum rope_style style;
    int n_rot; /* 0: nothing turns */
    int n_head;
    int n_head_kv;
    int head_dim;
    struct kv_view kv;
    const int32_t *position;       /* [n_row] */
    const uint32_t *const *blocks; /* [n_row] block table of the row's sequence; its rows stand together */
    int window;                    /* a row sees its own and the window - 1 positions before; 0: all */
    float scale;
    float cap;                  /* 0: none */
    struct activation_view out; /* [n_row][n_head * head_dim] */
};

struct ops {
    /* The calls that follow belong to this layer, -1: to none. For profiles and messages; the results do not depend on it. */
    void (*enter_layer)(struct device *d, int layer);

    /* Zeroed memory that becomes real only as it is touched. NO_MEMORY: *out is NULL. */
    enum mr_status (*buffer_create)(struct device *d, struct buffer **out, size_t bytes, struct mr_error *err);
    /* The same over memory that the caller keeps, and that nothing will be written to; NULL: this device cannot. */
    enum mr_status (*buffer_borrow)(struct device *d, struct buffer **out, const void *memory, size_t bytes,
                                    struct mr_error *err);
    void (*buffer_free)(struct buffer *b);                                        /* takes NULL */
    void (*upload)(struct device *d, const struct tensor *to, const float *from); /* from, to: [n_row][n_col], dense */
    void (*download)(struct device *d, float *to, const struct tensor *from);
    void (*move)(struct device *d, struct buffer *b, size_t to, size_t from, size_t bytes); /* within a buffer */
    void (*read)(struct device *d, void *to, const struct buffer *b, size_t from, size_t bytes);
    void (*write)(struct device *d, struct buffer *b, size_t to, const void *from, size_t bytes);

    /* How w will be stored: everything in *out but buffer and offset.
     * NO_SUPPORT: no product of this device takes the block type. */
    enum mr_status (*weight_plan)(struct device *d, struct weight *out, const struct weight_source *w, enum weight_form form,
                                  struct mr_error *err);
    /* Pack the rows first <= o < first + n_row of w, given in the file's form, into its buffer. out->offset is a multiple of
     * 64; so are first and, unless they are the last ones, n_row. BAD_FORMAT: a weight is NaN or infinite, or becomes so in
     * its new type. */
    enum mr_status (*weight_pack)(struct device *d, const struct weight *out, const struct weight_source *w, const void *rows,
                                  int first, int n_row, struct mr_error *err);
    const char *(*weight_kernel_name)(const struct weight *w);

    /* out[r] = row token[r] of w, times scale */
    void (*embed)(struct device *d, const struct tensor *out, const struct weight *w, const int32_t *token, float scale);
    /* out[r] = x[row[r]] */
    void (*gather_rows)(struct device *d, const struct tensor *out, const struct tensor *x, const int32_t *row);
    void (*norm)(struct device *d, const struct norm_args *args);
    /* The int8 rows of x.f32, where x has them. */
    void (*quantize)(struct device *d, const struct activation_view *x);
    /* n_product products of one activation, which all weights read as f32 or as q8. */
    void (*matmul)(struct device *d, const struct product *product, int n_product, const struct activation_view *x);
    /* out[r] = scale times the cosines, behind them the sines, of row r's angles: [n_row][n_rot] */
    void (*rope_angles)(struct device *d, const struct tensor *out, const struct rope *rope, const int32_t *position);
    /* Norm and turn q and k in place, and write k and v into the cache. */
    void (*rope_store)(struct device *d, const struct attention_args *args);
    /* out = attention of q over the cache, the rows' own positions included. */
    void (*attention)(struct device *d, const struct attention_args *args);
    /* out = f(gate) * up; out.f32 may be gate. */
    void (*glu)(struct device *d, const struct activation_view *out, const struct tensor *gate, const struct tensor *up,
                enum glu_kind kind);
    void (*soft_cap)(struct device *d, const struct tensor *x, float cap);
    /* No value is NaN or infinite. */
    bool (*is_finite)(struct device *d, const struct tensor *x);

    /* Softmax of the scores [n_row][n_expert]; the best n_used, ties to the lower id. An infinite or NaN score makes the
     * weights of its row NaN. */
    void (*route)(struct device *d, const struct routing *out, const struct tensor *score);
    /* out[slot] = the slot's row of x, in each form that out has. Slots of fine rows are fine: out->fine_row, where it is
     * there, is filled, as a view of the same slots may need it later. */
    void (*gather_slots)(struct device *d, const struct activation_view *out, const struct activation_view *x,
                         const struct routing *routing);
    /* As matmul, where rows are slots and each meets its own expert's matrix; all weights have n_expert of them. */
    void (*matmul_experts)(struct device *d, const struct product *product, int n_product, const struct activation_view *x,
                           const struct routing *routing);
    /* out[r] = sum over j, ascending, of weight[r][j] * x[slot[r][j]] */
    void (*mix_experts)(struct device *d, const struct tensor *out, const struct tensor *x, const struct routing *routing);
};

#endif
