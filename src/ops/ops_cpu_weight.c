/* ops_cpu_weight.c: packing matrices by all threads, and looking rows up in them. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/ops_cpu.h"

/* The product for a block type: int8 activations first, then f32 ones, then decoded weights. */
static const struct matmul *choose(const struct kernels *k, const struct quant *quant, bool fp32)
{
    const struct matmul *own = k->matmul[quant->type];
    if (!fp32 && own[ACTIVATION_Q8].name != NULL)
        return &own[ACTIVATION_Q8];
    if (!fp32 && own[ACTIVATION_F32].name != NULL)
        return &own[ACTIVATION_F32];
    return &k->matmul[QUANT_F32][ACTIVATION_F32];
}

static int n_panels(const struct weight *w) { return (w->n_out - 1) / ((const struct matmul *)w->kernel)->nr + 1; }

enum mr_status cpu_weight_plan(struct device *d, struct weight *out, const struct weight_source *w, bool fp32,
                               struct mr_error *err)
{
    const struct matmul *m = choose(&cpu_of(d)->kernels, w->quant, fp32);
    *out = (struct weight){.n_out = w->n_out, .n_in = w->n_in, .wants_q8 = m->activation == ACTIVATION_Q8, .kernel = m};
    if (m->name == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "no product for weights of type %s", w->quant->name);
    if (!size_mul(&out->bytes, (size_t)n_panels(out), m->panel_bytes(w->n_in)) || out->bytes > PTRDIFF_MAX)
        return mr_fail(err, MR_NO_SUPPORT, "a matrix of %d x %d is too large", w->n_out, w->n_in);
    return MR_OK;
}

const char *cpu_weight_kernel_name(const struct weight *w) { return ((const struct matmul *)w->kernel)->name; }

struct packing {
    const struct weight *weight;
    const struct weight_source *source;
    const struct matmul *kernel;
    const char *rows;
    int first;
    int n_row;
    bool decode;
    _Atomic bool failed;
};

static void pack_panel(void *context, int piece, int thread)
{
    (void)thread;
    struct packing *p = context;
    const struct weight_source *s = p->source;
    const int nr = p->kernel->nr, row = piece * nr, n = p->n_row - row < nr ? p->n_row - row : nr;
    const size_t row_bytes = quant_row_bytes(s->quant, (size_t)s->n_in);
    const size_t panel = (size_t)(p->first / nr + piece) * p->kernel->panel_bytes(s->n_in);
    char *to = cpu_address(p->weight->buffer, p->weight->offset + panel);
    const char *rows = p->rows + (size_t)row * row_bytes;
    if (!p->decode) {
        p->kernel->pack(to, rows, row_bytes, n, s->n_in);
        return;
    }
    const size_t n_in = (size_t)s->n_in;
    float *decoded = mem_array((size_t)n * n_in, sizeof *decoded);
    if (decoded == NULL) {
        atomic_store(&p->failed, true);
        return;
    }
    for (int i = 0; i < n; i++)
        s->quant->decode(decoded + (size_t)i * n_in, rows + (size_t)i * row_bytes, n_in);
    p->kernel->pack(to, decoded, n_in * sizeof *decoded, n, s->n_in);
    free(decoded);
}

enum mr_status cpu_weight_pack(struct device *d, const struct weight *out, const struct weight_source *w, const void *rows,
                               int first, int n_row, struct mr_error *err)
{
    const struct kernels *k = &cpu_of(d)->kernels;
    struct packing p = {.weight = out, .source = w, .kernel = out->kernel, .rows = rows, .first = first, .n_row = n_row};
    p.decode = out->kernel == &k->matmul[QUANT_F32][ACTIVATION_F32] && w->quant->type != QUANT_F32;
    pool_run(cpu_of(d)->pool, pack_panel, &p, (n_row - 1) / p.kernel->nr + 1);
    return atomic_load(&p.failed) ? mr_fail(err, MR_NO_MEMORY, "no memory to decode a matrix") : MR_OK;
}

struct embedding {
    const struct tensor *out;
    const struct weight *weight;
    const int32_t *token;
    float scale;
};

static void embed_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct embedding *e = context;
    const struct weight *w = e->weight;
    const struct matmul *m = w->kernel;
    const char *packed = cpu_address(w->buffer, w->offset);
    for (int r = first; r < end; r++) {
        float *out = cpu_row(e->out, r);
        m->unpack(out, packed + (size_t)(e->token[r] / m->nr) * m->panel_bytes(w->n_in), e->token[r] % m->nr, w->n_in);
        if (e->scale != 1.0f)
            d->kernels.scale(out, e->scale, w->n_in);
    }
}

void cpu_embed(struct device *d, const struct tensor *out, const struct weight *w, const int32_t *token, float scale)
{
    const struct embedding e = {out, w, token, scale};
    cpu_for_rows(cpu_of(d), embed_rows, &e, out->n_row, w->n_in);
}
