/* Adapters: their gradients against differences of the loss, the model that they amount to, the same bits everywhere. */
#include "train_fixture.h"

#include <math.h>

#include "train/adamw.h"
#include "train/train_lora.h"

static const char *const models[] = {TINY("llama3"), TINY("qwen3"), TINY("gemma3")};
enum {
    N_MODELS = sizeof models / sizeof *models,
    RANK = 3
};

struct lesson {
    struct fixture f; /* its pass is the adapter's */
    struct lora lora;
};

static void open_lesson(struct lesson *l, const char *path, const char *targets, int n_thread, size_t memory)
{
    struct mr_error err = {""};
    unsigned bits;
    fixture_open(&l->f, path, n_thread, memory);
    train_pass_free(l->f.pass);
    if (lora_targets_parse(&bits, targets, &err) != MR_OK ||
        lora_create(&l->lora, &l->f.model, RANK, 4.5f, bits, 11, &err) != MR_OK)
        fail_msg("%s", err.message);
    const struct train_pass_options o = {.n_seq = FIXTURE_SEQ,
                                         .n_tok = FIXTURE_TOK,
                                         .memory_bytes = memory,
                                         .lora = &l->lora,
                                         .pool = l->f.pool,
                                         .cpu_features = fixture_cpu()};
    assert_int_equal(train_pass_create(&l->f.pass, &l->f.model, &o, &err), MR_OK);
}

static void close_lesson(struct lesson *l)
{
    lora_release(&l->lora);
    fixture_close(&l->f);
}

/* Far from the start, where B is zero and A has no gradient. */
static void scatter(struct lora *l)
{
    for (size_t i = 0; i < l->n_weight; i++)
        l->w[i] = 0.1f * (float)((int)((uint32_t)i * 2654435761u >> 25) - 64) / 64;
}

static double run(struct lesson *l, float *grad)
{
    const struct train_loss loss = {.logits = fixture_cross_entropy, .context = &l->f};
    return train_pass_run(l->f.pass, l->f.token, FIXTURE_SEQ, &loss, grad);
}

/* Loss where a place's weights are moved by h along its gradient. */
static double moved(struct lesson *l, const float *w, const float *grad, struct param_place p, double norm, double h)
{
    for (size_t i = 0; i < param_floats(p); i++)
        l->lora.w[p.at + i] = w[p.at + i] + (float)(h * (double)grad[p.at + i] / norm);
    const double loss = run(l, NULL);
    memcpy(l->lora.w + p.at, w + p.at, param_floats(p) * sizeof *w);
    return loss;
}

static void check(struct lesson *l, const float *w, const float *grad, struct param_place p, const char *name)
{
    const double norm = gradient_norm(train_pass_compute(l->f.pass), grad + p.at, param_floats(p));
    const double h = 0.02 / norm < 0.02 ? 0.02 / norm : 0.02;
    const double near = (moved(l, w, grad, p, norm, h) - moved(l, w, grad, p, norm, -h)) / (2 * h);
    const double far = (moved(l, w, grad, p, norm, 2 * h) - moved(l, w, grad, p, norm, -2 * h)) / (4 * h);
    const double slope = (4 * near - far) / 3;
    if (!(norm > 1e-5 && fabs(slope - norm) <= 2e-3 * norm + 2e-5))
        fail_msg("%s: the loss changes by %g, the gradient says %g", name, slope, norm);
}

static void gradients_are_differences_of_the_loss(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct lesson l;
        open_lesson(&l, models[i], "all", 2, SIZE_MAX);
        scatter(&l.lora);
        float *grad = fixture_floats(l.lora.n_weight), *w = fixture_floats(l.lora.n_weight);
        memcpy(w, l.lora.w, l.lora.n_weight * sizeof *w);
        run(&l, grad);
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++) {
            if (lora_a(&l.lora, 1, p).n_out == 0)
                continue;
            check(&l, w, grad, lora_a(&l.lora, 1, p), train_param_name(1, p).s);
            check(&l, w, grad, lora_b(&l.lora, 1, p), train_param_name(1, p).s);
        }
        free(grad);
        free(w);
        close_lesson(&l);
    }
}

static void merge(struct train_model *m, const struct lora *l, int layer, enum param which)
{
    const struct param_place w = train_param(m, layer, which), a = lora_a(l, layer, which), b = lora_b(l, layer, which);
    if (a.n_out == 0)
        return;
    for (int o = 0; o < w.n_out; o++)
        for (int i = 0; i < w.n_in; i++) {
            float sum = 0;
            for (int k = 0; k < l->rank; k++)
                sum += l->w[b.at + (size_t)o * RANK + (size_t)k] * l->w[a.at + (size_t)k * (size_t)w.n_in + (size_t)i];
            m->w[w.at + (size_t)o * (size_t)w.n_in + (size_t)i] += l->alpha / (float)l->rank * sum;
        }
}

/* W + alpha / rank B A says the same as W with the adapter beside it; and one at its start changes nothing. */
static void an_adapter_is_the_model_that_it_merges_to(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct lesson l;
        struct fixture plain;
        fixture_open(&plain, models[i], 1, SIZE_MAX);
        open_lesson(&l, models[i], "q_proj,v_proj,down", 1, SIZE_MAX);
        const double before = fixture_run(&plain, NULL), start = run(&l, NULL);
        assert_memory_equal(&before, &start, sizeof before);
        scatter(&l.lora);
        for (int layer = 0; layer < plain.model.h.n_layer; layer++)
            for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
                merge(&plain.model, &l.lora, layer, p);
        const double want = fixture_run(&plain, NULL), got = run(&l, NULL);
        assert_true(fabs(want - before) > 1e-3);
        assert_true(fabs(want - got) < 2e-6 * want);
        fixture_close(&plain);
        close_lesson(&l);
    }
}

/* Against the gradient of the merged weight, which torch confirms (tests/golden/test_gradients.py): dA = s B^T dW, dB = s dW
 * A^T.
 */
static void check_chain(const struct lora *l, const float *grad, struct param_place w, const float *dw, struct param_place a,
                        struct param_place b)
{
    const double s = (double)(l->alpha / (float)l->rank);
    double most = 0, off = 0;
    for (int k = 0; k < l->rank; k++) {
        for (int i = 0; i < w.n_in; i++) {
            double sum = 0;
            for (int o = 0; o < w.n_out; o++)
                sum += s * (double)l->w[b.at + (size_t)(o * RANK + k)] * (double)dw[w.at + (size_t)(o * w.n_in + i)];
            most = fmax(most, fabs(sum));
            off = fmax(off, fabs(sum - (double)grad[a.at + (size_t)(k * w.n_in + i)]));
        }
        for (int o = 0; o < w.n_out; o++) {
            double sum = 0;
            for (int i = 0; i < w.n_in; i++)
                sum += s * (double)dw[w.at + (size_t)(o * w.n_in + i)] * (double)l->w[a.at + (size_t)(k * w.n_in + i)];
            most = fmax(most, fabs(sum));
            off = fmax(off, fabs(sum - (double)grad[b.at + (size_t)(o * RANK + k)]));
        }
    }
    if (!(off <= 1e-4 * most))
        fail_msg("off by %g of %g", off, most);
}

static void gradients_follow_from_those_of_the_merged_model(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct lesson l;
        struct fixture plain;
        fixture_open(&plain, models[i], 2, SIZE_MAX);
        open_lesson(&l, models[i], "all", 2, SIZE_MAX);
        scatter(&l.lora);
        for (int layer = 0; layer < plain.model.h.n_layer; layer++)
            for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
                merge(&plain.model, &l.lora, layer, p);
        float *dw = fixture_floats(plain.model.n_weight), *grad = fixture_floats(l.lora.n_weight);
        fixture_run(&plain, dw);
        run(&l, grad);
        for (int layer = 0; layer < plain.model.h.n_layer; layer++)
            for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
                if (lora_a(&l.lora, layer, p).n_out > 0)
                    check_chain(&l.lora, grad, train_param(&plain.model, layer, p), dw, lora_a(&l.lora, layer, p),
                                lora_b(&l.lora, layer, p));
        free(dw);
        free(grad);
        fixture_close(&plain);
        close_lesson(&l);
    }
}

static void threads_and_recomputation_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct lesson one;
        open_lesson(&one, models[i], "all", 1, SIZE_MAX);
        scatter(&one.lora);
        const size_t n = one.lora.n_weight;
        float *want = fixture_floats(n);
        const double loss = run(&one, want);
        for (int k = 0; k < 2; k++) {
            struct lesson more;
            float *got = fixture_floats(n);
            open_lesson(&more, models[i], "all", 2 + k, k == 0 ? SIZE_MAX : 0);
            assert_int_equal(train_pass_recomputes(more.f.pass), k == 1);
            scatter(&more.lora);
            const double again = run(&more, got);
            assert_memory_equal(&loss, &again, sizeof loss);
            assert_memory_equal(want, got, n * sizeof *want);
            free(got);
            close_lesson(&more);
        }
        free(want);
        close_lesson(&one);
    }
}

static void what_is_no_adapter_is_refused(void **state)
{
    (void)state;
    struct mr_error err = {""};
    struct fixture f;
    struct lora l;
    unsigned bits;
    static const char *const lists[] = {"", "q,,v", "attn", "q,k,norm", "q_proj_proj", "_proj"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_int_equal(lora_targets_parse(&bits, lists[i], &err), MR_BAD_INPUT);
    assert_int_equal(lora_targets_parse(&bits, "down,q,q_proj", &err), MR_OK);
    assert_int_equal(bits, 1u << PARAM_DOWN | 1u << PARAM_Q);
    fixture_open(&f, TINY("llama3"), 1, SIZE_MAX);
    assert_int_equal(lora_create(&l, &f.model, 0, 1, bits, 0, &err), MR_BAD_INPUT);
    assert_int_equal(lora_create(&l, &f.model, LORA_RANK_MAX + 1, 1, bits, 0, &err), MR_BAD_INPUT);
    assert_int_equal(lora_create(&l, &f.model, 4, 0, bits, 0, &err), MR_BAD_INPUT);
    assert_int_equal(lora_create(&l, &f.model, 4, NAN, bits, 0, &err), MR_BAD_INPUT);
    assert_int_equal(lora_create(&l, &f.model, 4, 1, 0, 0, &err), MR_BAD_INPUT);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences_of_the_loss),
        cmocka_unit_test(an_adapter_is_the_model_that_it_merges_to),
        cmocka_unit_test(gradients_follow_from_those_of_the_merged_model),
        cmocka_unit_test(threads_and_recomputation_change_no_bit),
        cmocka_unit_test(what_is_no_adapter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
