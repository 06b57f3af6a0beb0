/* test_attention.c: attention of every instruction set against softmax in double precision, and its bits against itself: one
 * query alone, among others, and with anything where it must not look. */
#include <float.h>
#include <math.h>

#include "base/fp16.h"
#include "check.h"
#include "limits.h"

enum {
    N_TOKEN = 150, /* ten blocks, in a table out of order */
    N_BLOCK = 10,
    MAX_Q = ATTENTION_MAX_QUERIES
};

struct scene {
    struct check *c;
    const struct kernels *k;
    enum kv_type type;
    int head_dim;
    float cap;
    char *memory; /* N_BLOCK blocks */
    size_t stride;
    uint32_t block[N_BLOCK];
    float *key, *value; /* [N_TOKEN][head_dim] as the cache holds them */
    float *q;           /* [MAX_Q][head_dim] */
    int32_t begin[MAX_Q], end[MAX_Q];
};

static float rounded(enum kv_type type, float x)
{
    return type == KV_F32 || type == KV_INT8 ? x
           : type == KV_F16                  ? f32_from_f16(f16_from_f32(x))
                                             : f32_from_bf16(bf16_from_f32(x));
}

/* As the cache holds x[n] in int8. */
static void round_int8(float *x, int n)
{
    for (int first = 0; first < n; first += KV_SCALE_CHANNELS) {
        const int end = first + KV_SCALE_CHANNELS < n ? first + KV_SCALE_CHANNELS : n;
        float largest = 0;
        for (int i = first; i < end; i++)
            largest = fmaxf(largest, fabsf(x[i]));
        for (int i = first; i < end; i++)
            x[i] = rintf(x[i] * (127 / largest)) * (largest / 127);
    }
}

static void set_scene(struct scene *s, struct check *c, const struct kernels *k, enum kv_type type, int head_dim, float cap)
{
    const size_t n = (size_t)head_dim;
    *s = (struct scene){.c = c, .k = k, .type = type, .head_dim = head_dim, .cap = cap};
    s->stride = kv_head_block_bytes(type, head_dim) + 64;
    s->memory = check_alloc(s->stride * N_BLOCK);
    memset(s->memory, 0xff, s->stride * N_BLOCK); /* NaN in every type */
    s->key = check_alloc(N_TOKEN * n * sizeof(float));
    s->value = check_alloc(N_TOKEN * n * sizeof(float));
    s->q = check_alloc(MAX_Q * n * sizeof(float));
    for (int b = 0; b < N_BLOCK; b++)
        s->block[b] = (uint32_t)(b * 7 % N_BLOCK);
    for (int t = 0; t < N_TOKEN; t++) {
        float *key = s->key + (size_t)t * n, *value = s->value + (size_t)t * n;
        for (int d = 0; d < head_dim; d++) {
            key[d] = rounded(type, 2 * check_gauss(c));
            value[d] = rounded(type, check_gauss(c));
        }
        k->kv_write[type](s->memory + s->block[t / ATTENTION_BLOCK] * s->stride, t % ATTENTION_BLOCK, key, value, head_dim);
        if (type == KV_INT8) {
            round_int8(key, head_dim);
            round_int8(value, head_dim);
        }
    }
    for (int i = 0; i < MAX_Q; i++) {
        s->end[i] = i < 4 ? i + 1 : i == 5 ? N_TOKEN : 1 + (int)(check_random(c) % N_TOKEN);
        s->begin[i] = i % 3 == 0 ? 0 : (int)(check_random(c) % (uint64_t)s->end[i]);
        for (int d = 0; d < head_dim; d++)
            s->q[(size_t)i * n + (size_t)d] = check_gauss(c);
    }
}

static void clear_scene(struct scene *s)
{
    check_guards(s->c, s->memory, s->stride * N_BLOCK, "cache");
    check_free(s->memory);
    check_free(s->key);
    check_free(s->value);
    check_free(s->q);
}

/* Queries first <= i < first + n over blocks first_block <= b < last_block, the state in m, l, acc of the first. */
static void run(const struct scene *s, int first, int n, int first_block, int last_block, float *m, float *l, float *acc)
{
    float *scratch = check_alloc(attention_scratch_floats(s->head_dim) * sizeof(float));
    const struct attention_job job = {.q = s->q + (size_t)first * (size_t)s->head_dim,
                                      .begin = s->begin + first,
                                      .end = s->end + first,
                                      .n_query = n,
                                      .head_dim = s->head_dim,
                                      .scale = 1 / sqrtf((float)s->head_dim),
                                      .cap = s->cap,
                                      .base = s->memory,
                                      .stride = s->stride,
                                      .block = s->block,
                                      .first_block = first_block,
                                      .last_block = last_block,
                                      .m = m,
                                      .l = l,
                                      .acc = acc,
                                      .scratch = scratch};
    s->k->attention[s->type](&job);
    check_guards(s->c, scratch, attention_scratch_floats(s->head_dim) * sizeof(float), "scratch");
    check_free(scratch);
}

/* Softmax in double precision; returns the largest |v| for the error bound. */
static double exact(const struct scene *s, int i, double *out)
{
    const size_t n = (size_t)s->head_dim;
    double score[N_TOKEN], top = -INFINITY, sum = 0, largest = 0;
    for (int t = s->begin[i]; t < s->end[i]; t++) {
        score[t] = 0;
        for (size_t d = 0; d < n; d++)
            score[t] += (double)s->q[(size_t)i * n + d] * (double)s->key[(size_t)t * n + d];
        score[t] /= sqrt((double)n);
        if (s->cap > 0)
            score[t] = (double)s->cap * tanh(score[t] / (double)s->cap);
        top = fmax(top, score[t]);
    }
    for (int t = s->begin[i]; t < s->end[i]; t++)
        sum += score[t] = exp(score[t] - top);
    for (size_t d = 0; d < n; d++) {
        out[d] = 0;
        for (int t = s->begin[i]; t < s->end[i]; t++) {
            out[d] += score[t] / sum * (double)s->value[(size_t)t * n + d];
            largest = fmax(largest, fabs((double)s->value[(size_t)t * n + d]));
        }
    }
    return largest;
}

static void check_against_softmax(const struct scene *s, const float *l, const float *acc)
{
    double want[ATTENTION_MAX_HEAD_DIM];
    float got[ATTENTION_MAX_HEAD_DIM];
    for (int i = 0; i < MAX_Q; i++) {
        const double largest = exact(s, i, want);
        s->k->attention_finish(got, acc + (size_t)i * (size_t)s->head_dim, l[i], s->head_dim);
        for (int d = 0; d < s->head_dim; d++) /* scores of size ~10 carry head_dim roundings, and their exp as many */
            check_that(s->c, fabs((double)got[d] - want[d]) <= 4 * (s->head_dim + 64) * FLT_EPSILON * largest,
                       "attention type=%d head_dim=%d query=%d [%d] is %.9g, not %.9g", (int)s->type, s->head_dim, i, d,
                       (double)got[d], want[d]);
    }
}

/* Each query alone has the bits that it has among others. */
static void check_alone(const struct scene *s, const float *m, const float *l, const float *acc)
{
    static float acc1[MAX_Q * ATTENTION_MAX_HEAD_DIM];
    const size_t n = (size_t)s->head_dim;
    for (int width = 1; width <= 9; width += 4)
        for (int i = 0; i + width <= MAX_Q; i += 3) {
            float m1[MAX_Q], l1[MAX_Q];
            run(s, i, width, 0, N_BLOCK, m1, l1, acc1);
            for (int j = 0; j < width; j++)
                check_that(s->c,
                           m1[j] == m[i + j] && l1[j] == l[i + j] &&
                               memcmp(acc1 + (size_t)j * n, acc + (size_t)(i + j) * n, n * sizeof *acc) == 0,
                           "attention type=%d head_dim=%d: query %d among %d has other bits", (int)s->type, s->head_dim, i + j,
                           width);
        }
}

/* Keys and values that a query must not see may be anything. */
static void check_masked(struct scene *s, const float *m, const float *l, const float *acc)
{
    float m1, l1, acc1[ATTENTION_MAX_HEAD_DIM], nothing[ATTENTION_MAX_HEAD_DIM];
    const size_t n = (size_t)s->head_dim;
    for (size_t d = 0; d < n; d++)
        nothing[d] = d % 2 ? NAN : INFINITY;
    const int i = 7;
    for (int t = 0; t < N_TOKEN; t++)
        if (t < s->begin[i] || t >= s->end[i])
            s->k->kv_write[s->type](s->memory + s->block[t / ATTENTION_BLOCK] * s->stride, t % ATTENTION_BLOCK, nothing,
                                    nothing, s->head_dim);
    run(s, i, 1, 0, N_BLOCK, &m1, &l1, acc1);
    check_that(s->c, m1 == m[i] && l1 == l[i] && memcmp(acc1, acc + (size_t)i * n, n * sizeof *acc) == 0,
               "attention type=%d head_dim=%d: what is masked leaves a trace", (int)s->type, s->head_dim);
}

/* Two parts merged are near the whole. */
static void check_merge(const struct scene *s)
{
    float m[2], l[2], acc[2][ATTENTION_MAX_HEAD_DIM], got[ATTENTION_MAX_HEAD_DIM];
    double want[ATTENTION_MAX_HEAD_DIM];
    const int i = 5; /* ends at N_TOKEN */
    if (s->begin[i] >= 4 * ATTENTION_BLOCK)
        return;
    run(s, i, 1, 0, 4, &m[0], &l[0], acc[0]);
    run(s, i, 1, 4, N_BLOCK, &m[1], &l[1], acc[1]);
    s->k->attention_merge(&m[0], &l[0], acc[0], m[1], l[1], acc[1], s->head_dim);
    s->k->attention_finish(got, acc[0], l[0], s->head_dim);
    const double largest = exact(s, i, want);
    for (int d = 0; d < s->head_dim; d++)
        check_that(s->c, fabs((double)got[d] - want[d]) <= 4 * (s->head_dim + 64) * FLT_EPSILON * largest, "merge [%d]", d);
}

static void check_all(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    static const int heads[] = {2, 8, 16, 20, 64, 80, 128, 256};
    static float acc[MAX_Q * ATTENTION_MAX_HEAD_DIM];
    (void)reference;
    for (int type = 0; type < N_KV_TYPES; type++)
        for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
            struct scene s;
            float m[MAX_Q], l[MAX_Q];
            set_scene(&s, c, k, (enum kv_type)type, heads[h], h % 2 ? 5.0f : 0.0f);
            run(&s, 0, MAX_Q, 0, N_BLOCK, m, l, acc);
            check_against_softmax(&s, l, acc);
            check_alone(&s, m, l, acc);
            check_merge(&s);
            check_masked(&s, m, l, acc);
            clear_scene(&s);
        }
}

enum {
    BENCH_BLOCKS = ATTENTION_SEGMENT / ATTENTION_BLOCK,
    BENCH_ROUNDS = 9,
    BENCH_APART = 352 << 10 /* bytes from block to block in the cache of a small model */
};

/* Best nanoseconds of CPU time that one block costs n_query queries: a segment, every block of it `stride` bytes behind the
 * one before. apart: the next round reads other blocks, which no cache holds. */
static double bench_case(const struct kernels *k, enum kv_type type, int head_dim, int n_query, char *memory, size_t stride,
                         bool apart)
{
    static _Alignas(64) float q[MAX_Q * ATTENTION_MAX_HEAD_DIM], acc[MAX_Q * ATTENTION_MAX_HEAD_DIM];
    static _Alignas(64) float scratch[2 * ATTENTION_BLOCK * ATTENTION_MAX_HEAD_DIM];
    float m[MAX_Q], l[MAX_Q];
    int32_t begin[MAX_Q], end[MAX_Q];
    uint32_t block[BENCH_BLOCKS];
    for (int b = 0; b < BENCH_BLOCKS; b++)
        block[b] = (uint32_t)b;
    for (int i = 0; i < n_query; i++) {
        begin[i] = 0;
        end[i] = ATTENTION_SEGMENT;
    }
    for (int i = 0; i < n_query * head_dim; i++)
        q[i] = (float)(i % 13 - 6) * 0.1f;
    double best = INFINITY;
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        const size_t first = apart ? (size_t)round * kv_head_block_bytes(type, head_dim) : 0;
        const struct attention_job job = {q,      begin, end, n_query,      head_dim, 0.125f, 0,   memory + first,
                                          stride, block, 0,   BENCH_BLOCKS, m,        l,      acc, scratch};
        const double start = seconds();
        k->attention[type](&job);
        const double taken = seconds() - start;
        best = taken < best ? taken : best;
    }
    return best * 1e9 / BENCH_BLOCKS;
}

static void bench_all(struct check *c, const struct kernels *reference, const struct kernels *k)
{
    static const int heads[] = {64, 256}, queries[] = {1, 3, 4, 8, 32};
    static const char *const names[N_KV_TYPES] = {"f32", "f16", "bf16", "int8"};
    const size_t bytes = (size_t)BENCH_APART * (BENCH_BLOCKS + 1);
    char *memory = bench_map(bytes);
    (void)reference;
    if (memory == NULL)
        return;
    memset(memory, 0, bytes);
    printf("%s: one block of 16 tokens\n%-5s %5s %7s %10s %8s %10s %8s\n", c->isa, "KV", "head", "queries", "cached ns", "GB/s",
           "apart ns", "GB/s");
    for (int type = 0; type < N_KV_TYPES; type++)
        for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
            for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
                const size_t n = kv_head_block_bytes((enum kv_type)type, heads[h]);
                const double near = bench_case(k, (enum kv_type)type, heads[h], queries[i], memory, n, false);
                const double far = bench_case(k, (enum kv_type)type, heads[h], queries[i], memory, BENCH_APART, true);
                printf("%-5s %5d %7d %10.0f %8.1f %10.0f %8.1f\n", names[type], heads[h], queries[i], near, (double)n / near,
                       far, (double)n / far);
            }
    munmap(memory, bytes);
}

int main(int argc, char **argv) { return check_main(argc, argv, check_all, bench_all); }
