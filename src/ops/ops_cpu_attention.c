/* ops_cpu_attention.c: rotary embedding, cache writes, and attention cut over heads, tiles of rows and segments.
 * A query's state over a segment of 512 positions is the kernel's; segments are merged left to right, whether one thread
 * took them all in turn or several took one each: the same operations, the same bits. */
#include <string.h>

#include "ops/ops_cpu.h"

enum {
    SEGMENT_BLOCKS = ATTENTION_SEGMENT / ATTENTION_BLOCK
};

static void norm_heads(struct cpu_device *d, const struct attention_args *a, const struct tensor *x, const struct tensor *norm,
                       int row)
{
    float *head = cpu_row(x, row);
    for (int i = 0; norm->buffer != NULL && i < x->n_col; i += norm->n_col)
        d->kernels.rms_norm(head + i, head + i, cpu_row(norm, 0), a->norm_eps, norm->n_col);
}

static void turn_heads(struct cpu_device *d, const struct attention_args *a, const struct tensor *x, int row)
{
    const float *cosine = cpu_row(&a->angles, row), *sine = cosine + a->n_rot / 2;
    float *head = cpu_row(x, row);
    for (int i = 0; i < x->n_col; i += a->head_dim)
        d->kernels.rope[a->style](head + i, cosine, sine, a->n_rot);
}

void cpu_norm_head_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct attention_args *a = context;
    for (int r = first; r < end; r++) {
        norm_heads(d, a, &a->q, &a->q_norm, r);
        norm_heads(d, a, &a->k, &a->k_norm, r);
    }
}

void cpu_turn_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct attention_args *a = context;
    for (int r = first; a->n_rot > 0 && r < end; r++) {
        turn_heads(d, a, &a->q, r);
        turn_heads(d, a, &a->k, r);
    }
}

static void store_row(struct cpu_device *d, const struct attention_args *a, int row)
{
    const int position = a->position[row];
    const size_t head_bytes = kv_head_block_bytes(a->kv.type, a->head_dim);
    char *block = cpu_address(a->kv.buffer, a->kv.offset + a->blocks[row][position / ATTENTION_BLOCK] * a->kv.stride);
    const float *k = cpu_row(&a->k, row), *v = cpu_row(&a->v, row);
    for (int h = 0; h < a->n_head_kv; h++, k += a->head_dim, v += a->head_dim)
        d->kernels.kv_write[a->kv.type](block + (size_t)h * head_bytes, position % ATTENTION_BLOCK, k, v, a->head_dim);
}

void cpu_store_rows(struct cpu_device *d, const void *context, int first, int end)
{
    for (int r = first; r < end; r++)
        store_row(d, context, r);
}

static void rope_store_rows(struct cpu_device *d, const void *context, int first, int end)
{
    for (int r = first; r < end; r++) {
        cpu_norm_head_rows(d, context, r, r + 1);
        cpu_turn_rows(d, context, r, r + 1);
        cpu_store_rows(d, context, r, r + 1);
    }
}

void cpu_rope_store(struct device *d, const struct attention_args *args)
{
    cpu_for_rows(cpu_of(d), rope_store_rows, args, args->q.n_row, 2 * args->q.n_col);
}

/* Heads and rows that one call of the kernel takes together: up to `heads` query heads of one KV head for each of up to
 * `rows` rows of one sequence. */
struct shape {
    int heads;     /* query heads in a tile */
    int rows;      /* rows in a tile */
    int n_sub;     /* tiles that the query heads of a KV head make */
    int n_per_row; /* n_sub * n_head_kv */
    int n_tile;    /* tiles of rows, those of different sequences apart */
    int n_segment; /* of the longest row */
};

struct tile {
    int first_row;
    int n_row;
    int first_head; /* query head */
    int n_head;
    int head_kv;
};

struct attention_run {
    struct cpu_device *device;
    const struct attention_args *args;
    struct shape shape;
    int first_item; /* of those at work: a tile of rows and heads each */
};

/* The rows of tile number `tile`: rows of a sequence are cut every `rows` of them. Returns the first row behind it. */
static int next_tile(const struct attention_args *a, int rows, int first)
{
    int end = first + 1;
    while (end < a->q.n_row && end - first < rows && a->blocks[end] == a->blocks[first])
        end++;
    return end;
}

static struct shape shape_of(const struct cpu_device *d, const struct attention_args *a)
{
    struct shape s = {0};
    const int group = a->n_head / a->n_head_kv, by_work = CPU_PIECE_WORK / (2 * ATTENTION_SEGMENT * a->head_dim);
    const int most = d->untiled ? 1 : by_work < ATTENTION_MAX_QUERIES ? by_work : ATTENTION_MAX_QUERIES;
    s.heads = group < most ? group : most;
    s.rows = most / s.heads;
    s.n_sub = (group - 1) / s.heads + 1;
    s.n_per_row = s.n_sub * a->n_head_kv;
    int longest = 0;
    for (int r = 0; r < a->q.n_row; r++)
        longest = a->position[r] > longest ? a->position[r] : longest;
    for (int r = 0; r < a->q.n_row; r = next_tile(a, s.rows, r))
        s.n_tile++;
    s.n_segment = longest / ATTENTION_SEGMENT + 1;
    return s;
}

static struct tile tile_at(const struct attention_args *a, const struct shape *s, int item)
{
    struct tile t = {.head_kv = item % s->n_per_row / s->n_sub};
    int row = 0, end = next_tile(a, s->rows, 0);
    for (int i = item / s->n_per_row; i > 0; i--) {
        row = end;
        end = next_tile(a, s->rows, row);
    }
    const int group = a->n_head / a->n_head_kv, first = item % s->n_sub * s->heads;
    t.first_row = row;
    t.n_row = end - row;
    t.first_head = t.head_kv * group + first;
    t.n_head = group - first < s->heads ? group - first : s->heads;
    return t;
}

static void load_queries(const struct attention_args *a, const struct tile *t, struct attention_scratch *x)
{
    const size_t n = (size_t)t->n_head * (size_t)a->head_dim;
    for (int r = 0; r < t->n_row; r++) {
        const int position = a->position[t->first_row + r];
        const int begin = a->window > 0 && position >= a->window ? position - a->window + 1 : 0;
        memcpy(x->q + (size_t)r * n, cpu_row(&a->q, t->first_row + r) + (size_t)t->first_head * (size_t)a->head_dim,
               n * sizeof *x->q);
        for (int h = 0; h < t->n_head; h++) {
            x->begin[r * t->n_head + h] = begin;
            x->end[r * t->n_head + h] = position + 1;
        }
    }
}

/* One segment's state in x->segment_*, of the tile's queries that see any of it. */
static void run_segment(const struct attention_run *run, const struct tile *t, struct attention_scratch *x, int segment)
{
    const struct attention_args *a = run->args;
    const int n_query = t->n_row * t->n_head;
    const int begin = x->begin[0] / ATTENTION_BLOCK, end = (x->end[n_query - 1] - 1) / ATTENTION_BLOCK + 1;
    const int first = segment * SEGMENT_BLOCKS, last = first + SEGMENT_BLOCKS;
    const struct attention_job job = {
        .q = x->q,
        .begin = x->begin,
        .end = x->end,
        .n_query = n_query,
        .head_dim = a->head_dim,
        .scale = a->scale,
        .cap = a->cap,
        .base = cpu_address(a->kv.buffer, a->kv.offset + (size_t)t->head_kv * kv_head_block_bytes(a->kv.type, a->head_dim)),
        .stride = a->kv.stride,
        .block = a->blocks[t->first_row],
        .first_block = begin > first ? begin : first,
        .last_block = end < last ? end : last,
        .m = x->segment_m,
        .l = x->segment_l,
        .acc = x->segment_acc,
        .scratch = x->kernel,
    };
    run->device->kernels.attention[a->kv.type](&job);
}

/* Segments that any query of the tile sees: first <= s < *end. */
static int segments_of(const struct tile *t, const struct attention_scratch *x, int *end)
{
    *end = (x->end[t->n_row * t->n_head - 1] - 1) / ATTENTION_SEGMENT + 1;
    return x->begin[0] / ATTENTION_SEGMENT;
}

/* Put a segment's state behind the state of the segments before it. */
static void merge_segment(const struct attention_run *run, const struct tile *t, struct attention_scratch *x, int segment,
                          const float *m, const float *l, const float *acc)
{
    const size_t head_dim = (size_t)run->args->head_dim;
    for (int i = 0; i < t->n_row * t->n_head; i++) {
        const int begin = x->begin[i] / ATTENTION_SEGMENT, end = (x->end[i] - 1) / ATTENTION_SEGMENT;
        float *to = x->acc + (size_t)i * head_dim;
        const float *from = acc + (size_t)i * head_dim;
        if (segment < begin || segment > end)
            continue;
        if (segment == begin) {
            x->m[i] = m[i];
            x->l[i] = l[i];
            memcpy(to, from, head_dim * sizeof *to);
        } else {
            run->device->kernels.attention_merge(&x->m[i], &x->l[i], to, m[i], l[i], from, run->args->head_dim);
        }
    }
}

static void finish(const struct attention_run *run, const struct tile *t, const struct attention_scratch *x)
{
    const struct attention_args *a = run->args;
    const size_t head_dim = (size_t)a->head_dim;
    for (int r = 0; r < t->n_row; r++)
        for (int h = 0; h < t->n_head; h++) {
            const int i = r * t->n_head + h;
            float *out = cpu_row(&a->out.f32, t->first_row + r) + (size_t)(t->first_head + h) * head_dim;
            run->device->kernels.attention_finish(out, x->acc + (size_t)i * head_dim, x->l[i], a->head_dim);
        }
}

/* One tile with all its segments in turn. */
static void run_tile(void *context, int piece, int thread)
{
    const struct attention_run *run = context;
    struct attention_scratch *x = &run->device->attention[thread];
    const struct tile t = tile_at(run->args, &run->shape, piece);
    load_queries(run->args, &t, x);
    int end;
    for (int s = segments_of(&t, x, &end); s < end; s++) {
        run_segment(run, &t, x, s);
        merge_segment(run, &t, x, s, x->segment_m, x->segment_l, x->segment_acc);
    }
    finish(run, &t, x);
}

static size_t partial_floats(const struct attention_run *run)
{
    return (size_t)run->shape.heads * (size_t)run->shape.rows * (size_t)(run->args->head_dim + 2);
}

static float *partial_at(const struct attention_run *run, int item, int segment)
{
    return run->device->partial + (size_t)(item * run->shape.n_segment + segment) * partial_floats(run);
}

/* One segment of one tile, its state kept for merge_tile. */
static void run_tile_segment(void *context, int piece, int thread)
{
    const struct attention_run *run = context;
    struct attention_scratch *x = &run->device->attention[thread];
    const int item = piece / run->shape.n_segment, segment = piece % run->shape.n_segment;
    const struct tile t = tile_at(run->args, &run->shape, run->first_item + item);
    load_queries(run->args, &t, x);
    int end;
    if (segment < segments_of(&t, x, &end) || segment >= end)
        return;
    run_segment(run, &t, x, segment);
    const size_t n = (size_t)(t.n_row * t.n_head);
    float *partial = partial_at(run, item, segment);
    memcpy(partial, x->segment_m, n * sizeof *partial);
    memcpy(partial + n, x->segment_l, n * sizeof *partial);
    memcpy(partial + 2 * n, x->segment_acc, n * (size_t)run->args->head_dim * sizeof *partial);
}

static void merge_tile(void *context, int piece, int thread)
{
    const struct attention_run *run = context;
    struct attention_scratch *x = &run->device->attention[thread];
    const struct tile t = tile_at(run->args, &run->shape, run->first_item + piece);
    load_queries(run->args, &t, x);
    const size_t n = (size_t)(t.n_row * t.n_head);
    int end;
    for (int s = segments_of(&t, x, &end); s < end; s++) {
        const float *partial = partial_at(run, piece, s);
        merge_segment(run, &t, x, s, partial, partial + n, partial + 2 * n);
    }
    finish(run, &t, x);
}

/* Tiles whose segments' states there is room for; 0: a tile takes its segments in turn. */
static int tiles_at_once(const struct attention_run *run)
{
    if (run->device->n_thread == 1 || run->shape.n_segment == 1)
        return 0;
    return (int)(CPU_PARTIAL_FLOATS / ((size_t)run->shape.n_segment * partial_floats(run)));
}

void cpu_attention(struct device *d, const struct attention_args *args)
{
    struct attention_run run = {.device = cpu_of(d), .args = args, .shape = shape_of(cpu_of(d), args)};
    struct thread_pool *pool = run.device->pool;
    const int n_item = run.shape.n_tile * run.shape.n_per_row, at_once = tiles_at_once(&run);
    if (at_once == 0)
        pool_run(pool, run_tile, &run, n_item);
    for (int n; at_once > 0 && run.first_item < n_item; run.first_item += n) {
        n = n_item - run.first_item < at_once ? n_item - run.first_item : at_once;
        pool_run(pool, run_tile_segment, &run, n * run.shape.n_segment);
        pool_run(pool, merge_tile, &run, n);
    }
    cpu_quantize(d, &args->out);
}
