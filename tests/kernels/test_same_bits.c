/* test_same_bits.c: kernels that promise the reference's bits on every instruction set: quantisation to int8, norm, gated
 * products, caps, rope, cache writes. */
#include <math.h>

#include "check.h"

enum input {
    INPUT_GAUSS,
    INPUT_LARGE, /* near the largest float */
    INPUT_ALIKE, /* all the same: ties and the largest integers */
    INPUT_TIES,  /* halves after scaling */
    INPUT_DENORMAL,
    INPUT_ZERO,
    N_INPUTS
};

static void fill(struct check *c, enum input input, float *x, int n)
{
    for (int i = 0; i < n; i++)
        switch (input) {
        case INPUT_LARGE:
            x[i] = 3e38f * (2 * check_uniform(c) - 1);
            break;
        case INPUT_ALIKE:
            x[i] = -7.25f;
            break;
        case INPUT_TIES:
            x[i] = i % 32 == 0 ? 127 : (float)((int)(check_random(c) % 255) - 127) + 0.5f;
            break;
        case INPUT_DENORMAL:
            x[i] = check_gauss(c) * 0x1p-128f;
            break;
        case INPUT_ZERO:
            x[i] = check_random(c) & 1 ? 0.0f : -0.0f;
            break;
        default:
            x[i] = 3 * check_gauss(c);
        }
}

/* want and got hold n bytes between guards. */
static void compare(struct check *c, const void *want, const void *got, size_t n, const char *name, int size, int input)
{
    check_that(c, memcmp(want, got, n) == 0, "%s n=%d input=%d differs from the reference", name, size, input);
    check_guards(c, got, n, name);
}

static void check_quantize(struct check *c, const struct kernels *reference, const struct kernels *k, int n, int input)
{
    const size_t bytes = q8_row_bytes(n);
    float *x = check_alloc(sizeof(float) * (size_t)n);
    char *want = check_alloc(bytes), *got = check_alloc(bytes);
    char *want_rest = check_alloc(bytes), *got_rest = check_alloc(bytes);
    fill(c, (enum input)input, x, n);
    static const float bad[] = {0, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (i > 0)
            x[n - 1 - n / 3] = bad[i];
        memset(want, 0, bytes); /* the padding behind the row is nobody's */
        memset(got, 0, bytes);
        reference->quantize_q8(want, x, n);
        k->quantize_q8(got, x, n);
        compare(c, want, got, bytes, "quantize_q8", n, input);
        memset(want_rest, 0, bytes);
        memset(got_rest, 0, bytes);
        reference->quantize_q8_rest(want_rest, want, x, n);
        k->quantize_q8_rest(got_rest, got, x, n);
        compare(c, want_rest, got_rest, bytes, "quantize_q8_rest", n, input);
    }
    check_free(want_rest);
    check_free(got_rest);
    check_free(x);
    check_free(want);
    check_free(got);
}

static void check_values(struct check *c, const struct kernels *reference, const struct kernels *k, int n, int input)
{
    const size_t bytes = sizeof(float) * (size_t)n;
    float *x = check_alloc(bytes), *y = check_alloc(bytes), *want = check_alloc(bytes), *got = check_alloc(bytes);
    fill(c, (enum input)input, x, n);
    fill(c, INPUT_GAUSS, y, n);
    reference->rms_norm(want, x, y, 1e-5f, n);
    k->rms_norm(got, x, y, 1e-5f, n);
    compare(c, want, got, bytes, "rms_norm", n, input);
    for (int kind = 0; kind < N_GLU_KINDS; kind++) {
        reference->glu[kind](want, x, y, n);
        k->glu[kind](got, x, y, n);
        compare(c, want, got, bytes, kind == GLU_SILU ? "silu" : "gelu", n, input);
    }
    memcpy(want, x, bytes);
    memcpy(got, x, bytes);
    reference->soft_cap(want, 30, n);
    k->soft_cap(got, 30, n);
    compare(c, want, got, bytes, "soft_cap", n, input);
    reference->add(want, y, n);
    k->add(got, y, n);
    compare(c, want, got, bytes, "add", n, input);
    for (int style = 0; style < N_ROPE_STYLES && n % 2 == 0; style++) {
        reference->rope[style](want, y, y + n / 2, n);
        k->rope[style](got, y, y + n / 2, n);
        compare(c, want, got, bytes, "rope", n, input);
    }
    check_free(x);
    check_free(y);
    check_free(want);
    check_free(got);
}

static void check_kv_write(struct check *c, const struct kernels *reference, const struct kernels *k, int head_dim, int input)
{
    float *key = check_alloc(sizeof(float) * (size_t)head_dim), *value = check_alloc(sizeof(float) * (size_t)head_dim);
    fill(c, (enum input)input, key, head_dim);
    fill(c, (enum input)input, value, head_dim);
    key[head_dim / 2] = NAN;
    value[0] = -INFINITY;
    for (int type = 0; type < N_KV_TYPES; type++) {
        const size_t bytes = kv_head_block_bytes((enum kv_type)type, head_dim);
        char *want = check_alloc(bytes), *got = check_alloc(bytes);
        reference->kv_write[type](want, input, key, value, head_dim);
        k->kv_write[type](got, input, key, value, head_dim);
        compare(c, want, got, bytes, "kv_write", head_dim, input);
        check_free(want);
        check_free(got);
    }
    check_free(key);
    check_free(value);
}

static void check_all(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    static const int sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 96, 100, 576, 640, 2048, 4097};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int input = 0; input < N_INPUTS; input++) {
            check_quantize(c, reference, k, sizes[s], input);
            check_values(c, reference, k, sizes[s], input);
            if (sizes[s] <= ATTENTION_MAX_HEAD_DIM)
                check_kv_write(c, reference, k, sizes[s], input);
        }
}

/* Nanoseconds a value. */
#define BENCH(name, n, call)                                                                                                   \
    do {                                                                                                                       \
        const double start = (double)clock_us();                                                                               \
        for (int i = 0; i < 2000; i++)                                                                                         \
            call;                                                                                                              \
        printf("%-8s %-12s n=%d %6.3f ns a value\n", c->isa, name, n, ((double)clock_us() - start) * 1e3 / 2000 / (n));        \
    } while (0)

static void bench_all(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    (void)reference;
    enum {
        N = 2048
    };
    static float x[N], y[N], out[N];
    _Alignas(64) static char row[4 * N];
    fill(c, INPUT_GAUSS, x, N);
    fill(c, INPUT_GAUSS, y, N);
    BENCH("quantize_q8", N, k->quantize_q8(row, x, N));
    BENCH("rms_norm", N, k->rms_norm(out, x, y, 1e-5f, N));
    BENCH("silu", N, k->glu[GLU_SILU](out, x, y, N));
    BENCH("gelu", N, k->glu[GLU_GELU](out, x, y, N));
    BENCH("add", N, k->add(out, y, N));
    BENCH("rope_halves", 64, k->rope[ROPE_HALVES](out, x, y, 64));
}

int main(int argc, char **argv) { return check_main(argc, argv, check_all, bench_all); }
