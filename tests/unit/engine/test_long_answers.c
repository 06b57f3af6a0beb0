/* test_long_answers.c: what a token costs beside its forward pass does not grow with the answer. The forward pass is left out.
 */
#include <time.h>

#include "unit/engine/simulated_engine.h"

/* CPU seconds of an answer of n equal tokens; the best of three. */
static double seconds(int n, int n_stop)
{
    static int32_t prompt[64];
    static char stop[4][201];
    const char *stops[4];
    double best = 1e9;
    for (int i = 0; i < 4; i++) { /* near misses: what comes, two hundred times but for the last */
        memset(stop[i], 1, 199);
        stop[i][199] = (char)('b' + i);
        stops[i] = stop[i];
    }
    for (int round = 0; round < 3; round++) {
        struct mr_options o;
        mr_options_defaults(&o);
        o.n_ctx = n + 64;
        machine = (struct machine){.step = 1000};
        struct mr_engine *e = simulated_engine(o);
        struct mr_request r = simulated_request(prompt, 20, n, 1);
        r.stop = stops;
        r.n_stop = n_stop;
        submit(e, &r);
        const clock_t begin = clock();
        int n_token = 0;
        for (struct mr_event event; !mr_engine_is_idle(e);) {
            mr_engine_step(e);
            while (mr_engine_next_event(e, &event))
                n_token += event.token >= 0;
        }
        const double s = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = s < best ? s : best;
        assert_int_equal(n_token, n);
        mr_engine_free(e);
    }
    return best;
}

static void time_grows_with_the_length_only(void **state)
{
    (void)state;
    for (int n_stop = 0; n_stop <= 4; n_stop += 2) {
        const double shorter = seconds(4000, n_stop), longer = seconds(16000, n_stop);
        if (longer > 4 * 2.5 * shorter) /* searching the whole text again would make it sixteen times as long */
            fail_msg("%d stop strings: %.4f s for 4000 tokens, %.4f s for 16000", n_stop, shorter, longer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_grows_with_the_length_only)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
