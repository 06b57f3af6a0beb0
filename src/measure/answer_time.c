/* answer_time.c: below the engine, as the benchmark's decode case. */
#include "measure/answer_time.h"

#include "base/clock.h"
#include "cache/kv_cache.h"
#include "measure/spread.h"

enum {
    ROUNDS_MAX = 64
};

struct timed {
    struct bench_model model;
    struct model_kv *kv;
};

static enum mr_status open_timed(struct timed *m, const char *path, const struct answer_timing *t, struct mr_error *err)
{
    const struct bench_model_options o = {.n_threads = t->n_threads,
                                          .cpu_features = t->cpu_features,
                                          .precision = t->precision,
                                          .max_row = 1,
                                          .max_logits = 1,
                                          .n_seq = 1,
                                          .max_token = t->n_token + 1};
    MR_TRY(bench_model_open(&m->model, path, &o, err));
    return model_kv_create(&m->kv, m->model.model, 1, o.max_token, o.max_token, err);
}

static void close_timed(struct timed *m)
{
    model_kv_free(m->kv);
    bench_model_release(&m->model);
}

/* Which tokens they are does not change the time. */
static enum mr_status answer(double *seconds, struct timed *m, int n_token, struct mr_error *err)
{
    struct kv_cache *cache = model_kv_cache(m->kv);
    kv_seq seq;
    int64_t begin = 0;
    enum mr_status status = MR_OK;
    if (kv_seq_open(cache, &seq) != MR_OK)
        return mr_fail(err, MR_FULL, "no sequence is free");
    for (int i = 0; i <= n_token && status == MR_OK; i++) {
        const int32_t token = (int32_t)((uint32_t)i * 7919u % (uint32_t)model_info(m->model.model)->n_vocab);
        const bool wants = true;
        const struct batch batch = {.n_row = 1, .token = &token, .seq = &seq, .wants_logits = &wants};
        begin = i == 1 ? clock_us() : begin;
        status = model_forward(m->model.model, m->kv, &batch, err);
    }
    *seconds = (double)(clock_us() - begin) * 1e-6;
    kv_seq_close(cache, seq);
    return status;
}

static enum mr_status take_turns(double *ratio, struct timed pair[2], const struct answer_timing *t, struct mr_error *err)
{
    double sample[ROUNDS_MAX], seconds[2];
    const int n_round = t->n_round < ROUNDS_MAX ? t->n_round : ROUNDS_MAX;
    for (int round = 0; round < n_round; round++) {
        for (int i = 0; i < 2; i++)
            MR_TRY(answer(&seconds[(i + round) % 2], &pair[(i + round) % 2], t->n_token, err));
        sample[round] = seconds[0] > 0 ? seconds[1] / seconds[0] : 1;
    }
    *ratio = spread_of(sample, n_round).median;
    return MR_OK;
}

enum mr_status answer_time_ratio(double *ratio, const char *base, const char *other, const struct answer_timing *t,
                                 struct mr_error *err)
{
    struct timed pair[2] = {{.kv = NULL}, {.kv = NULL}};
    enum mr_status status = open_timed(&pair[0], base, t, err);
    if (status == MR_OK)
        status = open_timed(&pair[1], other, t, err);
    if (status == MR_OK)
        status = take_turns(ratio, pair, t, err);
    close_timed(&pair[0]);
    close_timed(&pair[1]);
    return status;
}
