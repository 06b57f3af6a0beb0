/* test_sampler.c: the choice is what the parameters say, and a pure function of its arguments. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sample/sampler.h"

enum {
    N_VOCAB = 50
};

static struct mr_sampling plain(float temperature, uint64_t seed)
{
    return (struct mr_sampling){
        .temperature = temperature, .top_p = 1, .typical_p = 1, .repeat_penalty = 1, .n_logprobs = -1, .seed = seed};
}

static void fill(float *logits, int n)
{
    for (int i = 0; i < n; i++)
        logits[i] = 3.0f * sinf((float)i * 1.7f) + 0.01f * (float)i;
}

static struct sampled pick(int n_vocab, const float *logits, const struct sample_point *point)
{
    struct sampler *s;
    struct sampled out;
    struct mr_error err;
    assert_int_equal(sampling_check(point->params, point->bias, point->n_bias, n_vocab, &err), MR_OK);
    assert_int_equal(sampler_create(&s, n_vocab, &err), MR_OK);
    assert_int_equal(sampler_pick(s, logits, point, &out, &err), MR_OK);
    sampler_free(s);
    return out;
}

/* Chi-squared of 20,000 draws against softmax(logits / temperature) over the nucleus top_p. */
static void check_distribution(float temperature, float top_p)
{
    enum {
        N_DRAW = 20000
    };
    float logits[N_VOCAB];
    double p[N_VOCAB], sum = 0, nucleus = 0;
    bool kept[N_VOCAB] = {0};
    fill(logits, N_VOCAB);
    for (int i = 0; i < N_VOCAB; i++)
        sum += exp((double)logits[i]);
    for (double mass = 0; mass < (double)top_p * sum - 1e-9;) {
        int best = -1;
        for (int i = 0; i < N_VOCAB; i++)
            if (!kept[i] && (best < 0 || logits[i] > logits[best]))
                best = i;
        kept[best] = true;
        mass += exp((double)logits[best]);
    }
    for (int i = 0; i < N_VOCAB; i++)
        nucleus += kept[i] ? exp((double)(logits[i] / temperature)) : 0;
    for (int i = 0; i < N_VOCAB; i++)
        p[i] = kept[i] ? exp((double)(logits[i] / temperature)) / nucleus : 0;

    struct mr_sampling params = plain(temperature, 42);
    params.top_p = top_p;
    struct sampler *s;
    int count[N_VOCAB] = {0};
    assert_int_equal(sampler_create(&s, N_VOCAB, NULL), MR_OK);
    for (int i = 0; i < N_DRAW; i++) {
        const struct sample_point point = {.params = &params, .position = i / 2, .sample = i % 2};
        struct sampled out;
        assert_int_equal(sampler_pick(s, logits, &point, &out, NULL), MR_OK);
        count[out.token]++;
    }
    sampler_free(s);

    double chi = 0, rest_p = 1;
    int cells = 0, rest = N_DRAW;
    for (int i = 0; i < N_VOCAB; i++) {
        assert_true(kept[i] || count[i] == 0);
        if (p[i] * N_DRAW < 5) /* too few to count alone */
            continue;
        chi += (count[i] - p[i] * N_DRAW) * (count[i] - p[i] * N_DRAW) / (p[i] * N_DRAW);
        rest -= count[i];
        rest_p -= p[i];
        cells++;
    }
    if (rest_p * N_DRAW >= 5) {
        chi += (rest - rest_p * N_DRAW) * (rest - rest_p * N_DRAW) / (rest_p * N_DRAW);
        cells++;
    }
    /* The 99.9 % quantile of chi-squared with cells - 1 degrees of freedom (Wilson and Hilferty 1931). */
    const double df = cells - 1, h = 2 / (9 * df);
    assert_true(df < 1 || chi < df * pow(1 - h + 3.0902 * sqrt(h), 3));
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    static const float temperatures[] = {0.3f, 0.8f, 1.0f, 1.5f, 5.0f};
    static const float top_ps[] = {0.5f, 0.9f, 1.0f};
    for (size_t t = 0; t < sizeof temperatures / sizeof *temperatures; t++)
        for (size_t p = 0; p < sizeof top_ps / sizeof *top_ps; p++)
            check_distribution(temperatures[t], top_ps[p]);
}

static void the_token_is_a_function_of_seed_sample_and_position(void **state)
{
    (void)state;
    float logits[N_VOCAB];
    fill(logits, N_VOCAB);
    struct mr_sampling a = plain(1.5f, 7), b = plain(1.5f, 8), c = plain(1.5f, 7ull << 32);
    int same_seed = 0, other_seed = 0, high_seed = 0, other_sample = 0, other_position = 0;
    for (int i = 0; i < 200; i++) {
        const int32_t token = pick(N_VOCAB, logits, &(struct sample_point){.params = &a, .position = i}).token;
        same_seed += token == pick(N_VOCAB, logits, &(struct sample_point){.params = &a, .position = i}).token;
        other_seed += token == pick(N_VOCAB, logits, &(struct sample_point){.params = &b, .position = i}).token;
        high_seed += token == pick(N_VOCAB, logits, &(struct sample_point){.params = &c, .position = i}).token;
        other_sample += token == pick(N_VOCAB, logits, &(struct sample_point){.params = &a, .position = i, .sample = 1}).token;
        other_position += token == pick(N_VOCAB, logits, &(struct sample_point){.params = &a, .position = i + 1000}).token;
    }
    assert_int_equal(same_seed, 200);
    assert_true(other_seed < 100 && high_seed < 100 && other_sample < 100 && other_position < 100);
}

static void a_filter_that_keeps_the_chosen_token_does_not_change_it(void **state)
{
    (void)state;
    float logits[N_VOCAB];
    fill(logits, N_VOCAB);
    struct mr_sampling all = plain(1, 3), few = all;
    few.top_k = 20;
    for (int i = 0; i < 200; i++) {
        const int32_t wide = pick(N_VOCAB, logits, &(struct sample_point){.params = &all, .position = i}).token;
        const int32_t narrow = pick(N_VOCAB, logits, &(struct sample_point){.params = &few, .position = i}).token;
        int better = 0;
        for (int j = 0; j < N_VOCAB; j++)
            better += logits[j] > logits[wide];
        if (better < 20)
            assert_int_equal(narrow, wide);
    }
}

static void temperature_zero_takes_the_best_and_the_lower_of_equals(void **state)
{
    (void)state;
    const float logits[] = {1, 5, -2, 5, 4.9f};
    const struct mr_sampling p = plain(0, 1);
    assert_int_equal(pick(5, logits, &(struct sample_point){.params = &p}).token, 1);
}

static void a_tiny_or_a_huge_temperature_is_no_danger(void **state)
{
    (void)state;
    const float logits[] = {-3e38f, 3e38f, 0, 2.9e38f};
    struct mr_sampling p = plain(1e-37f, 1);
    assert_int_equal(pick(4, logits, &(struct sample_point){.params = &p}).token, 1);
    p.temperature = 100;
    assert_int_equal(pick(4, logits, &(struct sample_point){.params = &p}).token, 1);
}

static void bias_forces_and_forbids(void **state)
{
    (void)state;
    float logits[N_VOCAB];
    fill(logits, N_VOCAB);
    for (float t = 0; t < 3; t += 1) {
        const struct mr_sampling p = plain(t, 1);
        const struct mr_logit_bias force = {.token = 13, .bias = 100}, forbid = {.token = 38, .bias = -INFINITY};
        struct sample_point point = {.params = &p, .bias = &force, .n_bias = 1};
        assert_int_equal(pick(N_VOCAB, logits, &point).token, 13);
        point.bias = &forbid;
        for (point.position = 0; point.position < 100; point.position++)
            assert_int_not_equal(pick(N_VOCAB, logits, &point).token, 38);
    }
}

static void penalties_count_the_recent_tokens(void **state)
{
    (void)state;
    const float logits[] = {2.0f, 1.9f, -1.0f, -1.1f};
    const int32_t recent[] = {0, 0, 2, 0};
    static const struct {
        float repeat, presence, frequency;
        int last_n;
        int32_t want;
    } cases[] = {
        {1, 0, 0, -1, 0},     {1.04f, 0, 0, -1, 0}, {1.06f, 0, 0, -1, 1},    {1, 0.09f, 0, -1, 0},
        {1, 0.11f, 0, -1, 1}, {1, 0, 0.03f, -1, 0}, {1, 0, 0.04f, -1, 1},    {1, 0, 0.06f, 2, 0},
        {1, 0, 0.11f, 1, 1},  {2, 2, 2, 0, 0},      {1, 0.05f, 0.02f, 3, 0}, {1, 0.07f, 0.02f, 3, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_sampling p = plain(0, 1);
        p.repeat_penalty = cases[i].repeat;
        p.presence_penalty = cases[i].presence;
        p.frequency_penalty = cases[i].frequency;
        p.repeat_last_n = cases[i].last_n;
        const struct sample_point point = {.params = &p, .recent = recent, .n_recent = 4};
        assert_int_equal(pick(4, logits, &point).token, cases[i].want);
    }
    struct mr_sampling p = plain(0, 1); /* a negative logit is multiplied: -1 becomes -1.2, below -1.1 */
    p.repeat_penalty = 1.2f;
    p.repeat_last_n = -1;
    const struct mr_logit_bias only_2_and_3[] = {{0, -INFINITY}, {1, -INFINITY}};
    const struct sample_point point = {.params = &p, .recent = recent, .n_recent = 4, .bias = only_2_and_3, .n_bias = 2};
    assert_int_equal(pick(4, logits, &point).token, 3);
}

static void logprobs_are_those_of_the_unmodified_logits(void **state)
{
    (void)state;
    float logits[N_VOCAB];
    fill(logits, N_VOCAB);
    logits[3] = -INFINITY;
    struct mr_sampling p = plain(0, 1);
    p.n_logprobs = 20;
    const struct mr_logit_bias force = {.token = 13, .bias = 100};
    const struct sample_point point = {.params = &p, .bias = &force, .n_bias = 1};
    const struct sampled out = pick(N_VOCAB, logits, &point);
    double sum = 0;
    for (int i = 0; i < N_VOCAB; i++)
        sum += exp((double)logits[i]);
    assert_int_equal(out.token, 13);
    assert_true(fabs((double)out.logprob - ((double)logits[13] - log(sum))) < 1e-6);
    assert_int_equal(out.n_top, 20);
    for (int i = 0; i < 20; i++) {
        assert_true(fabs((double)out.top[i].logprob - ((double)logits[out.top[i].token] - log(sum))) < 1e-6);
        assert_true(i == 0 || out.top[i].logprob <= out.top[i - 1].logprob);
    }
}

static void logprobs_stay_finite(void **state)
{
    (void)state;
    const float logits[] = {-INFINITY, 30000, -INFINITY, 0};
    struct mr_sampling p = plain(0, 1);
    p.n_logprobs = 4;
    const struct mr_logit_bias force = {.token = 1, .bias = -INFINITY};
    const struct sampled out = pick(4, logits, &(struct sample_point){.params = &p, .bias = &force, .n_bias = 1});
    assert_int_equal(out.token, 3);
    assert_true(out.logprob == -9999);
    assert_int_equal(out.n_top, 2); /* what the model itself excludes is not listed */
    assert_true(out.top[0].logprob == 0 && out.top[1].logprob == -9999);
}

static void logits_that_are_not_numbers_are_an_error(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        float logits[N_VOCAB];
        fill(logits, N_VOCAB);
        logits[17] = bad[i];
        struct sampler *s;
        struct sampled out;
        struct mr_error err;
        const struct mr_sampling p = plain((float)i, 1);
        assert_int_equal(sampler_create(&s, N_VOCAB, NULL), MR_OK);
        assert_int_equal(sampler_pick(s, logits, &(struct sample_point){.params = &p}, &out, &err), MR_BAD_FORMAT);
        assert_non_null(strstr(err.message, "token 17"));
        sampler_free(s);
    }
}

static void nothing_left_is_an_error(void **state)
{
    (void)state;
    const float logits[] = {-INFINITY, 1};
    const struct mr_logit_bias forbid = {.token = 1, .bias = -INFINITY};
    for (float t = 0; t < 2; t += 1) {
        const struct mr_sampling p = plain(t, 1);
        struct sampler *s;
        struct sampled out;
        assert_int_equal(sampler_create(&s, 2, NULL), MR_OK);
        assert_int_equal(
            sampler_pick(s, logits, &(struct sample_point){.params = &p, .bias = &forbid, .n_bias = 1}, &out, NULL),
            MR_BAD_INPUT);
        sampler_free(s);
    }
}

static void a_parameter_out_of_range_is_named(void **state)
{
    (void)state;
    static const struct {
        struct mr_sampling p;
        const char *name, *range;
    } cases[] = {
        {{.temperature = -0.1f, .repeat_penalty = 1}, "temperature", "0 to 100"},
        {{.temperature = NAN, .repeat_penalty = 1}, "temperature", "0 to 100"},
        {{.top_k = -1, .repeat_penalty = 1}, "top_k", "0 to 2147483647"},
        {{.top_p = 1.5f, .repeat_penalty = 1}, "top_p", "0 to 1"},
        {{.min_p = -1, .repeat_penalty = 1}, "min_p", "0 to 1"},
        {{.typical_p = 2, .repeat_penalty = 1}, "typical_p", "0 to 1"},
        {{.repeat_penalty = 0}, "repeat_penalty", "0.01 to 100"},
        {{.repeat_penalty = 1, .presence_penalty = 101}, "presence_penalty", "-100 to 100"},
        {{.repeat_penalty = 1, .frequency_penalty = -INFINITY}, "frequency_penalty", "-100 to 100"},
        {{.repeat_penalty = 1, .repeat_last_n = -2}, "repeat_last_n", "-1 to"},
        {{.repeat_penalty = 1, .n_logprobs = 21}, "n_logprobs", "-1 to 20"},
    };
    struct mr_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sampling_check(&cases[i].p, NULL, 0, N_VOCAB, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, cases[i].name));
        assert_non_null(strstr(err.message, cases[i].range));
    }
    const struct mr_sampling fine = plain(1, 1);
    static const struct mr_logit_bias bad[] = {{-3, 5}, {N_VOCAB, -100}, {10, 1e9f}, {10, INFINITY}, {10, NAN}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sampling_check(&fine, &bad[i], 1, N_VOCAB, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, "logit_bias"));
    }
    struct mr_sampling defaults;
    mr_sampling_defaults(&defaults);
    assert_int_equal(sampling_check(&defaults, NULL, 0, N_VOCAB, &err), MR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(the_token_is_a_function_of_seed_sample_and_position),
        cmocka_unit_test(a_filter_that_keeps_the_chosen_token_does_not_change_it),
        cmocka_unit_test(temperature_zero_takes_the_best_and_the_lower_of_equals),
        cmocka_unit_test(a_tiny_or_a_huge_temperature_is_no_danger),
        cmocka_unit_test(bias_forces_and_forbids),
        cmocka_unit_test(penalties_count_the_recent_tokens),
        cmocka_unit_test(logprobs_are_those_of_the_unmodified_logits),
        cmocka_unit_test(logprobs_stay_finite),
        cmocka_unit_test(logits_that_are_not_numbers_are_an_error),
        cmocka_unit_test(nothing_left_is_an_error),
        cmocka_unit_test(a_parameter_out_of_range_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
