/* Heads for speculation: their gradients against differences of the loss; the same bits whatever the threads. */
#include "train_fixture.h"

#include <math.h>

#include "train/adamw.h"
#include "train/draft_heads.h"

enum {
    N_HEAD = 2
};

struct lesson {
    struct fixture f;
    struct draft_heads heads;
    struct head_pass *pass;
};

static void open_lesson(struct lesson *l, const char *path, int n_thread)
{
    struct mr_error err = {""};
    fixture_open(&l->f, path, n_thread, SIZE_MAX);
    assert_int_equal(draft_heads_create(&l->heads, N_HEAD, l->f.model.h.n_embd, &err), MR_OK);
    for (size_t i = 0; i < l->heads.n_weight; i++)
        l->heads.w[i] = 0.1f * (float)((int)((uint32_t)i * 2654435761u >> 25) - 64) / 64;
    assert_int_equal(head_pass_create(&l->pass, &l->heads, &l->f.model, FIXTURE_ROWS, l->f.pool, fixture_cpu(), &err), MR_OK);
    fixture_run(&l->f, NULL); /* the features */
}

static void close_lesson(struct lesson *l)
{
    head_pass_free(l->pass);
    draft_heads_release(&l->heads);
    fixture_close(&l->f);
}

/* Mean cross-entropy, of each head's own labels. */
static double cross_entropy(void *context, struct compute *c, int head, float *logits, int first, int n, bool backward)
{
    const struct fixture *f = context;
    int32_t label[FIXTURE_ROWS];
    struct row_loss out[FIXTURE_ROWS];
    const float scale = 1.0f / FIXTURE_ROWS;
    double sum = 0;
    for (int i = 0; i < n; i++)
        label[i] = (first + i) % FIXTURE_TOK + 2 + head < FIXTURE_TOK ? f->token[first + i + 2 + head] : -1;
    const struct loss_targets t = {.label = label, .ce_weight = 1, .temperature = 1, .scale = scale};
    loss_rows(c, out, &t, logits, n, f->model.h.n_vocab, backward);
    for (int i = 0; i < n; i++)
        sum += (double)out[i].cross_entropy * (double)scale;
    return sum;
}

static double run(struct lesson *l, float *grad)
{
    const struct head_loss loss = {.logits = cross_entropy, .context = &l->f};
    return head_pass_run(l->pass, train_pass_features(l->f.pass), FIXTURE_ROWS, &loss, grad);
}

/* Loss where a place's weights are moved by h along its gradient. */
static double moved(struct lesson *l, const float *w, const float *grad, struct param_place p, double norm, double h)
{
    for (size_t i = 0; i < param_floats(p); i++)
        l->heads.w[p.at + i] = w[p.at + i] + (float)(h * (double)grad[p.at + i] / norm);
    const double loss = run(l, NULL);
    memcpy(l->heads.w + p.at, w + p.at, param_floats(p) * sizeof *w);
    return loss;
}

static void check(struct lesson *l, const float *w, const float *grad, struct param_place p)
{
    const double norm = gradient_norm(train_pass_compute(l->f.pass), grad + p.at, param_floats(p));
    const double h = 0.02 / norm < 0.02 ? 0.02 / norm : 0.02;
    const double near = (moved(l, w, grad, p, norm, h) - moved(l, w, grad, p, norm, -h)) / (2 * h);
    const double far = (moved(l, w, grad, p, norm, 2 * h) - moved(l, w, grad, p, norm, -2 * h)) / (4 * h);
    const double slope = (4 * near - far) / 3;
    if (!(norm > 1e-4 && fabs(slope - norm) <= 2e-3 * norm + 2e-5))
        fail_msg("at %zu: the loss changes by %g, the gradient says %g", p.at, slope, norm);
}

static void gradients_are_differences_of_the_loss(void **state)
{
    (void)state;
    static const char *const models[] = {TINY("llama3"), TINY("gemma3")}; /* an output matrix of its own, and a shared one */
    for (int i = 0; i < 2; i++) {
        struct lesson l;
        open_lesson(&l, models[i], 2);
        float *grad = fixture_floats(l.heads.n_weight), *w = fixture_floats(l.heads.n_weight);
        memcpy(w, l.heads.w, l.heads.n_weight * sizeof *w);
        run(&l, grad);
        for (int head = 0; head < N_HEAD; head++) {
            check(&l, w, grad, draft_heads_weight(&l.heads, head));
            check(&l, w, grad, draft_heads_bias(&l.heads, head));
        }
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
    const size_t n = one.heads.n_weight;
    float *want = fixture_floats(n), *got = fixture_floats(n);
    const double a = run(&one, want), b = run(&more, got);
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_equal(want, got, n * sizeof *want);
    free(want);
    free(got);
    close_lesson(&one);
    close_lesson(&more);
}

/* As the method has it: a head begins with what the base itself would say. */
static void a_new_head_is_the_base(void **state)
{
    (void)state;
    struct mr_error err = {""};
    struct draft_heads h;
    assert_int_equal(draft_heads_create(&h, 0, 8, &err), MR_BAD_INPUT);
    assert_int_equal(draft_heads_create(&h, DRAFT_HEADS_MAX + 1, 8, &err), MR_BAD_INPUT);
    assert_int_equal(draft_heads_create(&h, 2, 8, &err), MR_OK);
    for (size_t i = 0; i < h.n_weight; i++)
        assert_true(h.w[i] == 0);
    draft_heads_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences_of_the_loss),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_new_head_is_the_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
