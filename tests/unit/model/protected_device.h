/* protected_device.h: a device whose memory nobody but its own ops can touch: outside of them its pages have no access rights,
 * so that a read or write from above ends the test. Its ops are those of a cpu device underneath. */
#ifndef TESTS_UNIT_MODEL_PROTECTED_DEVICE_H
#define TESTS_UNIT_MODEL_PROTECTED_DEVICE_H

#include <sys/mman.h>

#include "ops/ops_cpu.h"

enum {
    PROTECTED_MAX_BUFFERS = 16
};

struct protected_device {
    struct device device;
    struct device *cpu; /* owned by the caller */
    struct buffer *buffer[PROTECTED_MAX_BUFFERS];
    int n_op; /* calls of ops so far */
};

static inline struct protected_device *protected_of(struct device *d) { return (struct protected_device *)d; }

static inline void protected_set(struct protected_device *p, int rights)
{
    for (int i = 0; i < PROTECTED_MAX_BUFFERS; i++)
        if (p->buffer[i] != NULL && mprotect(cpu_address(p->buffer[i], 0), p->buffer[i]->bytes, rights) != 0)
            abort();
}

/* Open the memory for one op of the cpu device. */
static inline struct device *protected_enter(struct device *d)
{
    protected_of(d)->n_op++;
    protected_set(protected_of(d), PROT_READ | PROT_WRITE);
    return protected_of(d)->cpu;
}

static inline void protected_leave(struct device *d) { protected_set(protected_of(d), PROT_NONE); }

static inline enum mr_status protected_buffer_create(struct device *d, struct buffer **out, size_t bytes, struct mr_error *err)
{
    const enum mr_status status = cpu_buffer_create(d, out, bytes, err);
    for (int i = 0; status == MR_OK && i < PROTECTED_MAX_BUFFERS; i++)
        if (protected_of(d)->buffer[i] == NULL) {
            protected_of(d)->buffer[i] = *out;
            protected_leave(d);
            return MR_OK;
        }
    return status == MR_OK ? MR_FULL : status;
}

static inline void protected_buffer_free(struct buffer *b)
{
    if (b == NULL)
        return;
    struct protected_device *p = protected_of(b->device);
    for (int i = 0; i < PROTECTED_MAX_BUFFERS; i++)
        if (p->buffer[i] == b)
            p->buffer[i] = NULL;
    cpu_buffer_free(b);
}

static inline void protected_upload(struct device *d, const struct tensor *to, const float *from)
{
    cpu_upload(protected_enter(d), to, from);
    protected_leave(d);
}

static inline void protected_download(struct device *d, float *to, const struct tensor *from)
{
    cpu_download(protected_enter(d), to, from);
    protected_leave(d);
}

static inline void protected_move(struct device *d, struct buffer *b, size_t to, size_t from, size_t bytes)
{
    cpu_move(protected_enter(d), b, to, from, bytes);
    protected_leave(d);
}

static inline void protected_read(struct device *d, void *to, const struct buffer *b, size_t from, size_t bytes)
{
    cpu_read(protected_enter(d), to, b, from, bytes);
    protected_leave(d);
}

static inline void protected_write(struct device *d, struct buffer *b, size_t to, const void *from, size_t bytes)
{
    cpu_write(protected_enter(d), b, to, from, bytes);
    protected_leave(d);
}

static inline enum mr_status protected_weight_plan(struct device *d, struct weight *out, const struct weight_source *w,
                                                   enum weight_form form, struct mr_error *err)
{
    return cpu_weight_plan(protected_of(d)->cpu, out, w, form, err);
}

static inline enum mr_status protected_weight_pack(struct device *d, const struct weight *out, const struct weight_source *w,
                                                   const void *rows, int first, int n_row, struct mr_error *err)
{
    const enum mr_status status = cpu_weight_pack(protected_enter(d), out, w, rows, first, n_row, err);
    protected_leave(d);
    return status;
}

static inline void protected_embed(struct device *d, const struct tensor *out, const struct weight *w, const int32_t *token,
                                   float scale)
{
    cpu_embed(protected_enter(d), out, w, token, scale);
    protected_leave(d);
}

static inline void protected_gather_rows(struct device *d, const struct tensor *out, const struct tensor *x, const int32_t *row)
{
    cpu_gather_rows(protected_enter(d), out, x, row);
    protected_leave(d);
}

static inline void protected_norm(struct device *d, const struct norm_args *args)
{
    cpu_norm(protected_enter(d), args);
    protected_leave(d);
}

static inline void protected_quantize(struct device *d, const struct activation_view *x)
{
    cpu_quantize(protected_enter(d), x);
    protected_leave(d);
}

static inline void protected_matmul(struct device *d, const struct product *product, int n_product,
                                    const struct activation_view *x)
{
    cpu_matmul(protected_enter(d), product, n_product, x);
    protected_leave(d);
}

static inline void protected_rope_angles(struct device *d, const struct tensor *out, const struct rope *rope,
                                         const int32_t *position)
{
    cpu_rope_angles(protected_enter(d), out, rope, position);
    protected_leave(d);
}

static inline void protected_rope_store(struct device *d, const struct attention_args *args)
{
    cpu_rope_store(protected_enter(d), args);
    protected_leave(d);
}

static inline void protected_attention(struct device *d, const struct attention_args *args)
{
    cpu_attention(protected_enter(d), args);
    protected_leave(d);
}

static inline void protected_glu(struct device *d, const struct activation_view *out, const struct tensor *gate,
                                 const struct tensor *up, enum glu_kind kind)
{
    cpu_glu(protected_enter(d), out, gate, up, kind);
    protected_leave(d);
}

static inline void protected_soft_cap(struct device *d, const struct tensor *x, float cap)
{
    cpu_soft_cap(protected_enter(d), x, cap);
    protected_leave(d);
}

static inline bool protected_is_finite(struct device *d, const struct tensor *x)
{
    const bool finite = cpu_is_finite(protected_enter(d), x);
    protected_leave(d);
    return finite;
}

static inline void protected_route(struct device *d, const struct routing *out, const struct tensor *score)
{
    cpu_route(protected_enter(d), out, score);
    protected_leave(d);
}

static inline void protected_gather_slots(struct device *d, const struct activation_view *out, const struct activation_view *x,
                                          const struct routing *routing)
{
    cpu_gather_slots(protected_enter(d), out, x, routing);
    protected_leave(d);
}

static inline void protected_matmul_experts(struct device *d, const struct product *product, int n_product,
                                            const struct activation_view *x, const struct routing *routing)
{
    cpu_matmul_experts(protected_enter(d), product, n_product, x, routing);
    protected_leave(d);
}

static inline void protected_mix_experts(struct device *d, const struct tensor *out, const struct tensor *x,
                                         const struct routing *routing)
{
    cpu_mix_experts(protected_enter(d), out, x, routing);
    protected_leave(d);
}

static inline void protected_enter_layer(struct device *d, int layer)
{
    protected_of(d)->cpu->ops->enter_layer(protected_of(d)->cpu, layer);
}

static const struct ops protected_ops = {
    .enter_layer = protected_enter_layer,
    .buffer_create = protected_buffer_create,
    .buffer_free = protected_buffer_free,
    .upload = protected_upload,
    .download = protected_download,
    .move = protected_move,
    .read = protected_read,
    .write = protected_write,
    .weight_plan = protected_weight_plan,
    .weight_pack = protected_weight_pack,
    .weight_kernel_name = cpu_weight_kernel_name,
    .embed = protected_embed,
    .gather_rows = protected_gather_rows,
    .norm = protected_norm,
    .quantize = protected_quantize,
    .matmul = protected_matmul,
    .rope_angles = protected_rope_angles,
    .rope_store = protected_rope_store,
    .attention = protected_attention,
    .glu = protected_glu,
    .soft_cap = protected_soft_cap,
    .is_finite = protected_is_finite,
    .route = protected_route,
    .gather_slots = protected_gather_slots,
    .matmul_experts = protected_matmul_experts,
    .mix_experts = protected_mix_experts,
};

#endif
