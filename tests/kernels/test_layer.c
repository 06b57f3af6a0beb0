/* test_layer.c: norm, gated products, rope, soft cap and cache writes of every instruction set against double precision. */
#include <float.h>
#include <math.h>

#include "check.h"

enum {
    MAX_N = 4200
};

static const int sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 576, 640, 4097};

enum {
    N_SIZES = sizeof sizes / sizeof *sizes
};

/* Within `factor` times the rounding of a float, relative to the larger of want and `scale`. */
static void near(struct check *c, const char *name, int n, int i, double want, float got, double scale, double factor)
{
    const double bound = factor * FLT_EPSILON * (fabs(want) > scale ? fabs(want) : scale);
    check_that(c, fabs((double)got - want) <= bound, "%s n=%d: [%d] is %.9g, not %.9g", name, n, i, (double)got, want);
}

static void fill(struct check *c, float *x, int n, float scale)
{
    for (int i = 0; i < n; i++)
        x[i] = scale * check_gauss(c);
}

static void check_rms_norm(struct check *c, const struct kernels *k, int n)
{
    static float x[MAX_N], w[MAX_N];
    float *out = check_alloc((size_t)n * sizeof *out);
    fill(c, x, n, 3);
    fill(c, w, n, 1);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    k->rms_norm(out, x, w, 1e-5f, n);
    for (int i = 0; i < n; i++) /* the sum's rounding errors grow with n at worst, and count half */
        near(c, "rms_norm", n, i, (double)x[i] * (double)w[i] / sqrt(sum / n + (double)1e-5f), out[i], 0, 4 + n / 2);
    check_guards(c, out, (size_t)n * sizeof *out, "rms_norm");
    k->rms_norm(x, x, w, 1e-5f, n);
    check_that(c, memcmp(x, out, (size_t)n * sizeof *out) == 0, "rms_norm n=%d: in place differs", n);
    check_free(out);
}

static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

static void check_glu(struct check *c, const struct kernels *k, int n)
{
    static float gate[MAX_N], up[MAX_N];
    float *out = check_alloc((size_t)n * sizeof *out);
    for (int kind = 0; kind < N_GLU_KINDS; kind++) {
        fill(c, gate, n, 4);
        fill(c, up, n, 1);
        if (n > 8)
            gate[0] = 0, gate[1] = -0.0f, gate[2] = 200, gate[3] = -200, gate[4] = 1e-30f, gate[5] = -87, gate[6] = 1e30f;
        k->glu[kind](out, gate, up, n);
        for (int i = 0; i < n; i++) {
            const double x = gate[i], f = kind == GLU_SILU ? silu(x) : fabs(x) > 1e9 ? (x > 0 ? x : 0) : gelu(x);
            near(c, kind == GLU_SILU ? "silu" : "gelu", n, i, f * (double)up[i], out[i], fabs(x * (double)up[i]), 6);
        }
        check_guards(c, out, (size_t)n * sizeof *out, "glu");
        k->activate[kind](gate, n);
        k->multiply(gate, up, n);
        check_that(c, memcmp(gate, out, (size_t)n * sizeof *out) == 0, "glu n=%d: not the bits of both in turn", n);
    }
    check_free(out);
}

static void check_layer_norm(struct check *c, const struct kernels *reference, const struct kernels *k, int n)
{
    static float x[MAX_N], w[MAX_N], b[MAX_N], want[MAX_N];
    float *out = check_alloc((size_t)n * sizeof *out);
    double mean = 0, square = 0, size = 0;
    fill(c, x, n, 3);
    fill(c, w, n, 1);
    fill(c, b, n, 1);
    for (int i = 0; i < n; i++) {
        x[i] += 5; /* a mean that is not small */
        mean += (double)x[i] / n;
        size = fabs((double)x[i]) > size ? fabs((double)x[i]) : size;
    }
    for (int i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    k->layer_norm(out, x, w, b, 1e-5f, n);
    for (int i = 0; i < n && n > 1; i++) {
        /* the mean is lost in part where it is large beside what differs from it */
        const double scale = 1 / sqrt(square + (double)1e-5f);
        near(c, "layer_norm", n, i, ((double)x[i] - mean) * scale * (double)w[i] + (double)b[i], out[i],
             fabs((double)w[i]) * scale * size + fabs((double)b[i]), 8 + n / 2);
    }
    check_guards(c, out, (size_t)n * sizeof *out, "layer_norm");
    reference->layer_norm(want, x, w, b, 1e-5f, n);
    check_that(c, memcmp(want, out, (size_t)n * sizeof *out) == 0, "layer_norm n=%d: not the reference's bits", n);
    reference->activate[GLU_GELU](want, n);
    k->layer_norm_gelu(out, x, w, b, 1e-5f, n);
    check_that(c, memcmp(want, out, (size_t)n * sizeof *out) == 0, "layer_norm_gelu n=%d: not those of both in turn", n);
    check_guards(c, out, (size_t)n * sizeof *out, "layer_norm_gelu");
    k->layer_norm_gelu(x, x, w, b, 1e-5f, n);
    check_that(c, memcmp(x, out, (size_t)n * sizeof *out) == 0, "layer_norm_gelu n=%d: in place differs", n);
    check_free(out);
}

static void check_gelu(struct check *c, const struct kernels *reference, const struct kernels *k, int n)
{
    static float x[MAX_N], b[MAX_N], want[MAX_N];
    float *out = check_alloc((size_t)n * sizeof *out);
    fill(c, x, n, 4);
    fill(c, b, n, 1);
    if (n > 8)
        x[0] = 0, x[1] = -0.0f, x[2] = 200, x[3] = -200, x[4] = 1e-30f, x[5] = -87, x[6] = 1e30f;
    memcpy(out, x, (size_t)n * sizeof *out);
    k->activate[GLU_GELU](out, n);
    for (int i = 0; i < n; i++)
        near(c, "gelu", n, i, gelu((double)x[i]), out[i], (double)FLT_MIN + fabs((double)x[i]), 8);
    memcpy(want, x, (size_t)n * sizeof *want);
    reference->add(want, b, n);
    reference->activate[GLU_GELU](want, n);
    memcpy(out, x, (size_t)n * sizeof *out);
    k->add_gelu(out, b, n);
    check_that(c, memcmp(want, out, (size_t)n * sizeof *out) == 0, "add_gelu n=%d: not those of both in turn", n);
    check_guards(c, out, (size_t)n * sizeof *out, "gelu");
    check_free(out);
}

static void check_soft_cap(struct check *c, const struct kernels *k, int n)
{
    static float x[MAX_N];
    float *out = check_alloc((size_t)n * sizeof *out);
    fill(c, x, n, 40);
    memcpy(out, x, (size_t)n * sizeof *out);
    k->soft_cap(out, 30, n);
    for (int i = 0; i < n; i++)
        near(c, "soft_cap", n, i, 30 * tanh((double)x[i] / 30), out[i], 30, 8);
    check_guards(c, out, (size_t)n * sizeof *out, "soft_cap");
    check_free(out);
}

static void check_add_scale(struct check *c, const struct kernels *k, int n)
{
    static float x[MAX_N], y[MAX_N];
    float *out = check_alloc((size_t)n * sizeof *out);
    fill(c, x, n, 1);
    fill(c, y, n, 1);
    memcpy(out, x, (size_t)n * sizeof *out);
    k->add(out, y, n);
    for (int i = 0; i < n; i++)
        check_that(c, out[i] == x[i] + y[i], "add n=%d: [%d]", n, i);
    memcpy(out, x, (size_t)n * sizeof *out);
    k->scale(out, 0.3f, n);
    for (int i = 0; i < n; i++)
        check_that(c, out[i] == x[i] * 0.3f, "scale n=%d: [%d]", n, i);
    memcpy(out, x, (size_t)n * sizeof *out);
    k->add_scaled(out, y, 0.3f, n);
    for (int i = 0; i < n; i++)
        check_that(c, out[i] == x[i] + y[i] * 0.3f, "add_scaled n=%d: [%d]", n, i);
    check_guards(c, out, (size_t)n * sizeof *out, "add, scale");
    check_free(out);
}

static void check_rope(struct check *c, const struct kernels *k, int n_rot)
{
    float x[512], cosine[256], sine[256];
    float *out = check_alloc((size_t)n_rot * sizeof *out);
    fill(c, x, n_rot, 1);
    for (int i = 0; i < n_rot / 2; i++) {
        cosine[i] = cosf((float)i);
        sine[i] = sinf((float)i);
    }
    for (int style = 0; style < N_ROPE_STYLES; style++) {
        memcpy(out, x, (size_t)n_rot * sizeof *out);
        k->rope[style](out, cosine, sine, n_rot);
        for (int i = 0; i < n_rot / 2; i++) {
            const int a = style == ROPE_PAIRS ? 2 * i : i, b = style == ROPE_PAIRS ? 2 * i + 1 : i + n_rot / 2;
            const double cs = cosine[i], sn = sine[i], scale = fabs((double)x[a]) + fabs((double)x[b]);
            near(c, "rope", n_rot, a, (double)x[a] * cs - (double)x[b] * sn, out[a], scale, 2);
            near(c, "rope", n_rot, b, (double)x[b] * cs + (double)x[a] * sn, out[b], scale, 2);
        }
        check_guards(c, out, (size_t)n_rot * sizeof *out, "rope");
    }
    check_free(out);
}

/* The rounded values land in their places, and nothing else changes. */
static void check_kv_write(struct check *c, const struct kernels *reference, const struct kernels *k, int head_dim, int slot)
{
    static float key[ATTENTION_MAX_HEAD_DIM], value[ATTENTION_MAX_HEAD_DIM];
    fill(c, key, head_dim, 10);
    fill(c, value, head_dim, 1e-6f);
    key[0] = 70000; /* beyond f16 */
    for (int type = 0; type < N_KV_TYPES; type++) {
        const size_t bytes = kv_head_block_bytes((enum kv_type)type, head_dim);
        char *want = check_alloc(bytes), *got = check_alloc(bytes);
        reference->kv_write[type](want, slot, key, value, head_dim);
        k->kv_write[type](got, slot, key, value, head_dim);
        check_that(c, memcmp(want, got, bytes) == 0, "kv_write type=%d head_dim=%d slot=%d", type, head_dim, slot);
        check_guards(c, got, bytes, "kv_write");
        if (type == KV_F32) {
            const float *kt = (const float *)got, *vt = kt + ATTENTION_BLOCK * head_dim;
            for (int d = 0; d < head_dim; d++)
                check_that(c, kt[d * ATTENTION_BLOCK + slot] == key[d] && vt[slot * head_dim + d] == value[d],
                           "kv_write place");
        }
        check_free(want);
        check_free(got);
    }
}

static void check_all(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    static const int heads[] = {2, 4, 16, 20, 64, 80, 128, 256, 512};
    for (int s = 0; s < N_SIZES; s++) {
        if (check_wanted(c, "rms_norm"))
            check_rms_norm(c, k, sizes[s]);
        if (check_wanted(c, "glu"))
            check_glu(c, k, sizes[s]);
        if (check_wanted(c, "layer_norm"))
            check_layer_norm(c, reference, k, sizes[s]);
        if (check_wanted(c, "gelu"))
            check_gelu(c, reference, k, sizes[s]);
        if (check_wanted(c, "soft_cap"))
            check_soft_cap(c, k, sizes[s]);
        if (check_wanted(c, "add"))
            check_add_scale(c, k, sizes[s]);
    }
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
        if (check_wanted(c, "rope"))
            check_rope(c, k, heads[h]);
        for (int slot = 0; slot < ATTENTION_BLOCK && check_wanted(c, "kv_write"); slot += 5)
            check_kv_write(c, reference, k, heads[h], slot);
    }
}

static void bench_all(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    (void)reference;
    (void)k;
    printf("%s: nothing is measured here\n", c->isa);
}

int main(int argc, char **argv) { return check_main(argc, argv, check_all, bench_all); }
