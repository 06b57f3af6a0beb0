/* gradient_ops OP: an op of the training layer on the inputs of gradient_cases.py, which come over standard input one behind
 * the other; its outputs and gradients leave the same way. gradient_ops model FILE: the gradients of a whole model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/trigonometry.h"
#include "train/attention_grad.h"
#include "train/loss.h"
#include "train/row_ops.h"
#include "train/train_pass.h"

enum {
    SEQ = 2,
    TOK = 70,
    VOCAB = 256,
    K = 8
};

static const float ce_weight = 0.25f, kl_weight = 0.75f, temperature = 2;

static void fail(const char *what)
{
    fprintf(stderr, "gradient_ops: %s\n", what);
    exit(1);
}

static void *input(size_t n)
{
    float *x = calloc(n, sizeof *x);
    if (x == NULL || fread(x, sizeof *x, n, stdin) != n)
        fail("the input is too short");
    return x;
}

static float *zeros(size_t n)
{
    float *x = calloc(n, sizeof *x);
    if (x == NULL)
        fail("no memory");
    return x;
}

static void output(const float *x, size_t n)
{
    if (fwrite(x, sizeof *x, n, stdout) != n)
        fail("cannot write");
}

static void linear(struct compute *c)
{
    const int n = 53, n_out = 37, n_in = 1100;
    float *x = input(53 * 1100), *w = input(37 * 1100), *dy = input(53 * 37), *y = zeros(53 * 37), *dx = zeros(53 * 1100),
          *dw = zeros(37 * 1100);
    product_forward(c, y, x, w, n, n_out, n_in, false);
    product_input_grad(c, dx, dy, w, n, n_out, n_in, false);
    product_weight_grad(c, dw, dy, x, n, n_out, n_in);
    output(y, 53 * 37);
    output(dx, 53 * 1100);
    output(dw, 37 * 1100);
}

static void norm(struct compute *c)
{
    float *x = input(21 * 75), *w = input(75), *dy = input(21 * 75), *y = zeros(21 * 75), *dw = zeros(75);
    rms_norm_forward(c, y, x, w, 1e-5f, 21, 75);
    rms_norm_backward(c, dy, dw, dy, x, w, 1e-5f, 21, 75);
    output(y, 21 * 75);
    output(dy, 21 * 75);
    output(dw, 75);
}

static void glu(struct compute *c, enum glu_kind kind)
{
    float *gate = input(11 * 77), *up = input(11 * 77), *dout = input(11 * 77), *out = zeros(11 * 77), *dup = zeros(11 * 77);
    glu_forward(c, kind, out, gate, up, 11, 77);
    glu_backward(c, kind, dout, dup, dout, gate, up, 11, 77);
    output(out, 11 * 77);
    output(dout, 11 * 77);
    output(dup, 11 * 77);
}

static void silu_residual(struct compute *c)
{
    float *x = input(21 * 75), *u = input(21 * 75), *b = input(75), *dy = input(21 * 75), *y = zeros(21 * 75), *db = zeros(75);
    silu_residual_forward(c, y, x, u, b, 21, 75);
    silu_residual_backward(c, dy, db, dy, u, 21, 75);
    output(y, 21 * 75);
    output(dy, 21 * 75);
    output(db, 75);
}

static void rotary(struct compute *c, enum rope_style style)
{
    float *x = input(19 * 48), *dy = input(19 * 48), cosine[19 * 6], sine[19 * 6];
    for (int t = 0; t < 19; t++)
        for (int i = 0; i < 6; i++) {
            double s, k;
            math_sincos(&s, &k, t * math_power(10000, -2.0 * i / 12));
            cosine[t * 6 + i] = (float)k;
            sine[t * 6 + i] = (float)s;
        }
    const struct rotary r = {cosine, sine, style, 12, 19};
    rotary_turn(c, &r, x, 19, 3, 16, false);
    rotary_turn(c, &r, dy, 19, 3, 16, true);
    output(x, 19 * 48);
    output(dy, 19 * 48);
}

static void attention(struct compute *c, int window)
{
    const struct attention_shape s = {2, 101, 6, 2, 12, window, 0.3f};
    const size_t nq = 2 * 101 * 6 * 12, nk = 2 * 101 * 2 * 12;
    float *q = input(nq), *k = input(nk), *v = input(nk), *dout = input(nq), *out = zeros(nq), *dq = zeros(nq), *dk = zeros(nk),
          *dv = zeros(nk), *scratch = zeros(attention_scratch(&s) * (size_t)c->n_thread);
    attention_forward(c, &s, out, q, k, v, scratch);
    attention_backward(c, &s, dq, dk, dv, dout, out, q, k, v, scratch);
    output(out, nq);
    output(dq, nq);
    output(dk, nk);
    output(dv, nk);
}

static void embed(struct compute *c)
{
    float *w = input(40 * 70);
    int32_t *token = input(33);
    float *dx = input(33 * 70), *x = zeros(33 * 70), *dw = zeros(40 * 70);
    embed_forward(c, x, w, token, 3, 33, 70);
    embed_backward(c, dw, dx, token, 3, 33, 70);
    output(x, 33 * 70);
    output(dw, 40 * 70);
}

static double sum_of(const struct row_loss *rows, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)(ce_weight * rows[i].cross_entropy + kl_weight * temperature * temperature * rows[i].divergence);
    return sum;
}

static void loss(struct compute *c, int k)
{
    float *z = input(23 * 150);
    struct row_loss rows[23];
    struct loss_targets t = {.k = k, .ce_weight = ce_weight, .kl_weight = kl_weight, .temperature = temperature, .scale = 1};
    t.label = input(23);
    t.id = input((size_t)k * 23);
    t.p = input((size_t)k * 23);
    loss_rows(c, rows, &t, z, 23, 150, true);
    const float sum = (float)sum_of(rows, 23);
    output(&sum, 1);
    output(z, 23 * 150);
}

struct model_loss {
    int32_t *label, *id;
    float *p, scale;
};

static double model_loss(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    const struct model_loss *m = context;
    struct row_loss rows[SEQ * TOK];
    const struct loss_targets t = {.label = m->label + first,
                                   .k = K,
                                   .id = m->id + (size_t)first * K,
                                   .p = m->p + (size_t)first * K,
                                   .ce_weight = ce_weight,
                                   .kl_weight = kl_weight,
                                   .temperature = temperature,
                                   .scale = m->scale};
    loss_rows(c, rows, &t, logits, n, VOCAB, backward);
    return sum_of(rows, n) * (double)m->scale;
}

/* The loss, then each tensor's gradient in the order of the weights, its name and its number of floats in front. */
static void model(struct thread_pool *pool, const char *path, unsigned features)
{
    struct gguf *g = NULL;
    struct train_model m;
    struct train_pass *p = NULL;
    struct mr_error err = {""};
    const int32_t *token = input((size_t)SEQ * TOK);
    struct model_loss l = {.scale = 1.0f / (SEQ * (TOK - 1))};
    l.label = input((size_t)SEQ * TOK);
    l.id = input((size_t)SEQ * TOK * K);
    l.p = input((size_t)SEQ * TOK * K);
    const struct train_pass_options o = {
        .n_seq = SEQ, .n_tok = TOK, .memory_bytes = SIZE_MAX, .pool = pool, .cpu_features = features};
    if (gguf_open(&g, path, &err) != MR_OK || train_model_load(&m, g, &err) != MR_OK ||
        train_pass_create(&p, &m, &o, &err) != MR_OK)
        fail(err.message);
    float *grad = zeros(m.n_weight);
    const struct train_loss loss = {.logits = model_loss, .context = &l};
    printf("%.17g\n", train_pass_run(p, token, SEQ, &loss, grad));
    for (int layer = -1; layer < m.h.n_layer; layer++)
        for (enum param i = layer < 0 ? 0 : N_GLOBAL_PARAMS; i < (layer < 0 ? N_GLOBAL_PARAMS : N_PARAMS); i++) {
            const struct param_place at = train_param(&m, layer, i);
            if (at.n_out == 0)
                continue;
            printf("%s %zu\n", train_param_name(layer, i).s, param_floats(at));
            output(grad + at.at, param_floats(at));
        }
}

int main(int argc, char **argv)
{
    unsigned features;
    struct thread_pool *pool;
    struct compute c;
    struct mr_error err = {""};
    const char *op = argc > 1 ? argv[1] : "";
    if (cpu_features(&features, getenv("MILLRACE_CPU"), &err) != MR_OK || pool_create(&pool, 2, &err) != MR_OK ||
        compute_init(&c, pool, features, 1 << 20, &err) != MR_OK)
        fail(err.message);
    if (strcmp(op, "linear") == 0)
        linear(&c);
    else if (strcmp(op, "rms_norm") == 0)
        norm(&c);
    else if (strcmp(op, "silu") == 0 || strcmp(op, "gelu") == 0)
        glu(&c, op[0] == 's' ? GLU_SILU : GLU_GELU);
    else if (strcmp(op, "silu_residual") == 0)
        silu_residual(&c);
    else if (strncmp(op, "rotary", 6) == 0)
        rotary(&c, strcmp(op, "rotary_pairs") == 0 ? ROPE_PAIRS : ROPE_HALVES);
    else if (strncmp(op, "attention", 9) == 0)
        attention(&c, strcmp(op, "attention") == 0 ? 0 : 20);
    else if (strcmp(op, "embed") == 0)
        embed(&c);
    else if (strncmp(op, "loss", 4) == 0)
        loss(&c, strcmp(op, "loss_all") == 0 ? 150 : K);
    else if (strcmp(op, "model") == 0 && argc == 3)
        model(pool, argv[2], features);
    else
        fail("no such op");
    return 0;
}
