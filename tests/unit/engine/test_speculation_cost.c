/* test_speculation_cost.c: what speculation takes and brings on simulated machines, against the plain run on the same one. */
#include "unit/engine/simulated_engine.h"

enum {
    N_PROMPT = 40,
    N_ANSWER = 200,
    ROUNDS = 10 /* of requests, one after the other */
};

static void drop_events(struct mr_engine *e)
{
    struct mr_event event;
    while (mr_engine_next_event(e, &event))
        ;
}

/* Microseconds that rounds of n answers at a time took. */
static int64_t time_of(struct machine m, int n, enum mr_speculation method)
{
    int32_t prompt[N_PROMPT];
    struct mr_options o;
    mr_options_defaults(&o);
    o.max_running = n;
    o.n_ctx = 256;
    o.speculation = (int32_t)method;
    o.admission = false;
    o.prefix_cache = false;
    machine = m;
    struct mr_engine *e = simulated_engine(o);
    const int64_t begin = machine.now;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++) {
            const struct mr_request r = simulated_request(prompt, N_PROMPT, N_ANSWER, round * n + i);
            submit(e, &r);
        }
        for (; !mr_engine_is_idle(e); drop_events(e))
            mr_engine_step(e);
    }
    const int64_t end = machine.now;
    mr_engine_free(e);
    return end - begin;
}

/* A step that reads all weights, and rows that cost from a twentieth of it to as much as without a batch. */
static const struct machine machines[] = {
    {.step = 20000, .decode = 1000, .prompt = 500, .draft = 1000, .sigma = 0.05, .seed = 1},
    {.step = 20000, .decode = 6000, .prompt = 5000, .draft = 6000, .sigma = 0.05, .seed = 2},
    {.step = 5000, .decode = 15000, .prompt = 12000, .draft = 15000, .sigma = 0.05, .seed = 3},
    {.step = 1000, .decode = 20000, .prompt = 20000, .draft = 25000, .sigma = 0.05, .seed = 4},
};
static const int batches[] = {1, 4, 16};

static void what_nobody_can_guess_costs_less_than_two_percent(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (size_t k = 0; k < sizeof batches / sizeof *batches; k++)
            for (int n_symbols = 12; n_symbols <= 250; n_symbols += 119) {
                struct machine m = machines[i];
                m.n_symbols = n_symbols;
                const double plain = (double)time_of(m, batches[k], MR_SPECULATION_OFF);
                const double with = (double)time_of(m, batches[k], MR_SPECULATION_AUTO);
                print_message("machine %zu, %d answers, %d symbols: %.4f\n", i, batches[k], n_symbols, with / plain);
                assert_true(with < 1.02 * plain);
            }
}

static void what_repeats_is_never_slower_and_faster_where_rows_are_cheap(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
            const double plain = (double)time_of(machines[i], batches[k], MR_SPECULATION_OFF);
            const double with = (double)time_of(machines[i], batches[k], MR_SPECULATION_AUTO);
            print_message("machine %zu, %d answers: %.4f\n", i, batches[k], with / plain);
            assert_true(with < 1.02 * plain);
            assert_true(i > 0 || k > 0 || with * 4 < plain);
        }
}

/* Questions that differ, with short answers of many lengths, asked by 32 clients each of whom asks again at once. */
enum {
    CLIENTS = 32,
    QUESTIONS = 300,
    SHORT = 64
};

static int64_t time_of_load(struct machine m, enum mr_speculation method, struct mr_engine_stats *stats)
{
    int32_t prompt[256];
    struct mr_options o;
    mr_options_defaults(&o);
    o.max_running = CLIENTS;
    o.n_ctx = 512;
    o.speculation = (int32_t)method;
    o.admission = false;
    machine = m;
    struct mr_engine *e = simulated_engine(o);
    const int64_t begin = machine.now;
    struct mr_event event;
    int n_asked = 0, n_open = 0;
    while (n_asked < QUESTIONS || n_open > 0) {
        for (; n_open < CLIENTS && n_asked < QUESTIONS; n_open++, n_asked++) {
            const struct mr_request r = simulated_request(prompt, 10 + n_asked * 37 % 200, SHORT, n_asked);
            submit(e, &r);
        }
        mr_engine_step(e);
        while (mr_engine_next_event(e, &event))
            n_open -= event.finish != MR_FINISH_NONE;
    }
    const int64_t end = machine.now;
    *stats = e->stats;
    mr_engine_free(e);
    return end - begin;
}

/* What the machine does in its steps and rows, in microseconds without the steps' scatter. */
static double work_of(const struct machine *m, const struct mr_engine_stats *s)
{
    return m->step * (double)s->n_steps + m->decode * (double)s->n_decode_rows + m->prompt * (double)s->n_prompt_rows +
           m->draft * (double)s->n_draft_rows;
}

static void short_answers_under_load_cost_less_than_two_percent(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (int n_symbols = 4; n_symbols <= 64; n_symbols *= 2) {
            struct machine m = machines[i];
            struct mr_engine_stats off, on;
            m.n_symbols = n_symbols;
            m.sigma = 0.15;
            const double plain = (double)time_of_load(m, MR_SPECULATION_OFF, &off);
            const double with = (double)time_of_load(m, MR_SPECULATION_AUTO, &on);
            const double extra = work_of(&m, &on) / work_of(&m, &off);
            print_message("machine %zu, %d symbols: work %.4f, time %.4f, %lld drafts, %lld right\n", i, n_symbols, extra,
                          with / plain, (long long)on.n_draft_rows, (long long)on.n_drafts_accepted);
            assert_true(extra < 1.02);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_answers_under_load_cost_less_than_two_percent),
        cmocka_unit_test(what_nobody_can_guess_costs_less_than_two_percent),
        cmocka_unit_test(what_repeats_is_never_slower_and_faster_where_rows_are_cheap),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
