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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_can_guess_costs_less_than_two_percent),
        cmocka_unit_test(what_repeats_is_never_slower_and_faster_where_rows_are_cheap),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
