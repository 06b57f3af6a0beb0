/* ops_cpu_weight.c: packing matrices by all threads, and looking rows up in them. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/ops_cpu.h"
#include "quant/sparse.h"

/* The type that a matrix is kept as; wider ones than `bits` become `narrow`. */
struct form {
    int to;      /* enum quant_type; -1: the file's */
    bool int8;   /* int8 activations where they are taken */
    bool bf16;   /* activations rounded to bf16 where the CPU multiplies those */
    double bits; /* 0: no limit */
    enum quant_type narrow;
};

static const struct form forms[] = {
    [WEIGHT_AS_IT_IS] = {.to = -1, .int8 = true},
    [WEIGHT_AUTO] = {.to = -1, .int8 = true, .bf16 = true},
    [WEIGHT_F32] = {.to = QUANT_F32},
    [WEIGHT_F16] = {.to = QUANT_F16},
    [WEIGHT_BF16] = {.to = QUANT_BF16, .bf16 = true},
    [WEIGHT_8_BITS] = {.to = -1, .int8 = true, .bits = 9, .narrow = QUANT_Q8_0}, /* scales and minima count */
    [WEIGHT_4_BITS] = {.to = -1, .int8 = true, .bits = 5, .narrow = QUANT_Q4_0},
};

static const struct quant *kept_as(const struct quant *q, struct form f, int n_in)
{
    const double bits = 8.0 * (double)q->bytes / q->block;
    if (f.to >= 0)
        return quant_find((uint32_t)f.to);
    const struct quant *narrow = f.bits > 0 ? quant_find(f.narrow) : q;
    return f.bits > 0 && bits > f.bits && n_in % narrow->block == 0 ? narrow : q;
}

/* The product for a matrix: int8 or bf16 activations first, then f32 ones, then decoded weights. */
static const struct matmul *choose(const struct kernels *k, const struct weight_source *w, enum weight_form form)
{
    const struct matmul *own = k->matmul[kept_as(w->quant, forms[form], w->n_in)->type];
    if (forms[form].int8 && own[ACTIVATION_Q8].name != NULL)
        return &own[ACTIVATION_Q8];
    if (forms[form].bf16 && own[ACTIVATION_BF16].name != NULL)
        return &own[ACTIVATION_BF16];
    if (own[ACTIVATION_F32].name != NULL)
        return &own[ACTIVATION_F32];
    return &k->matmul[QUANT_F32][ACTIVATION_F32];
}

/* The type that a product multiplies with. */
static const struct quant *type_of(const struct kernels *k, const struct matmul *m)
{
    return quant_find((uint32_t)((m - k->matmul[0]) / N_ACTIVATIONS));
}

static int n_panels(const struct weight *w) { return (w->n_out - 1) / ((const struct matmul *)w->kernel)->nr + 1; }

enum mr_status cpu_weight_plan(struct device *d, struct weight *out, const struct weight_source *w, enum weight_form form,
                               struct mr_error *err)
{
    const struct matmul *m = choose(&cpu_of(d)->kernels, w, form);
    *out = (struct weight){.n_out = w->n_out,
                           .n_in = w->n_in,
                           .wants_q8 = m->activation == ACTIVATION_Q8,
                           .rounds_bf16 = m->activation == ACTIVATION_BF16,
                           .kernel = m};
    if (m->name == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "no product for weights of type %s", w->quant->name);
    if (!size_mul(&out->bytes, (size_t)n_panels(out), m->panel_bytes(w->n_in)) || out->bytes > PTRDIFF_MAX)
        return mr_fail(err, MR_NO_SUPPORT, "a matrix of %d x %d is too large", w->n_out, w->n_in);
    return MR_OK;
}

const char *cpu_weight_kernel_name(const struct weight *w) { return ((const struct matmul *)w->kernel)->name; }

enum failure {
    FAILED_NOT,
    FAILED_MEMORY,
    FAILED_NOT_FINITE,
    FAILED_PATTERN
};

struct packing {
    const struct weight *weight;
    const struct weight_source *source;
    const struct quant *kept; /* the type that the kernel packs */
    const struct matmul *kernel;
    const char *rows;
    int first;
    int n_row;
    _Atomic int failed; /* enum failure */
    _Atomic int bad_row;
};

/* Rows of another type as rows of the kernel's; the caller frees them. */
static char *convert(const struct packing *p, const char *rows, size_t row_bytes, int n)
{
    const size_t n_in = (size_t)p->source->n_in, kept_bytes = quant_row_bytes(p->kept, n_in);
    float *decoded = mem_array(n_in, sizeof *decoded);
    char *kept = mem_array((size_t)n, kept_bytes);
    for (int i = 0; decoded != NULL && kept != NULL && i < n; i++) {
        p->source->quant->decode(decoded, rows + (size_t)i * row_bytes, n_in);
        p->kept->encode(kept + (size_t)i * kept_bytes, decoded, n_in);
    }
    if (decoded == NULL) {
        free(kept);
        kept = NULL;
    }
    free(decoded);
    return kept;
}

static void check_rows(struct packing *p, const struct quant *q, const char *rows, int first, int n)
{
    const size_t n_in = (size_t)p->source->n_in, row_bytes = quant_row_bytes(q, n_in);
    for (int i = 0; i < n; i++)
        if (!quant_is_finite(q, rows + (size_t)i * row_bytes, n_in)) {
            atomic_store(&p->bad_row, first + i);
            atomic_store(&p->failed, FAILED_NOT_FINITE);
        } else if (!quant_keeps_pattern(q, rows + (size_t)i * row_bytes, n_in)) {
            atomic_store(&p->bad_row, first + i);
            atomic_store(&p->failed, FAILED_PATTERN);
        }
}

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
    check_rows(p, s->quant, rows, p->first + row, n);
    if (p->kept == s->quant) {
        p->kernel->pack(to, rows, row_bytes, n, s->n_in);
        return;
    }
    char *kept = convert(p, rows, row_bytes, n);
    if (kept == NULL) {
        atomic_store(&p->failed, FAILED_MEMORY);
        return;
    }
    check_rows(p, p->kept, kept, p->first + row, n);
    p->kernel->pack(to, kept, quant_row_bytes(p->kept, (size_t)s->n_in), n, s->n_in);
    free(kept);
}

enum mr_status cpu_weight_pack(struct device *d, const struct weight *out, const struct weight_source *w, const void *rows,
                               int first, int n_row, struct mr_error *err)
{
    struct packing p = {.weight = out, .source = w, .kernel = out->kernel, .rows = rows, .first = first, .n_row = n_row};
    p.kept = type_of(&cpu_of(d)->kernels, out->kernel);
    pool_run(cpu_of(d)->pool, pack_panel, &p, (n_row - 1) / p.kernel->nr + 1);
    switch (atomic_load(&p.failed)) {
    case FAILED_MEMORY:
        return mr_fail(err, MR_NO_MEMORY, "no memory to convert a matrix");
    case FAILED_NOT_FINITE:
        return mr_fail(err, MR_BAD_FORMAT, "row %d has a NaN or an infinity%s", atomic_load(&p.bad_row),
                       p.kept == w->quant ? "" : ", or has one once it is converted");
    case FAILED_PATTERN:
        return mr_fail(err, MR_BAD_FORMAT, "row %d stores more or fewer weights of a group than %s", atomic_load(&p.bad_row),
                       w->quant->name);
    }
    return MR_OK;
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
