/* tune.c: measures one thing after the other: each precision at growing batches, then, with the precision that is best, rows of
 * prompts in a step and threads. */
#include "measure/tune.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu_limit.h"
#include "measure/engine_load.h"
#include "measure/quality.h"
#include "model/model.h"

enum {
    CONTEXT = 512,
    MAX_RUNNING = 64,
    LONG_PROMPT = 448, /* for rows of a step */
    SHORT_PROMPT = 16, /* of answers that run together */
    ANSWER = 24,       /* tokens of each */
    MAX_CHUNK = 512
};

static const int batch_sizes[TUNE_BATCHES_MAX] = {1, 2, 4, 8, 16, 32, 64};
static const int chunk_sizes[TUNE_CHUNKS_MAX] = {32, 64, 128, 256, 512};
/* The most precise first: it is what the others are compared with. */
static const int precisions[] = {MR_PRECISION_FP32, MR_PRECISION_BF16, MR_PRECISION_FP16, MR_PRECISION_INT8, MR_PRECISION_INT4};

/* Something not worse than this share of the best counts as good where it has another advantage. */
static const double almost = 0.97;

static const char built_in_text[] =
    "A mill stands where a river falls. The water is led from a pond above the weir along a narrow channel, the race, and over "
    "the wheel, whose buckets fill, sink and empty themselves again. A shaft carries the slow turning into the house; wooden "
    "cogs make it faster, and two stones, one resting and one moving, grind what the farmers bring. In a dry summer the miller "
    "closes the gate at night and lets the pond rise; in spring he opens a second gate, so that the flood does not break the "
    "wheel. How much flour he makes in a day depends on the height of the fall, on the amount of water, and on nothing else. "
    "People have therefore counted mills to learn how rich a valley was: in 1086 the survey of England listed about six "
    "thousand of them. The formula is simple: power = density x gravity x height x flow, some of which is lost in the "
    "bearings. "
    "\"Never more water than the wheel can carry,\" the rule said, \"and never less than the stones need.\"";

struct tuner {
    const struct tune_options *o;
    struct tune_result *out;
    struct quality_reference reference;
    int64_t used_us; /* of measuring */
    int n_cpu;
};

static void tell(const struct tuner *t, const char *fmt, ...) MR_PRINTF(2, 3);
static void tell(const struct tuner *t, const char *fmt, ...)
{
    char line[256];
    va_list args;
    if (t->o->progress == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    t->o->progress(t->o->progress_context, line);
}

static double seconds_left(const struct tuner *t) { return t->o->seconds - (double)t->used_us * 1e-6; }

static bool load_on(void *context, size_t done, size_t total)
{
    const struct tuner *t = context;
    (void)done;
    (void)total;
    return t->o->stopped == NULL || !t->o->stopped();
}

static struct mr_options options_of(struct tuner *t, int precision, int n_thread)
{
    struct mr_options m;
    mr_options_defaults(&m);
    m.precision = precision;
    m.threads = n_thread;
    m.cpu = t->o->cpu;
    m.n_ctx = CONTEXT;
    m.prompt_chunk = MAX_CHUNK;
    m.max_running = MAX_RUNNING;
    m.kv_tokens = MAX_RUNNING * (SHORT_PROMPT + ANSWER + 2 * 16) + CONTEXT;
    m.itl_target_ms = 0;
    m.admission = false;
    m.prefix_cache = false;
    m.progress = load_on;
    m.progress_context = t;
    return m;
}

/* A load on an engine of its own: n answers at once. */
static enum mr_status load(struct engine_load_result *out, struct tuner *t, struct mr_model *model, const struct mr_options *m,
                           int n, int n_prompt, int n_answer, struct mr_error *err)
{
    struct mr_model_info info;
    struct mr_engine *engine;
    const struct engine_load l = {.n_request = n,
                                  .seed = 1,
                                  .prompt_tokens = n_prompt,
                                  .answer_tokens = n_answer,
                                  .n_warm = 1,
                                  .ttft_target_ms = t->o->latency_target_ms,
                                  .itl_target_ms = t->o->itl_target_ms,
                                  .stopped = t->o->stopped};
    const int64_t begin = clock_us();
    mr_model_info(model, &info);
    MR_TRY(mr_engine_create(&engine, model, m, err));
    const enum mr_status status = engine_load_run(out, engine, &info, &l, err);
    mr_engine_free(engine);
    t->used_us += clock_us() - begin;
    return status;
}

static bool is_within(const struct tuner *t, const struct tune_batch *b) { return b->itl_p99_ms <= t->o->itl_target_ms; }

/* Batches twice as large, until gaps pass the target or the time that is left would not do. */
static enum mr_status measure_batches(struct tuner *t, struct tune_precision *p, struct mr_model *model,
                                      const struct mr_options *m, double seconds, struct mr_error *err)
{
    struct engine_load_result r;
    const int64_t begin = t->used_us;
    for (int i = 0; i < TUNE_BATCHES_MAX && batch_sizes[i] > 0; i++) {
        const int64_t before = t->used_us;
        MR_TRY(load(&r, t, model, m, batch_sizes[i], SHORT_PROMPT, ANSWER, err));
        struct tune_batch *b = &p->batch[p->n_batch++];
        *b = (struct tune_batch){batch_sizes[i], batch_sizes[i] * 1e3 / (r.tpot.p50 > 0 ? r.tpot.p50 : 1), r.itl.p99};
        tell(t, "%s: %d at a time: %.0f tokens/s, P99 of gaps %.1f ms", p->name, b->n, b->tok_s, b->itl_p99_ms);
        if (is_within(t, b) && (p->best < 0 || b->tok_s > p->batch[p->best].tok_s))
            p->best = p->n_batch - 1;
        const double taken = (double)(t->used_us - before) * 1e-6, spent = (double)(t->used_us - begin) * 1e-6;
        if (!is_within(t, b) || spent + 2 * taken > seconds)
            break;
    }
    return MR_OK;
}

static enum mr_status measure_open(struct tuner *t, struct tune_precision *p, struct mr_model *model,
                                   const struct mr_options *m, double seconds, struct mr_error *err)
{
    struct quality q;
    struct engine_load_result r;
    struct mr_model_info info;
    const char *text = t->o->text != NULL ? t->o->text : built_in_text;
    const int64_t begin = clock_us();
    mr_model_info(model, &info);
    p->weight_bytes = info.weight_bytes;
    MR_TRY(quality_measure(&q, &t->reference, model, text, t->o->text != NULL ? t->o->n_text : sizeof built_in_text - 1, err));
    t->used_us += clock_us() - begin;
    p->perplexity = q.perplexity;
    p->kl = q.kl;
    MR_TRY(load(&r, t, model, m, 1, TUNE_PROMPT, 1, err));
    p->ttft_ms = r.ttft.p50;
    tell(t, "%s: KL %.4f, perplexity %.2f, first token behind %d tokens %.0f ms", p->name, p->kl, p->perplexity, TUNE_PROMPT,
         p->ttft_ms);
    MR_TRY(measure_batches(t, p, model, m, seconds, err));
    p->is_measured = true;
    return MR_OK;
}

static enum mr_status measure_precision(struct tuner *t, int precision, double seconds, struct mr_error *err)
{
    struct tune_precision *p = &t->out->precision[precision];
    const struct mr_options m = options_of(t, precision, t->n_cpu);
    struct mr_model *model;
    struct mr_error why = {{0}};
    *p = (struct tune_precision){.name = precision_name((enum precision)precision), .best = -1};
    enum mr_status status = mr_model_open(&model, t->o->model, &m, &why);
    if (status == MR_NO_MEMORY || status == MR_NO_SUPPORT) {
        snprintf(p->reason, sizeof p->reason, "%.120s", why.message);
        tell(t, "%s: left out: %s", p->name, p->reason);
        return MR_OK;
    }
    if (status != MR_OK)
        return mr_fail(err, status, "%s", why.message);
    status = measure_open(t, p, model, &m, seconds, err);
    mr_model_close(model);
    return status;
}

/* The more targets are kept the better; then the faster. */
static double worth(const struct tuner *t, const struct tune_precision *p)
{
    if (!p->is_measured || p->n_batch == 0)
        return -1;
    const double fast = p->batch[p->best >= 0 ? p->best : 0].tok_s;
    const int kept = (p->kl <= t->o->max_kl) * 2 + (p->best >= 0) + (p->ttft_ms <= t->o->latency_target_ms);
    return kept * 1e9 + fast;
}

static void choose_precision(struct tuner *t)
{
    struct tune_result *r = t->out;
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (r->chosen == MR_PRECISION_AUTO || worth(t, &r->precision[precisions[i]]) > worth(t, &r->precision[r->chosen]))
            r->chosen = precisions[i];
    const struct tune_precision *p = &r->precision[r->chosen];
    r->is_within = p->is_measured && p->best >= 0 && p->kl <= t->o->max_kl && p->ttft_ms <= t->o->latency_target_ms;
    r->max_batch_size = p->best >= 0 ? p->batch[p->best].n : 1;
    /* The smallest batch that is about as fast: its gaps are shorter. */
    for (int i = p->best - 1; i >= 0 && p->batch[i].tok_s >= almost * p->batch[p->best].tok_s; i--)
        r->max_batch_size = p->batch[i].n;
}

/* The first of them that is about as fast as the best. */
static int first_good(const struct tune_rate *rate, int n)
{
    double best = 0;
    int i = 0;
    for (int k = 0; k < n; k++)
        best = rate[k].tok_s > best ? rate[k].tok_s : best;
    while (i < n - 1 && rate[i].tok_s < almost * best)
        i++;
    return rate[i].n;
}

static enum mr_status measure_chunks(struct tuner *t, struct mr_model *model, struct mr_error *err)
{
    struct tune_result *out = t->out;
    struct engine_load_result r;
    struct mr_options m = options_of(t, out->chosen, t->n_cpu);
    for (int i = 0; i < TUNE_CHUNKS_MAX && chunk_sizes[i] > 0; i++) {
        m.prompt_chunk = chunk_sizes[i];
        MR_TRY(load(&r, t, model, &m, 1, LONG_PROMPT, 1, err));
        out->chunk[out->n_chunk++] = (struct tune_rate){chunk_sizes[i], LONG_PROMPT * 1e3 / r.ttft.p50};
        tell(t, "%d rows of a prompt in a step: %.0f tokens/s", chunk_sizes[i], out->chunk[i].tok_s);
    }
    out->prompt_chunk = first_good(out->chunk, out->n_chunk);
    return MR_OK;
}

static enum mr_status measure_thread_count(struct tuner *t, int n_thread, struct mr_error *err)
{
    struct tune_result *out = t->out;
    const struct mr_options m = options_of(t, out->chosen, n_thread);
    struct engine_load_result r;
    struct mr_model *model;
    MR_TRY(mr_model_open(&model, t->o->model, &m, err));
    enum mr_status status = load(&r, t, model, &m, out->max_batch_size, SHORT_PROMPT, ANSWER, err);
    if (status == MR_OK) {
        const double tok_s = out->max_batch_size * 1e3 / (r.tpot.p50 > 0 ? r.tpot.p50 : 1);
        out->threads[out->n_threads++] = (struct tune_rate){n_thread, tok_s};
        tell(t, "%d threads: %.0f tokens/s", n_thread, tok_s);
    }
    if (status == MR_OK && n_thread == t->n_cpu)
        status = measure_chunks(t, model, err);
    mr_model_close(model);
    return status;
}

static enum mr_status measure_threads(struct tuner *t, struct mr_error *err)
{
    struct tune_result *out = t->out;
    int n = 1;
    while (n * 2 < t->n_cpu)
        n *= 2;
    /* Half of the CPUs and all of them: fewer are only slower. */
    if (t->n_cpu > 1 && seconds_left(t) > 0)
        MR_TRY(measure_thread_count(t, n, err));
    MR_TRY(measure_thread_count(t, t->n_cpu, err));
    out->n_thread = first_good(out->threads, out->n_threads);
    return MR_OK;
}

static enum mr_status measure_all(struct tuner *t, struct mr_error *err)
{
    const int n = sizeof precisions / sizeof *precisions;
    const double share = 0.8 * t->o->seconds / n;
    for (int i = 0; i < n; i++) {
        MR_TRY(measure_precision(t, precisions[i], share, err));
        if (t->o->stopped != NULL && t->o->stopped())
            return mr_fail(err, MR_CANCELLED, "interrupted");
    }
    choose_precision(t);
    if (!t->out->precision[t->out->chosen].is_measured)
        return mr_fail(err, MR_NO_MEMORY, "no precision fits: %s", t->out->precision[MR_PRECISION_INT4].reason);
    return measure_threads(t, err);
}

enum mr_status tune_run(struct tune_result *out, const struct tune_options *options, struct mr_error *err)
{
    struct tuner t = {.o = options, .out = out, .n_cpu = cpu_limit()};
    *out = (struct tune_result){0};
    const enum mr_status status = measure_all(&t, err);
    quality_reference_release(&t.reference);
    return status;
}
