/* test_answer_options.c: bad words, logprobs of prompts, the best of several answers, token healing. */
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

enum {
    N_PROMPT = 100
};
static int32_t prompt[N_PROMPT];

static struct mr_request request(uint64_t seed)
{
    struct mr_request r;
    mr_request_defaults(&r);
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = 'a' + i * 7 % 26;
    r.prompt = prompt;
    r.n_prompt = 20;
    r.max_tokens = 60;
    r.ignore_eos = true;
    r.sampling.seed = seed;
    r.sampling.temperature = 1;
    r.sampling.n_logprobs = 0;
    return r;
}

static void run_alone(const struct mr_request *r, struct outcome *o)
{
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
    mr_engine_free(e);
}

static void bad_words_are_never_part_of_an_answer(void **state)
{
    (void)state;
    static struct outcome plain, got;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct mr_request r = request(seed);
        run_alone(&r, &plain);
        const int32_t *second = &plain.token[plain.n_token / 2];
        char word[2][3] = {{(char)second[0], (char)second[1]}, {(char)plain.token[2], (char)plain.token[3]}};
        const char *const words[] = {word[0], word[1]};
        r.bad_word = words;
        r.n_bad_word = 2;
        run_alone(&r, &got);
        assert_int_equal(got.n_token, 60);
        assert_memory_equal(got.token, plain.token, 3 * sizeof *got.token); /* up to the end of the first word */
        assert_int_not_equal(got.token[3], plain.token[3]);
        for (int i = 0; i + 1 < got.n_token; i++)
            for (int k = 0; k < 2; k++)
                assert_false(got.token[i] == (unsigned char)word[k][0] && got.token[i + 1] == (unsigned char)word[k][1]);
    }
}

static void a_bad_word_that_a_constraint_demands_is_an_error(void **state)
{
    (void)state;
    static struct outcome o;
    static const char *const words[] = {"bc"};
    struct mr_request r = request(1);
    r.ignore_eos = false;
    r.constraint = MR_CONSTRAINT_REGEX;
    r.constraint_text = "abcd";
    r.bad_word = words;
    r.n_bad_word = 1;
    run_alone(&r, &o);
    assert_int_equal(o.finish, MR_FINISH_ERROR);
    assert_int_equal(o.n_token, 2);
}

static void options_that_are_wrong_are_refused(void **state)
{
    (void)state;
    static const char *const empty[] = {"ok", ""}, *const fine[] = {"ok"};
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    struct mr_request r[5] = {request(1), request(1), request(1), request(1), request(1)};
    static const char *const word[] = {"bad_word[1]", "bad_word", "best_of", "prompt_logprobs", "token_healing"};
    r[0].bad_word = empty;
    r[0].n_bad_word = 2;
    r[1].n_bad_word = MR_BAD_WORDS_MAX + 1;
    r[2].n = 3;
    r[2].best_of = 2;
    r[3].prompt_logprobs = MR_TOP_LOGPROBS_MAX + 1;
    r[4].token_healing = true;
    r[4].bad_word = fine;
    r[4].n_bad_word = 1;
    for (int i = 0; i < 5; i++) {
        uint64_t id;
        struct mr_error err;
        assert_int_equal(mr_engine_submit(e, &r[i], &id, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, word[i]));
    }
    mr_engine_free(e);
}

static void prompt_tokens_have_the_logprobs_they_would_have_as_answers(void **state)
{
    (void)state;
    static struct outcome plain, scored;
    struct mr_request r = request(3);
    run_alone(&r, &plain);
    static int32_t both[80];
    memcpy(both, prompt, 20 * sizeof *both);
    memcpy(both + 20, plain.token, 60 * sizeof *both);
    r.prompt = both;
    r.n_prompt = 80;
    r.max_tokens = 0;
    r.prompt_logprobs = 3;
    for (int chunk = 1; chunk < 100; chunk += 13) {
        struct mr_engine *e = fixture_engine(model, 1, chunk, 256);
        for (int again = 0; again < 2; again++) { /* the second time the prefix cache has the prompt */
            scored = (struct outcome){.id = submit(e, &r)};
            run_to_end(e, &scored, 1);
            assert_int_equal(scored.n_scored, 79);
            assert_int_equal(scored.usage.n_cached, 0);
            assert_memory_equal(scored.scored + 19, plain.logprob, 60 * sizeof *plain.logprob);
        }
        mr_engine_free(e);
    }
}

static void prompts_are_scored_beside_others_and_behind_a_pause(void **state)
{
    (void)state;
    static struct outcome alone[6], together[6];
    struct mr_request r[6];
    for (int i = 0; i < 6; i++) {
        r[i] = request((uint64_t)i);
        r[i].n_prompt = 15 * (i + 1);
        r[i].prompt_logprobs = i % 2;
        r[i].max_tokens = 30;
        run_alone(&r[i], &alone[i]);
    }
    struct mr_options options;
    struct mr_error err = {{0}};
    struct mr_engine *e;
    struct mr_engine_stats stats;
    mr_options_defaults(&options);
    options.max_running = 6;
    options.prompt_chunk = 20;
    options.n_ctx = options.kv_tokens = 160;
    check(mr_engine_create(&e, model, &options, &err), &err);
    for (int i = 0; i < 6; i++)
        together[i] = (struct outcome){.id = submit(e, &r[i])};
    run_to_end(e, together, 6);
    mr_engine_get_stats(e, &stats);
    mr_engine_free(e);
    assert_true(stats.n_preempted > 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(together[i].n_scored, r[i].n_prompt - 1);
        assert_memory_equal(together[i].scored, alone[i].scored, (size_t)alone[i].n_scored * sizeof *alone[i].scored);
        assert_memory_equal(together[i].token, alone[i].token, 30 * sizeof *alone[i].token);
    }
}

static double mean_logprob(const struct outcome *o)
{
    double sum = 0;
    for (int i = 0; i < o->n_token; i++)
        sum += (double)o->logprob[i];
    return sum / o->n_token;
}

static void the_best_answers_are_told(void **state)
{
    (void)state;
    enum {
        N = 6,
        BEST = 2
    };
    static struct outcome all[N], best[BEST];
    struct mr_request r = request(9);
    r.n = N;
    struct mr_engine *e = fixture_engine(model, 4, 64, 256);
    const uint64_t id = submit(e, &r);
    for (int i = 0; i < N; i++)
        all[i] = (struct outcome){.id = id, .sample = i};
    run_to_end(e, all, N);
    r.n = BEST;
    r.best_of = N;
    const uint64_t other = submit(e, &r);
    for (int i = 0; i < BEST; i++)
        best[i] = (struct outcome){.id = other, .sample = i};
    run_to_end(e, best, BEST);
    for (int i = 0; i < BEST; i++) {
        int better = 0, same = -1;
        for (int k = 0; k < N; k++) {
            better += mean_logprob(&all[k]) > mean_logprob(&best[i]);
            if (memcmp(all[k].token, best[i].token, 60 * sizeof *all[k].token) == 0)
                same = k;
        }
        assert_int_equal(better, i);
        assert_true(same >= 0);
        assert_int_equal(best[i].n_text, all[same].n_text);
    }
    assert_int_equal(best[0].usage.n_discarded, (N - BEST) * 60);
    assert_int_equal(best[1].usage.n_discarded, 0);
    mr_engine_free(e);
}

static void a_best_of_can_be_cancelled_or_left(void **state)
{
    (void)state;
    struct mr_request r = request(9);
    r.n = 2;
    r.best_of = 5;
    struct mr_engine *e = fixture_engine(model, 2, 64, 256);
    struct outcome o[2] = {{.id = submit(e, &r)}, {.sample = 1}};
    o[1].id = o[0].id;
    for (int i = 0; i < 5; i++)
        mr_engine_step(e);
    take_events(e, o, 2);
    assert_int_equal(o[0].n_token, 0); /* nothing is told before all have ended */
    assert_int_equal(mr_engine_cancel(e, o[0].id), MR_OK);
    take_events(e, o, 2);
    assert_int_equal(o[0].finish, MR_FINISH_CANCELLED);
    assert_int_equal(o[1].finish, MR_FINISH_CANCELLED);
    assert_true(mr_engine_is_idle(e));
    submit(e, &r);
    mr_engine_step(e);
    mr_engine_free(e); /* while it runs */
}

/* In this vocabulary only one token begins with a letter. */
static void a_healed_prompt_goes_on_as_if_nothing_had_been(void **state)
{
    (void)state;
    static struct outcome plain, healed;
    struct mr_request r = request(4);
    r.sampling.n_logprobs = -1;
    r.max_tokens = 30;
    run_alone(&r, &plain);
    r.token_healing = true;
    r.max_tokens = 31;
    run_alone(&r, &healed);
    assert_int_equal(healed.usage.n_prompt, 19);
    assert_int_equal(healed.token[0], prompt[19]);
    assert_memory_equal(healed.token + 1, plain.token, 30 * sizeof *plain.token);
    assert_int_equal(healed.n_text, plain.n_text);
    assert_memory_equal(healed.text, plain.text, plain.n_text);
    r.n_prompt = 1; /* too short to take anything back */
    run_alone(&r, &healed);
    assert_int_equal(healed.usage.n_prompt, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_words_are_never_part_of_an_answer),
        cmocka_unit_test(a_bad_word_that_a_constraint_demands_is_an_error),
        cmocka_unit_test(options_that_are_wrong_are_refused),
        cmocka_unit_test(prompt_tokens_have_the_logprobs_they_would_have_as_answers),
        cmocka_unit_test(prompts_are_scored_beside_others_and_behind_a_pause),
        cmocka_unit_test(the_best_answers_are_told),
        cmocka_unit_test(a_best_of_can_be_cancelled_or_left),
        cmocka_unit_test(a_healed_prompt_goes_on_as_if_nothing_had_been),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
