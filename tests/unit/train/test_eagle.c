/* A head in the style of EAGLE: its gradients against differences of the loss; the same bits whatever the threads. */
#include "train_fixture.h"

#include <math.h>
#include <stdio.h>

#include "train/adamw.h"
#include "train/eagle.h"

struct lesson {
    struct fixture f;
    struct eagle eagle;
    struct eagle_pass *pass;
};

static void open_lesson(struct lesson *l, const char *path, int n_thread)
{
    struct mr_error err = {""};
    fixture_open(&l->f, path, n_thread, SIZE_MAX);
    const struct train_pass_options o = {
        .n_seq = FIXTURE_SEQ, .n_tok = FIXTURE_TOK, .memory_bytes = SIZE_MAX, .pool = l->f.pool, .cpu_features = fixture_cpu()};
    if (eagle_create(&l->eagle, &l->f.model, 5, &err) != MR_OK || eagle_pass_create(&l->pass, &l->eagle, &o, &err) != MR_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < l->eagle.n_weight; i++)
        l->eagle.w[i] += 0.1f * (float)((int)((uint32_t)i * 2654435761u >> 25) - 64) / 64;
    fixture_run(&l->f, NULL); /* the features */
}

static void close_lesson(struct lesson *l)
{
    eagle_pass_free(l->pass);
    eagle_release(&l->eagle);
    fixture_close(&l->f);
}

/* Mean cross-entropy of the token after next. */
static double cross_entropy(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    const struct fixture *f = context;
    int32_t label[FIXTURE_ROWS];
    struct row_loss out[FIXTURE_ROWS];
    const float scale = 1.0f / FIXTURE_ROWS;
    double sum = 0;
    for (int i = 0; i < n; i++)
        label[i] = (first + i) % FIXTURE_TOK + 2 < FIXTURE_TOK ? f->token[first + i + 2] : -1;
    const struct loss_targets t = {.label = label, .ce_weight = 1, .temperature = 1, .scale = scale};
    loss_rows(c, out, &t, logits, n, f->model.h.n_vocab, backward);
    for (int i = 0; i < n; i++)
        sum += (double)out[i].cross_entropy * (double)scale;
    return sum;
}

/* The distance from the next row's feature, of one row in two sequences. */
static double feature(void *context, struct compute *c, int layer, const float *x, float *dx, int n)
{
    (void)c;
    const struct fixture *f = context;
    const int width = f->model.h.n_embd;
    const float *want = train_pass_features(f->pass) + width;
    const double sum = layer == 1 ? loss_smooth_absolute(x, want, dx, n - 1, width, 0.5f, 1.0f / FIXTURE_ROWS) : 0;
    return sum / FIXTURE_ROWS;
}

static double run(struct lesson *l, float *grad)
{
    const struct train_loss loss = {.logits = cross_entropy, .hidden = feature, .context = &l->f};
    return eagle_pass_run(l->pass, train_pass_features(l->f.pass), l->f.label, FIXTURE_SEQ, &loss, grad);
}

/* Loss where a place's weights are moved by h along its gradient. */
static double moved(struct lesson *l, const float *w, const float *grad, struct param_place p, double norm, double h)
{
    for (size_t i = 0; i < param_floats(p); i++)
        l->eagle.w[p.at + i] = w[p.at + i] + (float)(h * (double)grad[p.at + i] / norm);
    const double loss = run(l, NULL);
    memcpy(l->eagle.w + p.at, w + p.at, param_floats(p) * sizeof *w);
    return loss;
}

static void check(struct lesson *l, const float *w, const float *grad, struct param_place p, const char *name)
{
    if (p.n_out == 0)
        return;
    const double norm = gradient_norm(eagle_pass_compute(l->pass), grad + p.at, param_floats(p));
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
    static const char *const models[] = {TINY("llama3"), TINY("qwen3"), TINY("gemma3")};
    for (int i = 0; i < 3; i++) {
        struct lesson l;
        open_lesson(&l, models[i], 2);
        float *grad = fixture_floats(l.eagle.n_weight), *w = fixture_floats(l.eagle.n_weight);
        memcpy(w, l.eagle.w, l.eagle.n_weight * sizeof *w);
        run(&l, grad);
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
            check(&l, w, grad, train_param(&l.eagle.block, 0, p), train_param_name(0, p).s);
        check(&l, w, grad, eagle_weight(&l.eagle), "fc.weight");
        check(&l, w, grad, eagle_bias(&l.eagle), "fc.bias");
        free(grad);
        free(w);
        close_lesson(&l);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    struct lesson one, more;
    open_lesson(&one, TINY("llama3"), 1);
    open_lesson(&more, TINY("llama3"), 3);
    const size_t n = one.eagle.n_weight;
    float *want = fixture_floats(n), *got = fixture_floats(n);
    const double a = run(&one, want), b = run(&more, got);
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_equal(want, got, n * sizeof *want);
    free(want);
    free(got);
    close_lesson(&one);
    close_lesson(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences_of_the_loss),
        cmocka_unit_test(threads_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
