/* test_draft_distribution.c: tokens that were drafts, and those behind rejected ones, are distributed as the model says: a
 * chi-squared test at several temperatures and top_p, on logits that are known. */
#include "unit/engine/simulated_engine.h"

enum {
    FIRST = END_TOKEN + 1,
    N_SYMBOL = 20, /* tokens that the model may say, from there on */
    N_REQUEST = 40,
    N_ANSWER = 200
};

static float logits[N_VOCAB];

static int set_up_logits(void **state)
{
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] = i >= FIRST && i < FIRST + N_SYMBOL ? -0.25F * (float)(i - FIRST) : -80;
    return set_up(state);
}

/* Nearly the likeliest tokens, one after the other. */
static int propose(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    (void)context;
    for (int i = 0; i < n_max; i++)
        out[i] = FIRST + (view->n_token + i) % 3;
    return n_max;
}

static const struct drafter drafter = {.propose = propose, .always = true};

/* top_p keeps the likeliest tokens that have so much together, before the temperature (docs/sampling.md). */
static void expect(double p[N_SYMBOL], double temperature, double top_p)
{
    double sum = 0, before = 0, all = 0;
    for (int i = 0; i < N_SYMBOL; i++)
        all += exp((double)logits[FIRST + i]);
    for (int i = 0; i < N_SYMBOL; i++) {
        p[i] = before < top_p * all ? exp((double)logits[FIRST + i] / temperature) : 0;
        before += exp((double)logits[FIRST + i]);
        sum += p[i];
    }
    for (int i = 0; i < N_SYMBOL; i++)
        p[i] /= sum;
}

static void count_tokens(struct mr_engine *e, int count[N_SYMBOL])
{
    for (struct mr_event event; mr_engine_next_event(e, &event);)
        if (event.token >= 0) {
            assert_in_range(event.token, FIRST, FIRST + N_SYMBOL - 1);
            count[event.token - FIRST]++;
        }
}

static void assert_distributed(float temperature, float top_p, enum mr_speculation method, bool has_guest)
{
    int32_t prompt[8];
    int count[N_SYMBOL] = {0}, n_class = 0;
    struct mr_options o;
    struct mr_engine_stats stats;
    mr_options_defaults(&o);
    o.n_ctx = 256;
    o.max_running = 4;
    o.speculation = (int32_t)method;
    machine = (struct machine){.step = 20000, .decode = 1000, .prompt = 100, .draft = 1000, .logits = logits};
    struct mr_engine *e = simulated_engine(o);
    if (has_guest)
        engine_set_drafter(e, &drafter);
    for (int i = 0; i < N_REQUEST; i++) {
        struct mr_request r = simulated_request(prompt, 8, N_ANSWER, i);
        r.sampling.temperature = temperature;
        r.sampling.top_p = top_p;
        r.sampling.top_k = 0;
        r.sampling.min_p = 0;
        r.sampling.seed = (uint64_t)i;
        submit(e, &r);
    }
    for (; !mr_engine_is_idle(e); count_tokens(e, count))
        mr_engine_step(e);
    mr_engine_get_stats(e, &stats);
    mr_engine_free(e);
    double p[N_SYMBOL], sum = 0;
    expect(p, (double)temperature, (double)top_p);
    for (int i = 0; i < N_SYMBOL; i++) {
        const double expected = p[i] * N_REQUEST * N_ANSWER, off = count[i] - expected;
        if (p[i] == 0)
            assert_int_equal(count[i], 0);
        else if (expected >= 5)
            sum += off * off / expected, n_class++;
    }
    const double freedom = n_class - 1;
    print_message("temperature %.1f, top_p %.1f: chi squared %.1f of %d classes; %lld of %lld drafts stayed\n",
                  (double)temperature, (double)top_p, sum, n_class, (long long)stats.n_drafts_accepted,
                  (long long)stats.n_draft_rows);
    assert_true(sum < freedom + 3.5 * sqrt(2 * freedom)); /* one in some thousands is further away */
    assert_true(stats.n_drafts_accepted > 5);
}

static void drafts_do_not_change_the_distribution(void **state)
{
    (void)state;
    static const float temperature[] = {0.5F, 0.8F, 1, 1.7F}, top_p[] = {1, 0.8F, 0.4F};
    for (size_t t = 0; t < sizeof temperature / sizeof *temperature; t++)
        for (size_t k = 0; k < sizeof top_p / sizeof *top_p; k++) {
            assert_distributed(temperature[t], top_p[k], MR_SPECULATION_NGRAM, true);
            assert_distributed(temperature[t], top_p[k], MR_SPECULATION_NGRAM, false);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drafts_do_not_change_the_distribution)};
    return cmocka_run_group_tests(tests, set_up_logits, tear_down);
}
