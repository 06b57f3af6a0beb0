/* bench_cases.c: the cases of a benchmark. */
#include "measure/bench_cases.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cache/kv_cache.h"

enum {
    LANES = 8,
    PICK_BLOCK = 512 /* logits among which the best is looked for at a time */
};

/* What all cases of a run share. */
struct bench {
    const struct bench_options *o;
    const struct bench_model *bench_model;
    struct model *model;
    const struct model_info *info;
    struct device *device;
    const struct limits *limits;
    struct machine_watch *watch;
    struct model_kv *kv;
    struct kv_cache *cache;
    int32_t *token; /* one for each row of a step */
    kv_seq *seq;
    bool *wants;
    const struct adapter_set **adapter; /* of each row of a step; NULL: there are none */
    double *sample;                     /* [repeat] */
    kv_seq source;                      /* whose tokens decode cases begin with */
    bool has_source;
    struct op_profile *counter;
    struct mr_error *err;
};

const char *bench_test_name(enum bench_test test) { return test == BENCH_PREFILL ? "prefill" : "decode"; }

static int list_max(const struct bench_list *l)
{
    int most = 0;
    for (int i = 0; i < l->n; i++)
        most = l->value[i] > most ? l->value[i] : most;
    return most;
}

/* Cached tokens before a decode case: a model cannot answer nothing. */
static int start_depth(int depth) { return depth > 0 ? depth : 1; }

static bool has_decode(const struct bench_options *o) { return o->gen > 0 && o->batch.n > 0 && o->depth.n > 0; }

int bench_max_tokens(const struct bench_options *o)
{
    const int decode = has_decode(o) ? start_depth(list_max(&o->depth)) + o->gen : 0;
    return o->prompt > decode ? o->prompt : decode;
}

int bench_max_batch(const struct bench_options *o) { return has_decode(o) ? list_max(&o->batch) : 1; }

/* One more than the batch: the sequence that the others are copied from. */
int bench_max_sequences(const struct bench_options *o) { return bench_max_batch(o) + 1; }

static bool is_stopped(const struct bench *b) { return b->o->stop != NULL && atomic_load(b->o->stop); }

/* Token ids without a model of language: any will do, the same in every run. */
static int32_t token_at(const struct bench *b, int i)
{
    return (int32_t)(((uint32_t)i * 2654435761u >> 8) % (uint32_t)b->info->n_vocab);
}

/* Run n_row rows of b->token; logits of the last row, or of all. */
static enum mr_status step(struct bench *b, int n_row, bool all_logits)
{
    if (is_stopped(b))
        return mr_fail(b->err, MR_CANCELLED, "stopped");
    for (int i = 0; i < n_row; i++)
        b->wants[i] = all_logits || i + 1 == n_row;
    const struct batch batch = {
        .n_row = n_row, .token = b->token, .seq = b->seq, .wants_logits = b->wants, .adapters = b->adapter};
    return model_forward(b->model, b->kv, &batch, b->err);
}

/* Rows take the adapters in turn, or all the first one. */
static void give_adapters(struct bench *b, int n_row, bool in_turn)
{
    for (int i = 0; b->adapter != NULL && i < n_row; i++)
        b->adapter[i] = &b->bench_model->adapter[in_turn ? i % b->bench_model->n_adapter : 0];
}

/* Tokens of a sequence up to n_token, in chunks. */
static enum mr_status prefill(struct bench *b, kv_seq seq, int n_token)
{
    for (int at = kv_seq_length(b->cache, seq); at < n_token;) {
        const int n = n_token - at < b->o->chunk ? n_token - at : b->o->chunk;
        for (int i = 0; i < n; i++) {
            b->token[i] = token_at(b, at + i);
            b->seq[i] = seq;
        }
        give_adapters(b, n, false);
        MR_TRY(step(b, n, false));
        at += n;
    }
    return MR_OK;
}

/* A prompt in a sequence of its own. */
static enum mr_status run_prefill(struct bench *b, const struct bench_result *c, double *seconds)
{
    kv_seq seq;
    if (kv_seq_open(b->cache, &seq) != MR_OK)
        return mr_fail(b->err, MR_FULL, "no sequence is free");
    const int64_t begin = clock_us();
    const enum mr_status status = prefill(b, seq, c->n_tokens);
    *seconds = (double)(clock_us() - begin) * 1e-6;
    kv_seq_close(b->cache, seq);
    return status;
}

static float best_of(const float *x, int n)
{
    float lane[LANES];
    for (int j = 0; j < LANES; j++)
        lane[j] = x[0];
    int i = 0;
    for (; i + LANES <= n; i += LANES) /* lanes of their own, so that the compiler uses vectors */
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (int j = 1; j < LANES; j++)
        lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
    return lane[0];
}

static int32_t best_token(const float *logits, int n)
{
    int block = 0;
    float best = best_of(logits, n < PICK_BLOCK ? n : PICK_BLOCK);
    for (int i = PICK_BLOCK; i < n; i += PICK_BLOCK) {
        const float x = best_of(logits + i, n - i < PICK_BLOCK ? n - i : PICK_BLOCK);
        block = x > best ? i : block;
        best = x > best ? x : best;
    }
    while (block + 1 < n && logits[block] != best)
        block++;
    return block;
}

static enum mr_status decode_steps(struct bench *b, int batch, int n_step)
{
    for (int i = 0; i < batch; i++)
        b->token[i] = token_at(b, i);
    give_adapters(b, batch, true);
    for (int s = 0; s < n_step; s++) {
        MR_TRY(step(b, batch, true));
        for (int i = 0; i < batch; i++)
            b->token[i] = best_token(model_logits(b->model, i), b->info->n_vocab);
    }
    return MR_OK;
}

/* A sequence of `depth` tokens to copy from. It grows where it can: a longer one may have lost what a window left behind. */
static enum mr_status prepare_source(struct bench *b, int depth)
{
    if (b->has_source && kv_seq_length(b->cache, b->source) > depth) {
        kv_seq_close(b->cache, b->source);
        b->has_source = false;
    }
    if (!b->has_source && kv_seq_open(b->cache, &b->source) != MR_OK)
        return mr_fail(b->err, MR_FULL, "no sequence is free");
    b->has_source = true;
    return prefill(b, b->source, depth);
}

/* n_token tokens for each of the case's sequences, which begin as copies with blocks of their own, so that none reads what
 * another brought into a cache of the CPU. *seconds is the time of the steps alone. */
static enum mr_status run_decode(struct bench *b, const struct bench_result *c, double *seconds)
{
    const int depth = start_depth(c->depth);
    MR_TRY(prepare_source(b, depth));
    int n_open = 0;
    enum mr_status status = MR_OK;
    while (n_open < c->batch && (status = kv_seq_copy(b->cache, &b->seq[n_open], b->source, depth)) == MR_OK)
        n_open++;
    if (status != MR_OK)
        mr_fail(b->err, status, "no room for %d sequences of %d tokens", c->batch, depth);
    const int64_t begin = clock_us();
    if (status == MR_OK)
        status = decode_steps(b, c->batch, c->n_tokens);
    *seconds = (double)(clock_us() - begin) * 1e-6;
    while (n_open > 0)
        kv_seq_close(b->cache, b->seq[--n_open]);
    return status;
}

static enum mr_status run_case(struct bench *b, const struct bench_result *c, double *seconds)
{
    return c->test == BENCH_PREFILL ? run_prefill(b, c, seconds) : run_decode(b, c, seconds);
}

/* The work of one repetition, counted from the calls of one that serves as warm-up. */
static enum mr_status count_case(struct bench *b, const struct bench_result *c, struct op_work *work)
{
    double seconds;
    if (c->test == BENCH_DECODE) /* beforehand: only the steps are to be counted */
        MR_TRY(prepare_source(b, start_depth(c->depth)));
    op_profile_install(b->counter, b->device);
    const enum mr_status status = run_case(b, c, &seconds);
    op_profile_remove(b->counter);
    *work = b->counter->total;
    return status;
}

double bench_mfu(const struct op_work *work, double seconds, const struct limits *l)
{
    int most = PEAK_F32;
    double at_limit = 0;
    for (int i = 0; i < N_PEAK_TYPES; i++) {
        at_limit += work->ops[i] / limits_gops(l, (enum peak_type)i);
        most = work->ops[i] > work->ops[most] ? i : most;
    }
    at_limit += work->attention_ops / limits_gops(l, (enum peak_type)most);
    return at_limit * 1e-9 / seconds;
}

static enum mr_status profile_case(struct bench *b, struct bench_result *c)
{
    c->profile = malloc(sizeof *c->profile);
    if (c->profile == NULL)
        return mr_fail(b->err, MR_NO_MEMORY, "no memory for a profile");
    op_profile_install(c->profile, b->device);
    const enum mr_status status = run_case(b, c, &c->profile_seconds);
    op_profile_remove(c->profile);
    return status;
}

static enum mr_status measure_case(struct bench *b, struct bench_result *c)
{
    struct op_work work;
    MR_TRY(count_case(b, c, &work));
    const double n_token = (double)c->n_tokens * c->batch;
    for (int i = 0; i < b->o->repeat; i++) {
        double seconds;
        MR_TRY(run_case(b, c, &seconds));
        watch_sample(b->watch);
        b->sample[i] = n_token / seconds;
    }
    c->tok_s = spread_of(b->sample, b->o->repeat);
    const double seconds = n_token / c->tok_s.median;
    c->gops = op_work_ops(&work) / seconds * 1e-9;
    c->gb_s = (work.weight_bytes + work.kv_bytes) / seconds * 1e-9;
    c->mfu = bench_mfu(&work, seconds, b->limits);
    c->mbu = c->gb_s / b->limits->read_gb_s;
    return b->o->profile ? profile_case(b, c) : MR_OK;
}

static enum mr_status bench_init(struct bench *b)
{
    const int batch = bench_max_batch(b->o), max_rows = b->o->chunk > batch ? b->o->chunk : batch;
    const size_t n = (size_t)max_rows;
    b->token = mem_array(n, sizeof *b->token);
    b->seq = mem_array(n, sizeof *b->seq);
    b->wants = mem_array(n, sizeof *b->wants);
    if (b->bench_model->n_adapter > 0)
        b->adapter = mem_array(n, sizeof(struct adapter_set *));
    b->sample = mem_array((size_t)b->o->repeat, sizeof *b->sample);
    b->counter = malloc(sizeof *b->counter);
    if (b->token == NULL || b->seq == NULL || b->wants == NULL || b->sample == NULL || b->counter == NULL ||
        (b->bench_model->n_adapter > 0 && b->adapter == NULL))
        return mr_fail(b->err, MR_NO_MEMORY, "no memory for batches of %d rows", max_rows);
    const int n_seq = bench_max_sequences(b->o), n_token = bench_max_tokens(b->o);
    MR_TRY(model_kv_create(&b->kv, b->model, n_seq, n_token, (int64_t)n_seq * n_token, b->err));
    b->cache = model_kv_cache(b->kv);
    return MR_OK;
}

static void bench_release(struct bench *b)
{
    model_kv_free(b->kv);
    free(b->token);
    free(b->seq);
    free(b->wants);
    free(b->adapter);
    free(b->sample);
    free(b->counter);
}

/* The cases in the order in which they run: depths outside, so that the copied sequence only grows. */
static enum mr_status list_cases(struct bench_report *out, const struct bench_options *o, struct mr_error *err)
{
    out->result = mem_zero_array(1 + (size_t)o->depth.n * (size_t)o->batch.n, sizeof *out->result);
    if (out->result == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the results");
    if (o->prompt > 0)
        out->result[out->n_result++] = (struct bench_result){.test = BENCH_PREFILL, .batch = 1, .n_tokens = o->prompt};
    for (int d = 0; o->gen > 0 && d < o->depth.n; d++)
        for (int i = 0; i < o->batch.n; i++)
            out->result[out->n_result++] = (struct bench_result){
                .test = BENCH_DECODE, .batch = o->batch.value[i], .n_tokens = o->gen, .depth = o->depth.value[d]};
    return MR_OK;
}

enum mr_status bench_run(struct bench_report *out, const struct bench_model *m, const struct limits *limits,
                         const struct bench_options *o, struct machine_watch *watch, bench_case_fn *each, void *context,
                         struct mr_error *err)
{
    struct bench b = {.o = o, .limits = limits, .watch = watch, .bench_model = m, .err = err};
    b.model = m->model;
    b.info = model_info(m->model);
    b.device = m->device;
    *out = (struct bench_report){0};
    enum mr_status status = list_cases(out, o, err);
    if (status == MR_OK)
        status = bench_init(&b);
    const int n_case = out->n_result;
    for (out->n_result = 0; status == MR_OK && out->n_result < n_case;) {
        struct bench_result *c = &out->result[out->n_result];
        each(context, c, false);
        status = measure_case(&b, c);
        if (status != MR_OK) {
            free(c->profile);
            break;
        }
        out->n_result++;
        each(context, c, true);
    }
    bench_release(&b);
    return status;
}

void bench_report_release(struct bench_report *r)
{
    for (int i = 0; i < r->n_result; i++)
        free(r->result[i].profile);
    free(r->result);
    *r = (struct bench_report){0};
}
