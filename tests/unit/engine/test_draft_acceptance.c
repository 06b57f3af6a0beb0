/* test_draft_acceptance.c: how often guesses that share the sampler's noise stay, beside what rejection sampling accepts.
 * Rejection sampling keeps a guess with probability a = sum over tokens of min(p, q) (Leviathan et al. 2023, arXiv:2211.17192,
 * section 3.2), which no scheme surpasses; shared Gumbel noise keeps a / (2 - a) at least (Daliri et al. 2025,
 * arXiv:2408.07978, section 3), and the answer stays a function of its seed. */
#include <math.h>

#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"

enum {
    N_ROW = 48,
    N_SEED = 64,
    N_SEED_REAL = 8 /* a token out of many takes its time */
};

/* Logits of N_ROW rows of one sequence, by the first n_layer layers; 0: all. */
static float *logits_of(struct model *m, const int32_t *token, int n_layer)
{
    struct model_kv *kv;
    struct mr_error err = {{0}};
    kv_seq seq[N_ROW];
    bool wants[N_ROW];
    const int n_vocab = model_info(m)->n_vocab;
    float *out = malloc((size_t)N_ROW * (size_t)n_vocab * sizeof *out);
    assert_non_null(out);
    check(model_kv_create(&kv, m, 1, N_ROW, N_ROW, &err), &err);
    assert_int_equal(kv_seq_open(model_kv_cache(kv), &seq[0]), MR_OK);
    for (int i = 0; i < N_ROW; i++) {
        seq[i] = seq[0];
        wants[i] = true;
    }
    const struct batch batch = {.n_row = N_ROW, .token = token, .seq = seq, .wants_logits = wants, .n_layer = n_layer};
    check(model_forward(m, kv, &batch, &err), &err);
    memcpy(out, model_logits(m, 0), (size_t)N_ROW * (size_t)n_vocab * sizeof *out);
    model_kv_free(kv);
    return out;
}

static void softmax(double *p, const float *logits, int n, double temperature)
{
    double best = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    for (int i = 0; i < n; i++)
        sum += p[i] = exp((logits[i] - best) / temperature);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

struct acceptance {
    double rejection, shared; /* shares of guesses that stay: by rejection sampling, as computed; by shared noise, as counted */
    double least;             /* of shared noise, by theory */
    double greedy;            /* of the likeliest tokens */
};

static int32_t pick(struct sampler *s, const float *logits, const struct mr_sampling *params, int position)
{
    const struct sample_point point = {.params = params, .position = position};
    struct sampled out;
    struct mr_error err = {{0}};
    check(sampler_pick(s, logits, &point, &out, &err), &err);
    return out.token;
}

static struct acceptance measure(const float *model, const float *draft, int n_vocab, float temperature, int n_seed)
{
    struct acceptance a = {0};
    struct sampler *s;
    struct mr_error err = {{0}};
    double *p = malloc((size_t)n_vocab * sizeof *p), *q = malloc((size_t)n_vocab * sizeof *q);
    struct mr_request r;
    mr_request_defaults(&r);
    check(sampler_create(&s, n_vocab, &err), &err);
    for (int row = 0; row < N_ROW; row++) {
        const float *x = model + (size_t)row * (size_t)n_vocab, *y = draft + (size_t)row * (size_t)n_vocab;
        struct mr_sampling params = r.sampling;
        double common = 0;
        softmax(p, x, n_vocab, (double)temperature);
        softmax(q, y, n_vocab, (double)temperature);
        for (int i = 0; i < n_vocab; i++)
            common += p[i] < q[i] ? p[i] : q[i];
        a.rejection += common / N_ROW;
        a.least += common / (2 - common) / N_ROW;
        params.n_logprobs = -1;
        params.top_k = 0;
        params.top_p = 1;
        params.min_p = 0;
        params.temperature = 0;
        a.greedy += (double)(pick(s, x, &params, row) == pick(s, y, &params, row)) / N_ROW;
        params.temperature = temperature;
        for (int seed = 0; seed < n_seed; seed++) {
            params.seed = (uint64_t)seed;
            a.shared += (double)(pick(s, x, &params, row) == pick(s, y, &params, row)) / (N_ROW * n_seed);
        }
    }
    sampler_free(s);
    free(p);
    free(q);
    return a;
}

static void compare(const char *name, struct model *model, struct model *draft, int n_layer, const int32_t *token)
{
    static const float temperatures[] = {0.5f, 0.8f, 1, 1.5f};
    const int n_vocab = model_info(model)->n_vocab, n_seed = n_vocab > N_VOCAB ? N_SEED_REAL : N_SEED;
    float *x = logits_of(model, token, 0), *y = logits_of(draft, token, n_layer);
    for (size_t i = 0; i < sizeof temperatures / sizeof *temperatures; i++) {
        const struct acceptance a = measure(x, y, n_vocab, temperatures[i], n_seed);
        const double noise = 4 * sqrt(0.25 / (N_ROW * n_seed)); /* four standard deviations */
        print_message("%-34s temperature %.1f: rejection sampling %.3f, shared noise %.3f (at least %.3f), greedy %.3f\n", name,
                      (double)temperatures[i], a.rejection, a.shared, a.least, a.greedy);
        assert_true(a.shared <= a.rejection + noise);
        assert_true(a.shared >= a.least - noise);
    }
    free(x);
    free(y);
}

static void shared_noise_keeps_what_it_promises(void **state)
{
    (void)state;
    static const char llama[] = TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf";
    struct mr_model *near_twin = fixture_model_and_draft(llama, TEST_SOURCE_DIR "/golden/data/tiny_llama3.gguf", 1, 0),
                    *stranger = fixture_model_and_draft(llama, TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf", 1, 0);
    int32_t token[N_ROW];
    for (int i = 0; i < N_ROW; i++)
        token[i] = 1 + i * 37 % 255;
    compare("a copy of 32 bits guesses", near_twin->model, near_twin->draft.model, 0, token);
    compare("another random model guesses", stranger->model, stranger->draft.model, 0, token);
    compare("the first layer guesses", stranger->model, stranger->model, 1, token);
    mr_model_close(near_twin);
    mr_model_close(stranger);
}

static void and_does_for_a_real_pair(void **state)
{
    (void)state;
    static const char path[] = TEST_SOURCE_DIR "/../models/SmolLM2-135M-Instruct.Q4_1.gguf",
                      text[] =
                          "The river begins in the hills above the town, runs past the old mill, and reaches the sea after "
                          "ninety kilometres. In spring its water is high, and the meadows on both banks are flooded for "
                          "weeks. Boats wait below the bridge.";
    struct mr_options o;
    struct mr_error err = {{0}};
    struct mr_model *m, *quick;
    int32_t *token, n;
#ifdef TEST_SANITIZED
    skip();
#endif
    if (access(path, R_OK) != 0) {
        print_message("%s is not there\n", path);
        skip();
    }
    mr_options_defaults(&o);
    check(mr_model_open(&m, path, &o, &err), &err);
    o.precision = MR_PRECISION_INT4;
    check(mr_model_open(&quick, path, &o, &err), &err);
    check(mr_tokenize(m, text, sizeof text - 1, false, &token, &n, &err), &err);
    if (n < N_ROW)
        fail_msg("the text has %d tokens only", n);
    compare("SmolLM2-135M's own 4-bit copy", m->model, quick->model, 0, token);
    compare("SmolLM2-135M's first 22 layers", m->model, m->model, 22, token);
    compare("SmolLM2-135M's first 7 layers", m->model, m->model, 7, token);
    mr_tokens_free(token);
    mr_model_close(m);
    mr_model_close(quick);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared_noise_keeps_what_it_promises),
                                       cmocka_unit_test(and_does_for_a_real_pair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
