/* test_model_open.c: the progress of a load, and how to end it. */
#include "unit/engine/engine_fixture.h"

enum {
    MAX_CALLS = 100
};

static char path[] = "/tmp/millrace-open-XXXXXX";

struct progress {
    size_t done[MAX_CALLS], total;
    int n_calls, stop_at; /* the call that says no */
};

static bool on_progress(void *context, size_t done, size_t total)
{
    struct progress *p = context;
    assert_true(p->n_calls < MAX_CALLS);
    p->done[p->n_calls] = done;
    p->total = total;
    return p->n_calls++ != p->stop_at;
}

static enum mr_status open_model(struct mr_model **out, struct progress *p, int stop_at, struct mr_error *err)
{
    struct mr_options options;
    *p = (struct progress){.stop_at = stop_at};
    mr_options_defaults(&options);
    options.threads = 1;
    options.progress = on_progress;
    options.progress_context = p;
    return mr_model_open(out, path, &options, err);
}

static void progress_goes_from_nothing_to_all(void **state)
{
    (void)state;
    struct mr_error err = {{0}};
    struct mr_model *m;
    struct progress p;
    check(open_model(&m, &p, -1, &err), &err);
    mr_model_close(m);
    assert_true(p.n_calls > 2 && p.total > 100000);
    assert_int_equal(p.done[0], 0);
    assert_int_equal(p.done[p.n_calls - 1], p.total);
    for (int i = 1; i < p.n_calls; i++)
        assert_true(p.done[i - 1] < p.done[i]);
}

static void a_load_ends_wherever_progress_says_no(void **state)
{
    (void)state;
    struct mr_error err;
    struct mr_model *m;
    struct progress p;
    int n = 0;
    for (; open_model(&m, &p, n, &err) == MR_CANCELLED; n++) {
        assert_null(m);
        assert_int_equal(p.n_calls, n + 1);
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.message, "stopped while it was loaded"));
    }
    assert_int_equal(p.n_calls, n); /* the last one ran to its end */
    mr_model_close(m);
}

static void a_progress_that_is_not_there_stops_nothing(void **state)
{
    (void)state;
    mr_model_close(fixture_model(1));
}

static int set_up(void **state)
{
    (void)state;
    write_model(path, TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_goes_from_nothing_to_all),
        cmocka_unit_test(a_load_ends_wherever_progress_says_no),
        cmocka_unit_test(a_progress_that_is_not_there_stops_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
