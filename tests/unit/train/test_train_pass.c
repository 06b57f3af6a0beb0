/* The backward pass: gradients against differences of the loss; the same bits whatever the threads and the memory. */
#include "train_fixture.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fp16.h"
#include "train/adamw.h"

static const char *const models[] = {TINY("llama3"), TINY("llama_yarn"), TINY("mistral"), TINY("qwen3"), TINY("gemma3")};
enum {
    N_MODELS = sizeof models / sizeof *models
};

/* Loss where the weights of a parameter are moved by h along the gradient of length `norm`. */
static double moved(struct fixture *f, const float *w, const float *grad, struct param_place p, double norm, double h)
{
    memcpy(f->model.w, w, f->model.n_weight * sizeof *w);
    for (size_t i = 0; i < param_floats(p); i++)
        f->model.w[p.at + i] += (float)(h * (double)grad[p.at + i] / norm);
    const double loss = fixture_run(f, NULL);
    memcpy(f->model.w, w, f->model.n_weight * sizeof *w);
    return loss;
}

static void check_param(struct fixture *f, const float *w, const float *grad, int layer, enum param which)
{
    const struct param_place p = train_param(&f->model, layer, which);
    const double norm = gradient_norm(train_pass_compute(f->pass), grad + p.at, param_floats(p));
    if (p.n_out == 0)
        return;
    const double h = 0.02 / norm < 0.02 ? 0.02 / norm : 0.02;
    const double near = (moved(f, w, grad, p, norm, h) - moved(f, w, grad, p, norm, -h)) / (2 * h);
    const double far = (moved(f, w, grad, p, norm, 2 * h) - moved(f, w, grad, p, norm, -2 * h)) / (4 * h);
    const double slope = (4 * near - far) / 3; /* Richardson: the error is of fourth order */
    if (!(fabs(slope - norm) <= 2e-3 * norm + 2e-5))
        fail_msg("%s: the loss changes by %g, the gradient says %g", train_param_name(layer, which).s, slope, norm);
}

static void gradients_are_differences_of_the_loss(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct fixture f;
        fixture_open(&f, models[i], 2, SIZE_MAX);
        float *grad = fixture_floats(f.model.n_weight), *w = fixture_floats(f.model.n_weight);
        memcpy(w, f.model.w, f.model.n_weight * sizeof *w);
        fixture_run(&f, grad);
        for (enum param p = 0; p < N_PARAMS; p++)
            check_param(&f, w, grad, p < N_GLOBAL_PARAMS ? 0 : 1, p);
        free(grad);
        free(w);
        fixture_close(&f);
    }
}

static double gradient_of(const char *path, int n_thread, size_t memory, float **grad, size_t *n, bool recomputes)
{
    struct fixture f;
    fixture_open(&f, path, n_thread, memory);
    assert_int_equal(train_pass_recomputes(f.pass), recomputes);
    *n = f.model.n_weight;
    *grad = fixture_floats(*n);
    const double loss = fixture_run(&f, *grad);
    fixture_close(&f);
    return loss;
}

static void threads_and_recomputation_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        float *one, *more;
        size_t n;
        const double loss = gradient_of(models[i], 1, SIZE_MAX, &one, &n, false);
        for (int k = 0; k < 2; k++) {
            const double again = gradient_of(models[i], 2 + k, k == 0 ? SIZE_MAX : 0, &more, &n, k == 1);
            assert_memory_equal(&loss, &again, sizeof loss);
            assert_memory_equal(one, more, n * sizeof *one);
            free(more);
        }
        free(one);
    }
}

static void open_bf16(struct fixture *f, const char *path, int n_thread, size_t memory)
{
    fixture_open(f, path, n_thread, memory);
    train_pass_free(f->pass);
    const struct train_pass_options o = {.n_seq = FIXTURE_SEQ,
                                         .n_tok = FIXTURE_TOK,
                                         .is_bf16 = true,
                                         .memory_bytes = memory,
                                         .pool = f->pool,
                                         .cpu_features = fixture_cpu()};
    assert_int_equal(train_pass_create(&f->pass, &f->model, &o, NULL), MR_OK);
}

static float as_bf16(float x) { return f32_from_bf16(bf16_from_f32(x)); }

/* A kernel that rounds activations itself, as those of CPUs that multiply bf16 do: panels are [n_in][16]. */
static void run_bf16(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    const uint16_t *w = packed;
    for (int r = 0; r < n_row; r++)
        for (int o = 0; o < n_out; o++) {
            const float *row = (const float *)((const char *)x + (size_t)r * ld_x);
            float sum = 0;
            for (int k = 0; k < n_in; k++)
                sum +=
                    as_bf16(row[k]) * f32_from_bf16(w[((size_t)(o / 16) * (size_t)n_in + (size_t)k) * 16 + (size_t)(o % 16)]);
            out[(size_t)r * ld_out + (size_t)o] = sum;
        }
}

/* All three are those of operands that were rounded before; long sums in parts, outputs that fill no panel. */
static void bf16_products_are_those_of_rounded_operands(void **state)
{
    (void)state;
    const struct matmul own = {.name = "plain", .nr = 16, .activation = ACTIVATION_BF16, .run = run_bf16};
    enum {
        N = 13,
        OUT = 37,
        IN = 1100
    };
    struct fixture f;
    open_bf16(&f, TINY("llama3"), 2, SIZE_MAX);
    struct compute c;
    assert_int_equal(compute_init(&c, f.pool, fixture_cpu(), (size_t)N * IN, NULL), MR_OK);
    float *x = fixture_floats(N * IN), *w = fixture_floats(OUT * IN), *dy = fixture_floats(N * OUT);
    float *got = fixture_floats(OUT * IN), *want = fixture_floats(OUT * IN);
    for (int turn = 0; turn < 6; turn++) {
        const int which = turn % 3, n = which == 0 ? N * OUT : which == 1 ? N * IN : OUT * IN;
        if (turn == 3)
            c.kernels.matmul[QUANT_BF16][ACTIVATION_BF16] = own;
        for (int i = 0; i < OUT * IN; i++)
            w[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
        for (int i = 0; i < N * IN; i++)
            x[i] = (float)((uint32_t)i * 2246822519u >> 8) * 0x1p-24f - 0.5f;
        for (int i = 0; i < N * OUT; i++)
            dy[i] = (float)((uint32_t)i * 3266489917u >> 8) * 0x1p-24f - 0.5f;
        for (int pass = 0; pass < 2; pass++) {
            float *out = pass == 0 ? got : want;
            c.is_bf16 = pass == 0;
            memset(out, 0, (size_t)n * sizeof *out);
            if (which == 0)
                product_forward(&c, out, x, w, N, OUT, IN, false);
            else if (which == 1)
                product_input_grad(&c, out, dy, w, N, OUT, IN, false);
            else
                product_weight_grad(&c, out, dy, x, N, OUT, IN);
            /* the second time the operands themselves are round */
            for (int i = 0; i < N * IN; i++)
                x[i] = as_bf16(x[i]);
            for (int i = 0; i < OUT * IN; i++)
                w[i] = as_bf16(w[i]);
            for (int i = 0; i < N * OUT; i++)
                dy[i] = as_bf16(dy[i]);
        }
        for (int i = 0; i < n; i++)
            assert_true(fabsf(got[i] - want[i]) < 2e-5f);
    }
    free(x);
    free(w);
    free(dy);
    free(got);
    free(want);
    compute_release(&c);
    fixture_close(&f);
}

/* A gradient of rounded operands points where the other one does: 8 bits of a number are kept. */
static void bf16_is_near_to_f32(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct fixture f, rough;
        fixture_open(&f, models[i], 2, SIZE_MAX);
        open_bf16(&rough, models[i], 1, SIZE_MAX);
        const size_t n = f.model.n_weight;
        float *want = fixture_floats(n), *got = fixture_floats(n), *again = fixture_floats(n);
        const double loss = fixture_run(&f, want), near = fixture_run(&rough, got);
        assert_true(fabs(near - loss) < 0.01 * loss && (near < loss || near > loss));
        for (enum param p = 0; p < N_PARAMS; p++) {
            const struct param_place at = train_param(&f.model, 1, p);
            double off = 0, all = 0;
            for (size_t k = at.at; k < at.at + (at.n_out > 0 ? param_floats(at) : 0); k++) {
                off += (double)(got[k] - want[k]) * (double)(got[k] - want[k]);
                all += (double)want[k] * (double)want[k];
            }
            if (!(off <= 0.05 * 0.05 * all))
                fail_msg("%s: off by %g of its length", train_param_name(1, p).s, sqrt(off / all));
        }
        fixture_close(&rough);
        open_bf16(&rough, models[i], 3, 0);
        assert_true(train_pass_recomputes(rough.pass));
        fixture_run(&rough, again);
        assert_memory_equal(got, again, n * sizeof *got);
        free(want);
        free(got);
        free(again);
        fixture_close(&rough);
        fixture_close(&f);
    }
}

/* Later tokens do not reach earlier rows. */
static double first_rows(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    (void)c;
    (void)backward;
    (void)n;
    assert_int_equal(first, 0);
    memcpy(context, logits, 256 * sizeof *logits);
    return 0;
}

static void a_row_sees_nothing_behind_it(void **state)
{
    (void)state;
    struct fixture f;
    float before[256], after[256];
    fixture_open(&f, TINY("gemma3"), 1, SIZE_MAX);
    struct train_loss loss = {.logits = first_rows, .context = before};
    train_pass_run(f.pass, f.token, FIXTURE_SEQ, &loss, NULL);
    for (int i = 1; i < FIXTURE_ROWS; i++)
        f.token[i] = 3;
    loss.context = after;
    train_pass_run(f.pass, f.token, FIXTURE_SEQ, &loss, NULL);
    assert_memory_equal(before, after, sizeof before);
    fixture_close(&f);
}

static void a_step_down_the_gradient_lowers_the_loss(void **state)
{
    (void)state;
    struct fixture f;
    const struct adamw a = adamw_defaults();
    fixture_open(&f, TINY("llama3"), 2, SIZE_MAX);
    const size_t n = f.model.n_weight;
    float *grad = fixture_floats(n), *m = fixture_floats(n), *v = fixture_floats(n);
    const double before = fixture_run(&f, NULL);
    for (int step = 1; step <= 10; step++) {
        fixture_run(&f, grad);
        adamw_step(train_pass_compute(f.pass), &a, &f.model, grad, gradient_norm(train_pass_compute(f.pass), grad, n), m, v,
                   step, 3e-3f);
    }
    assert_true(fixture_run(&f, NULL) < before - 1);
    free(grad);
    free(m);
    free(v);
    fixture_close(&f);
}

static void families_that_are_not_trained_are_refused(void **state)
{
    (void)state;
    struct mr_error err = {""};
    struct gguf *g;
    struct train_model m;
    assert_int_equal(gguf_open(&g, TINY("gpt2"), &err), MR_OK);
    assert_int_equal(train_model_load(&m, g, &err), MR_NO_SUPPORT);
    assert_non_null(strstr(err.message, "gpt2"));
    gguf_close(g);
}

/* A random file of the shape; read back, it holds the same weights. */
static void a_model_is_written_and_read(void **state)
{
    (void)state;
    char path[] = "/tmp/train_write_XXXXXX";
    struct mr_error err = {""};
    struct gguf *g, *back = NULL;
    struct train_model m, again;
    const int fd = mkstemp(path);
    close(fd);
    assert_true(fd >= 0);
    assert_int_equal(gguf_open(&g, TINY("gemma3"), &err), MR_OK);
    assert_int_equal(train_model_load(&m, g, &err), MR_OK);
    train_model_randomize(&m, 7);
    if (train_model_write(&m, g, false, QUANT_F32, path, &err) != MR_OK || gguf_open(&back, path, &err) != MR_OK ||
        train_model_load(&again, back, &err) != MR_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(m.w, again.w, m.n_weight * sizeof *m.w);
    m.w[5] = NAN;
    assert_int_equal(train_model_write(&m, g, false, QUANT_F16, path, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "token_embd.weight"));
    gguf_close(g);
    gguf_close(back);
    train_model_release(&m);
    train_model_release(&again);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences_of_the_loss),
        cmocka_unit_test(threads_and_recomputation_change_no_bit),
        cmocka_unit_test(bf16_products_are_those_of_rounded_operands),
        cmocka_unit_test(bf16_is_near_to_f32),
        cmocka_unit_test(a_row_sees_nothing_behind_it),
        cmocka_unit_test(a_step_down_the_gradient_lowers_the_loss),
        cmocka_unit_test(families_that_are_not_trained_are_refused),
        cmocka_unit_test(a_model_is_written_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
