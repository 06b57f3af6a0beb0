/* ops_cpu_unfused.c: the ops step by step: each step goes over all rows before the next one begins, and reads from memory what
 * the one before it wrote there. The same operations on every value, hence the same bits. */
#include <string.h>

#include "ops/ops_cpu.h"

static void norm_delta_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct norm_args *a = context;
    for (int r = first; r < end; r++) {
        float *delta = cpu_row(&a->delta, r);
        d->kernels.rms_norm(delta, delta, cpu_row(&a->delta_weight, 0), a->eps, a->x.n_col);
    }
}

static void add_delta_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct norm_args *a = context;
    for (int r = first; r < end; r++)
        d->kernels.add(cpu_row(&a->x, r), cpu_row(&a->delta, r), a->x.n_col);
}

static void norm_only_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct norm_args *a = context;
    const float *weight = cpu_row(&a->weight, 0);
    for (int r = first; r < end; r++) {
        float *out = cpu_row(&a->out.f32, r);
        if (a->bias.buffer != NULL)
            d->kernels.layer_norm(out, cpu_row(&a->x, r), weight, cpu_row(&a->bias, 0), a->eps, a->x.n_col);
        else
            d->kernels.rms_norm(out, cpu_row(&a->x, r), weight, a->eps, a->x.n_col);
    }
}

static void gelu_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct tensor *x = context;
    for (int r = first; r < end; r++)
        d->kernels.activate[GLU_GELU](cpu_row(x, r), x->n_col);
}

static void unfused_norm(struct device *device, const struct norm_args *a)
{
    struct cpu_device *d = cpu_of(device);
    if (a->delta_weight.buffer != NULL)
        cpu_for_rows(d, norm_delta_rows, a, a->x.n_row, a->x.n_col);
    if (a->delta.buffer != NULL)
        cpu_for_rows(d, add_delta_rows, a, a->x.n_row, a->x.n_col);
    if (a->weight.buffer == NULL)
        return;
    cpu_for_rows(d, norm_only_rows, a, a->x.n_row, a->x.n_col);
    if (a->gelu)
        cpu_for_rows(d, gelu_rows, &a->out.f32, a->x.n_row, 4 * a->x.n_col);
    cpu_quantize(device, &a->out);
}

static void bias_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct product *p = context;
    for (int r = first; r < end; r++)
        d->kernels.add(cpu_row(&p->out, r), cpu_row(&p->bias, 0), p->out.n_col);
}

static void unfused_matmul(struct device *device, const struct product *product, int n_product, const struct activation_view *x)
{
    struct cpu_device *d = cpu_of(device);
    for (int i = 0; i < n_product; i++) {
        const struct product plain = {.weight = product[i].weight, .out = product[i].out};
        cpu_matmul(device, &plain, 1, x);
        if (product[i].bias.buffer != NULL)
            cpu_for_rows(d, bias_rows, &product[i], product[i].out.n_row, product[i].out.n_col);
        if (product[i].adaptation != NULL)
            cpu_adapt(d, &product[i], &x->f32);
        if (product[i].gelu)
            cpu_for_rows(d, gelu_rows, &product[i].out, product[i].out.n_row, 4 * product[i].out.n_col);
    }
}

static void unfused_rope_store(struct device *device, const struct attention_args *a)
{
    struct cpu_device *d = cpu_of(device);
    if (a->q_norm.buffer != NULL || a->k_norm.buffer != NULL)
        cpu_for_rows(d, cpu_norm_head_rows, a, a->q.n_row, a->q.n_col);
    cpu_for_rows(d, cpu_turn_rows, a, a->q.n_row, a->q.n_col);
    cpu_for_rows(d, cpu_store_rows, a, a->q.n_row, a->k.n_col);
}

struct gating {
    const struct activation_view *out;
    const struct tensor *gate, *up;
    enum glu_kind kind;
};

static void activate_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct gating *g = context;
    for (int r = first; r < end; r++) {
        float *out = cpu_row(&g->out->f32, r);
        memmove(out, cpu_row(g->gate, r), (size_t)g->gate->n_col * sizeof *out);
        d->kernels.activate[g->kind](out, g->gate->n_col);
    }
}

static void multiply_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct gating *g = context;
    for (int r = first; r < end; r++)
        d->kernels.multiply(cpu_row(&g->out->f32, r), cpu_row(g->up, r), g->up->n_col);
}

static void unfused_glu(struct device *device, const struct activation_view *out, const struct tensor *gate,
                        const struct tensor *up, enum glu_kind kind)
{
    const struct gating g = {out, gate, up, kind};
    cpu_for_rows(cpu_of(device), activate_rows, &g, gate->n_row, 4 * gate->n_col);
    cpu_for_rows(cpu_of(device), multiply_rows, &g, gate->n_row, gate->n_col);
    cpu_quantize(device, out);
}

void cpu_ops_unfuse(struct ops *ops)
{
    ops->norm = unfused_norm;
    ops->matmul = unfused_matmul;
    ops->rope_store = unfused_rope_store;
    ops->glu = unfused_glu;
}
