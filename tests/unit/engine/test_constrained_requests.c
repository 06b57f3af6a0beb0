/* test_constrained_requests.c: answers under a constraint, alone and in a batch beside free ones. */
#include <math.h>

#include "unit/engine/engine_fixture.h"

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

static const int32_t prompt[] = {'O', 'n', 'e', ' ', 't', 'w', 'o'};

static struct mr_request request(enum mr_constraint kind, const char *text, uint64_t seed)
{
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = sizeof prompt / sizeof *prompt;
    r.max_tokens = 60;
    r.sampling.seed = seed;
    r.sampling.temperature = 1.5f;
    r.constraint = kind;
    r.constraint_text = text;
    return r;
}

static void answers_obey(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    for (uint64_t seed = 0; seed < 10; seed++) {
        const struct mr_request r = request(MR_CONSTRAINT_REGEX, "ab{2,4}(c|d)", seed);
        struct outcome o = {.id = submit(e, &r)};
        run_to_end(e, &o, 1);
        assert_int_equal(o.finish, MR_FINISH_STOP);
        assert_int_equal(o.token[o.n_token - 1], END_TOKEN);
        assert_in_range(o.n_text, 4, 6);
        assert_memory_equal(o.text, "abb", 3);
        assert_true(o.text[o.n_text - 1] == 'c' || o.text[o.n_text - 1] == 'd');
    }
    mr_engine_free(e);
}

static void an_answer_is_the_same_beside_others(void **state)
{
    (void)state;
    enum {
        N = 6
    };
    static struct outcome alone[N], together[N];
    const struct mr_request r[N] = {
        request(MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":3}", 1),
        request(MR_CONSTRAINT_NONE, NULL, 2),
        request(MR_CONSTRAINT_JSON_OBJECT, NULL, 3),
        request(MR_CONSTRAINT_GRAMMAR, "root ::= [a-c]{5,30}", 4),
        request(MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":3}", 5),
        request(MR_CONSTRAINT_REGEX, "[x-z]+", 6),
    };
    for (int i = 0; i < N; i++) {
        struct mr_engine *e = fixture_engine(model, 1, 64, 256);
        alone[i] = (struct outcome){.id = submit(e, &r[i])};
        run_to_end(e, &alone[i], 1);
        mr_engine_free(e);
    }
    struct mr_engine *e = fixture_engine(model, 4, 64, 256);
    for (int i = 0; i < N; i++)
        together[i] = (struct outcome){.id = submit(e, &r[i])};
    run_to_end(e, together, N);
    mr_engine_free(e);
    for (int i = 0; i < N; i++) {
        assert_int_equal(alone[i].n_token, together[i].n_token);
        assert_memory_equal(alone[i].token, together[i].token, (size_t)alone[i].n_token * sizeof *alone[i].token);
        assert_int_equal(alone[i].finish, together[i].finish);
    }
}

static void an_answer_that_is_cut_says_length(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    struct mr_request r = request(MR_CONSTRAINT_REGEX, "a{100}", 1);
    struct outcome o = {.id = submit(e, &r)};
    run_to_end(e, &o, 1);
    assert_int_equal(o.finish, MR_FINISH_LENGTH);
    assert_int_equal(o.n_text, 60);
    mr_engine_free(e);
}

static void fields_that_are_wrong_are_refused_at_once(void **state)
{
    (void)state;
    static const struct {
        enum mr_constraint kind;
        const char *text, *word;
    } wrong[] = {{MR_CONSTRAINT_GRAMMAR, NULL, "constraint_text"}, {(enum mr_constraint)99, "", "99"}};
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    struct mr_error err;
    uint64_t id;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct mr_request r = request(wrong[i].kind, wrong[i].text, 1);
        assert_int_not_equal(mr_engine_submit(e, &r, &id, &err), MR_OK);
        assert_non_null(strstr(err.message, wrong[i].word));
    }
    struct mr_request r = request(MR_CONSTRAINT_REGEX, "a", 1);
    r.ignore_eos = true;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "ignore_eos"));
    assert_true(mr_engine_is_idle(e));
    mr_engine_free(e);
}

static void what_cannot_be_enforced_ends_before_any_token(void **state)
{
    (void)state;
    static const struct {
        enum mr_constraint kind;
        const char *text, *word;
        enum mr_status status;
    } wrong[] = {{MR_CONSTRAINT_REGEX, "a**", "repeat", MR_BAD_INPUT},
                 {MR_CONSTRAINT_REGEX, "(?=a)b", "look", MR_NO_SUPPORT},
                 {MR_CONSTRAINT_JSON_SCHEMA, "{\"contains\":{}}", "contains", MR_NO_SUPPORT},
                 {MR_CONSTRAINT_GRAMMAR, "root ::= x", "not defined", MR_BAD_INPUT}};
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct mr_request r = request(wrong[i].kind, wrong[i].text, 1);
        r.n = 2;
        const uint64_t id = submit(e, &r);
        while (!mr_engine_is_idle(e))
            mr_engine_step(e);
        for (int k = 0; k < 2; k++) {
            struct mr_event event;
            assert_true(mr_engine_next_event(e, &event));
            assert_true(event.request == id && event.sample == k && event.token == -1);
            assert_int_equal(event.finish, MR_FINISH_ERROR);
            assert_int_equal(event.status, wrong[i].status);
            assert_non_null(strstr(event.error, wrong[i].word));
        }
    }
    mr_engine_free(e);
}

/* A pattern that takes its time: an automaton of 2^12 states. */
static const char slow_pattern[] = "(a|b)*a(a|b){11}";

static void others_go_on_while_a_constraint_is_compiled(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 2, 64, 256);
    const struct mr_request slow = request(MR_CONSTRAINT_REGEX, slow_pattern, 1),
                            free_one = request(MR_CONSTRAINT_NONE, NULL, 2);
    struct outcome o[2] = {{.id = submit(e, &slow)}, {.id = submit(e, &free_one)}};
    mr_engine_step(e);
    take_events(e, o, 2);
    assert_int_equal(o[1].n_token, 1); /* in the first step, though it came later */
    run_to_end(e, o, 2);
    assert_true(o[0].n_token > 11);
    for (size_t i = 0; i < o[0].n_text; i++)
        assert_true(o[0].text[i] == 'a' || o[0].text[i] == 'b');
    mr_engine_free(e);
}

static void a_request_can_be_cancelled_while_its_constraint_is_compiled(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 2, 64, 256);
    struct outcome o[4];
    char text[4][40];
    for (int i = 0; i < 4; i++) {
        snprintf(text[i], sizeof text[i], "%s{%d}", slow_pattern, i + 1);
        const struct mr_request r = request(MR_CONSTRAINT_REGEX, i < 3 ? text[i] : "ab", 1);
        o[i] = (struct outcome){.id = submit(e, &r)};
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(mr_engine_cancel(e, o[i].id), MR_OK);
    run_to_end(e, o, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(o[i].finish, MR_FINISH_CANCELLED);
    assert_int_equal(o[3].finish, MR_FINISH_STOP);
    const struct mr_request again = request(MR_CONSTRAINT_REGEX, text[0], 1);
    submit(e, &again);
    mr_engine_free(e); /* while it is compiled */
}

static void a_bias_against_all_that_is_allowed_ends_one_request_alone(void **state)
{
    (void)state;
    static const struct mr_logit_bias bias[] = {{'a', -INFINITY}};
    struct mr_engine *e = fixture_engine(model, 2, 64, 256);
    struct mr_request r = request(MR_CONSTRAINT_REGEX, "a+", 1), other = request(MR_CONSTRAINT_REGEX, "b{4}", 1);
    r.bias = bias;
    r.n_bias = 1;
    struct outcome o[2] = {{.id = submit(e, &r)}, {.id = submit(e, &other)}};
    run_to_end(e, o, 2);
    assert_int_equal(o[0].finish, MR_FINISH_ERROR);
    assert_int_equal(o[1].finish, MR_FINISH_STOP);
    assert_memory_equal(o[1].text, "bbbb", 4);
    mr_engine_free(e);
}

static void many_constraints_come_and_go(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 2, 64, 256);
    for (int i = 0; i < 40; i++) {
        char text[16];
        snprintf(text, sizeof text, "a{%d}", 1 + i % 25);
        const struct mr_request r = request(MR_CONSTRAINT_REGEX, text, 1);
        struct outcome o = {.id = submit(e, &r)};
        run_to_end(e, &o, 1);
        assert_int_equal(o.n_text, 1 + i % 25);
    }
    const struct mr_request r = request(MR_CONSTRAINT_REGEX, "a{50}", 1);
    submit(e, &r);
    mr_engine_step(e);
    mr_engine_free(e); /* while one runs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_obey),
        cmocka_unit_test(an_answer_is_the_same_beside_others),
        cmocka_unit_test(an_answer_that_is_cut_says_length),
        cmocka_unit_test(fields_that_are_wrong_are_refused_at_once),
        cmocka_unit_test(what_cannot_be_enforced_ends_before_any_token),
        cmocka_unit_test(others_go_on_while_a_constraint_is_compiled),
        cmocka_unit_test(a_request_can_be_cancelled_while_its_constraint_is_compiled),
        cmocka_unit_test(a_bias_against_all_that_is_allowed_ends_one_request_alone),
        cmocka_unit_test(many_constraints_come_and_go),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
