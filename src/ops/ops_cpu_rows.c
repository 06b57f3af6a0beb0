/* ops_cpu_rows.c: what works on rows one by one: norms, gated products, gathers. */
#include <stdatomic.h>
#include <string.h>

#include "base/trigonometry.h"
#include "ops/ops_cpu.h"

static void norm_row(const struct cpu_device *d, const struct norm_args *a, float *out, const float *x)
{
    const float *weight = cpu_row(&a->weight, 0);
    if (a->bias.buffer == NULL)
        d->kernels.rms_norm(out, x, weight, a->eps, a->x.n_col);
    else if (a->gelu)
        d->kernels.layer_norm_gelu(out, x, weight, cpu_row(&a->bias, 0), a->eps, a->x.n_col);
    else
        d->kernels.layer_norm(out, x, weight, cpu_row(&a->bias, 0), a->eps, a->x.n_col);
}

static void norm_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct norm_args *a = context;
    const int n = a->x.n_col;
    for (int r = first; r < end; r++) {
        float *x = cpu_row(&a->x, r);
        if (a->delta.buffer != NULL) {
            float *delta = cpu_row(&a->delta, r);
            if (a->delta_weight.buffer != NULL)
                d->kernels.rms_norm(delta, delta, cpu_row(&a->delta_weight, 0), a->eps, n);
            d->kernels.add(x, delta, n);
        }
        if (a->weight.buffer == NULL)
            continue;
        norm_row(d, a, cpu_row(&a->out.f32, r), x);
        cpu_quantize_rows(d, &a->out, r, r + 1);
    }
}

void cpu_norm(struct device *d, const struct norm_args *args)
{
    cpu_for_rows(cpu_of(d), norm_rows, args, args->x.n_row, args->x.n_col);
}

static void quantize_some_rows(struct cpu_device *d, const void *context, int first, int end)
{
    cpu_quantize_rows(d, context, first, end);
}

void cpu_quantize(struct device *d, const struct activation_view *x)
{
    if (x->q8.buffer != NULL)
        cpu_for_rows(cpu_of(d), quantize_some_rows, x, x->f32.n_row, x->f32.n_col);
}

struct gather {
    const struct tensor *out, *x;
    const int32_t *row;
};

static void gather_some_rows(struct cpu_device *d, const void *context, int first, int end)
{
    (void)d;
    const struct gather *g = context;
    for (int r = first; r < end; r++)
        memcpy(cpu_row(g->out, r), cpu_row(g->x, g->row[r]), (size_t)g->x->n_col * sizeof(float));
}

void cpu_gather_rows(struct device *d, const struct tensor *out, const struct tensor *x, const int32_t *row)
{
    const struct gather g = {out, x, row};
    cpu_for_rows(cpu_of(d), gather_some_rows, &g, out->n_row, out->n_col);
}

struct glu {
    const struct activation_view *out;
    const struct tensor *gate, *up;
    enum glu_kind kind;
};

static void glu_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct glu *g = context;
    for (int r = first; r < end; r++)
        d->kernels.glu[g->kind](cpu_row(&g->out->f32, r), cpu_row(g->gate, r), cpu_row(g->up, r), g->gate->n_col);
    cpu_quantize_rows(d, g->out, first, end);
}

void cpu_glu(struct device *d, const struct activation_view *out, const struct tensor *gate, const struct tensor *up,
             enum glu_kind kind)
{
    const struct glu g = {out, gate, up, kind};
    cpu_for_rows(cpu_of(d), glu_rows, &g, gate->n_row, 4 * gate->n_col); /* an exp is worth some additions */
}

struct cap {
    const struct tensor *x;
    float cap;
};

static void soft_cap_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct cap *c = context;
    for (int r = first; r < end; r++)
        d->kernels.soft_cap(cpu_row(c->x, r), c->cap, c->x->n_col);
}

void cpu_soft_cap(struct device *d, const struct tensor *x, float cap)
{
    const struct cap c = {x, cap};
    cpu_for_rows(cpu_of(d), soft_cap_rows, &c, x->n_row, 4 * x->n_col);
}

struct finding {
    const struct tensor *x;
    _Atomic bool *bad;
};

static void look_at_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct finding *f = context;
    (void)d;
    for (int r = first; r < end; r++)
        if (!quant_is_finite(quant_find(QUANT_F32), cpu_row(f->x, r), (size_t)f->x->n_col))
            atomic_store(f->bad, true);
}

bool cpu_is_finite(struct device *d, const struct tensor *x)
{
    _Atomic bool bad = false;
    const struct finding f = {x, &bad};
    cpu_for_rows(cpu_of(d), look_at_rows, &f, x->n_row, x->n_col);
    return !atomic_load(&bad);
}

struct angles {
    const struct tensor *out;
    const struct rope *rope;
    const int32_t *position;
};

static void angle_rows(struct cpu_device *d, const void *context, int first, int end)
{
    (void)d;
    const struct angles *a = context;
    const int half = a->rope->n_rot / 2;
    for (int r = first; r < end; r++) {
        float *out = cpu_row(a->out, r);
        for (int i = 0; i < half; i++) {
            double sine, cosine;
            /* the angle is rounded to float: that is how the models were trained */
            const float angle = (float)a->position[r] * a->rope->inverse_wavelength[i];
            math_sincos(&sine, &cosine, (double)angle);
            out[i] = (float)cosine * a->rope->scale;
            out[half + i] = (float)sine * a->rope->scale;
        }
    }
}

void cpu_rope_angles(struct device *d, const struct tensor *out, const struct rope *rope, const int32_t *position)
{
    const struct angles a = {out, rope, position};
    cpu_for_rows(cpu_of(d), angle_rows, &a, out->n_row, 64 * rope->n_rot);
}
