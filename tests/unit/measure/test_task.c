/* test_task.c: tasks as lm-eval writes them, and what is right. */
#include "unit/engine/engine_fixture.h"

#include <math.h>

#include "measure/continuation.h"
#include "measure/task.h"

static struct mr_model *model;

static int set_up(void **state)
{
    (void)state;
    model = fixture_model(2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

static void both_forms_of_arguments_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"target\": \"1\", \"arguments\": [[\"q\", \" a\"], [\"q\", \" b\"]], \"filter\": \"none\"}\n\n"
        "{\"target\": \"b\", \"arguments\": {\"gen_args_0\": {\"arg_0\": \"q\", \"arg_1\": \" a\"}, "
        "\"gen_args_1\": {\"arg_0\": \"q\", \"arg_1\": \" b\"}}}\n"
        "{\"target\": 0, \"arguments\": [[\"q\", \" a\"], [\"q\", \" b\"]], \"filter\": \"other\"}\n"
        "{\"target\": \"42\", \"arguments\": [[\"q\", {\"until\": [\"\\n\", \"\"], \"max_gen_toks\": 7}]]}";
    struct task t;
    struct mr_error err = {{0}};
    check(task_read(&t, text, sizeof text - 1, &err), &err);
    assert_int_equal(t.n, 3); /* that of another filter is the first one again */
    assert_int_equal(t.item[0].gold, 1);
    assert_int_equal(t.item[1].gold, 1);
    assert_string_equal(t.item[1].choice[1].continuation, " b");
    assert_int_equal(t.item[2].max_tokens, 7);
    assert_int_equal(t.item[2].n_until, 1);
    assert_string_equal(t.item[2].target, "42");
    task_release(&t);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
    } cases[] = {{"", "no task"},
                 {"\n{", "line 2"},
                 {"[]", "'arguments'"},
                 {"{\"arguments\": []}", "'arguments'"},
                 {"{\"arguments\": [[1, 2]]}", "entry 0"},
                 {"{\"arguments\": [[\"a\", \"\"], [\"a\", \"b\"]]}", "entry 0"},
                 {"{\"arguments\": [[\"a\", \"b\"], [\"a\", \"c\"]], \"target\": 2}", "'target'"},
                 {"{\"arguments\": [[\"a\", \"b\"], [\"a\", \"c\"]], \"target\": \"-1\"}", "'target'"},
                 {"{\"arguments\": [[\"a\", \"b\"], [\"a\", \"c\"]]}", "'target'"},
                 {"{\"arguments\": [[\"a\", {}]], \"target\": 1}", "'target'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct task t;
        struct mr_error err;
        assert_int_equal(task_read(&t, cases[i].text, strlen(cases[i].text), &err), MR_BAD_FORMAT);
        if (strstr(err.message, cases[i].word) == NULL)
            fail_msg("%s", err.message);
        assert_int_equal(t.n, 0);
    }
}

/* One scorer over many pairs gives the bits of a scorer for each. */
static void what_is_shared_changes_no_bit(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"the mill ", "stands"}, {"the mill", " stood there"}, {"the m", "oor"},
                                           {"another", " one"},     {"the mill", " stands"},      {"", "x y"}};
    struct continuation_scorer *shared, *own;
    struct continuation_score a, b;
    struct mr_error err = {{0}};
    check(continuation_scorer_create(&shared, model, 64, &err), &err);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        check(continuation_score(&a, shared, pairs[i][0], pairs[i][1], &err), &err);
        check(continuation_scorer_create(&own, model, 64, &err), &err);
        check(continuation_score(&b, own, pairs[i][0], pairs[i][1], &err), &err);
        continuation_scorer_free(own);
        assert_true(a.log_p == b.log_p && a.n_token == b.n_token && a.is_greedy == b.is_greedy);
        assert_true(a.log_p < 0);
    }
    assert_int_equal(a.n_token, 3);
    check(continuation_score(&a, shared, "the mill ", "stands", &err), &err); /* the blank belongs to the continuation */
    assert_int_equal(a.n_token, 7);
    continuation_scorer_free(shared);
}

static void a_long_context_loses_its_beginning(void **state)
{
    (void)state;
    char context[201];
    struct continuation_scorer *s;
    struct continuation_score a, b;
    struct mr_error err = {{0}};
    memset(context, 'c', 200);
    context[200] = '\0';
    check(continuation_scorer_create(&s, model, 16, &err), &err);
    check(continuation_score(&a, s, context, "x", &err), &err);
    check(continuation_score(&b, s, context + 200 - 16, "x", &err), &err);
    assert_true(a.log_p == b.log_p);
    assert_int_equal(continuation_score(&a, s, "c", context, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "too long"));
    continuation_scorer_free(s);
}

static void rates_have_intervals(void **state)
{
    (void)state;
    const struct task_rate half = task_rate_of(50, 100), none = task_rate_of(0, 10), nothing = task_rate_of(0, 0);
    assert_true(fabs(half.error - 0.050252) < 1e-5); /* sqrt(p (1 - p) / (n - 1)) */
    assert_true(fabs(half.low - 0.4038) < 1e-4 && fabs(half.high - 0.5962) < 1e-4);
    assert_true(none.rate == 0 && fabs(none.low) < 1e-12 && fabs(none.high - 0.2775) < 1e-4);
    assert_true(nothing.high == 0);
}

/* What the engine answers greedily is the right answer to one item, and wrong for another. */
static void answers_are_compared(void **state)
{
    (void)state;
    static const char text[] = "{\"arguments\": [[\"abc\", {\"max_gen_toks\": 4}]], \"target\": \"no such answer\"}\n"
                               "{\"arguments\": [[\"abc\", {\"max_gen_toks\": 1}]], \"target\": \"\"}";
    struct task t;
    struct task_result r;
    struct mr_error err = {{0}};
    const struct task_options options = {.n_ctx = 64};
    struct mr_engine *engine = fixture_engine(model, 1, 8, 64);
    struct mr_request request;
    struct outcome o = {0};
    const int32_t prompt[] = {'a', 'b', 'c'};
    mr_request_defaults(&request);
    request.prompt = prompt;
    request.n_prompt = 3;
    request.max_tokens = 1;
    request.sampling.temperature = 0;
    o.id = submit(engine, &request);
    run_to_end(engine, &o, 1);
    mr_engine_free(engine);
    check(task_read(&t, text, sizeof text - 1, &err), &err);
    free(t.item[1].target);
    t.item[1].target = strndup(o.text, o.n_text);
    check(task_run(&r, &t, model, &options, &err), &err);
    assert_int_equal(r.n_generated_items, 2);
    assert_true(r.exact.rate == 0.5);
    task_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_of_arguments_are_read),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(what_is_shared_changes_no_bit),
        cmocka_unit_test(a_long_context_loses_its_beginning),
        cmocka_unit_test(rates_have_intervals),
        cmocka_unit_test(answers_are_compared),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
