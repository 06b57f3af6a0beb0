/* Pruning: what gives nothing goes first, and its going changes nothing; shapes meet their targets or are refused. */
#include "../train/train_fixture.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "compress/importance.h"
#include "compress/probe.h"
#include "compress/prune_source.h"

enum {
    TOK = 24,
    WINDOWS = 6
};

/* Logits of a model over some tokens. */
static double keep_logits(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    (void)c;
    (void)backward;
    memcpy((float *)context + (size_t)first * 256, logits, (size_t)n * 256 * sizeof(float));
    return 0;
}

static float *logits_of(const struct train_model *m)
{
    struct thread_pool *pool;
    struct train_pass *pass;
    int32_t token[TOK];
    float *out = fixture_floats(TOK * 256);
    assert_int_equal(pool_create(&pool, 1, NULL), MR_OK);
    const struct train_pass_options o = {
        .n_seq = 1, .n_tok = TOK, .is_forward = true, .pool = pool, .cpu_features = fixture_cpu()};
    const struct train_loss loss = {.logits = keep_logits, .context = out};
    assert_int_equal(train_pass_create(&pass, m, &o, NULL), MR_OK);
    for (int i = 0; i < TOK; i++)
        token[i] = (i * 37 + 11) % 250;
    train_pass_run(pass, token, 1, &loss, NULL);
    train_pass_free(pass);
    pool_free(pool);
    return out;
}

static void same_logits(const struct train_model *a, const struct train_model *b)
{
    float *x = logits_of(a), *y = logits_of(b);
    for (int i = 0; i < TOK * 256; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-4f * (1 + fabsf(x[i]))))
            fail_msg("logit %d: %g, was %g", i, (double)y[i], (double)x[i]);
    free(x);
    free(y);
}

static void zero_columns(struct train_model *m, struct param_place p, int first, int n)
{
    for (int o = 0; o < p.n_out; o++)
        memset(m->w + p.at + (size_t)o * (size_t)p.n_in + first, 0, (size_t)n * sizeof *m->w);
}

static void windows_of(int32_t *token)
{
    for (int i = 0; i < TOK * WINDOWS; i++)
        token[i] = (i * i * 7 + i * 13 + 5) % 251;
}

static struct text_windows text_of(int32_t *token)
{
    return (struct text_windows){
        .tokens = {.id = token, .n = TOK * WINDOWS}, .n_tok = TOK, .n_window = WINDOWS, .n_train = WINDOWS};
}

static void measure(struct structures *score, const struct train_model *m, enum importance method)
{
    struct thread_pool *pool;
    struct mr_error err = {""};
    int32_t token[TOK * WINDOWS];
    windows_of(token);
    const struct text_windows windows = text_of(token);
    assert_int_equal(pool_create(&pool, 2, NULL), MR_OK);
    const struct importance_options o = {.method = method,
                                         .parts = PRUNE_HEADS | PRUNE_CHANNELS | PRUNE_LAYERS | PRUNE_WIDTH,
                                         .windows = &windows,
                                         .memory_bytes = SIZE_MAX,
                                         .pool = pool,
                                         .cpu_features = fixture_cpu()};
    assert_int_equal(structures_create(score, &m->h, &err), MR_OK);
    if (importance_measure(score, m, &o, &err) != MR_OK)
        fail_msg("%s", err.message);
    pool_free(pool);
}

static void what_gives_nothing_goes_first(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (enum importance method = 0; method < IMPORTANCE_REMOVAL; method++) {
            struct train_model m, out;
            struct structures score, mask;
            struct mr_error err = {""};
            fixture_load(&m, i == 0 ? TINY("llama3") : TINY("qwen3"));
            const struct hparams *h = &m.h;
            const int group = h->head_dim * (h->n_head / h->n_head_kv);
            for (int l = 0; l < h->n_layer; l++) { /* one of two heads, 32 of 96 channels, others in each layer */
                zero_columns(&m, train_param(&m, l, PARAM_O), l % 2 * group, group);
                zero_columns(&m, train_param(&m, l, PARAM_DOWN), 7 + 20 * l, 32);
            }
            measure(&score, &m, method);
            assert_int_equal(structures_create(&mask, h, &err), MR_OK);
            prune_choose(&mask, &score, (struct prune_shape){h->n_layer, 1, 64, h->n_embd, 0});
            assert_int_equal(prune_apply(&out, &m, &mask, &err), MR_OK);
            assert_int_equal(out.h.n_ff, 64);
            assert_int_equal(out.h.n_head_kv, 1);
            assert_int_equal(out.h.n_head, h->n_head / 2);
            assert_int_equal(out.n_weight, prune_weights(&m, prune_whole(&out.h)));
            same_logits(&m, &out);
            structures_release(&score);
            structures_release(&mask);
            train_model_release(&m);
            train_model_release(&out);
        }
}

static void a_layer_that_does_nothing_goes_first(void **state)
{
    (void)state;
    struct train_model m, out;
    struct structures score, mask;
    fixture_load(&m, TINY("llama3"));
    const struct param_place o = train_param(&m, 1, PARAM_O), down = train_param(&m, 1, PARAM_DOWN);
    zero_columns(&m, o, 0, o.n_in);
    zero_columns(&m, down, 0, down.n_in);
    for (enum importance method = 0; method < IMPORTANCE_REMOVAL; method++) {
        measure(&score, &m, method);
        assert_int_equal(structures_create(&mask, &m.h, NULL), MR_OK);
        prune_choose(&mask, &score, (struct prune_shape){1, m.h.n_head_kv, m.h.n_ff, m.h.n_embd, 0});
        assert_int_equal(prune_apply(&out, &m, &mask, NULL), MR_OK);
        same_logits(&m, &out);
        structures_release(&score);
        structures_release(&mask);
        train_model_release(&out);
    }
    train_model_release(&m);
}

static void equal_heads_merge_without_loss(void **state)
{
    (void)state;
    struct train_model m, out;
    struct mr_error err = {""};
    fixture_load(&m, TINY("llama3"));
    for (int l = 0; l < m.h.n_layer; l++)
        for (int k = 0; k < 2; k++) {
            const struct param_place p = train_param(&m, l, k == 0 ? PARAM_K : PARAM_V);
            const size_t half = param_floats(p) / 2;
            memcpy(m.w + p.at + half, m.w + p.at, half * sizeof *m.w);
        }
    assert_int_equal(prune_merge_heads(&out, &m, 1, &err), MR_OK);
    assert_int_equal(out.h.n_head_kv, 1);
    assert_int_equal(out.h.n_head, m.h.n_head);
    same_logits(&m, &out);
    train_model_release(&out);
    assert_int_equal(prune_merge_heads(&out, &m, 3, &err), MR_BAD_INPUT);
    train_model_release(&m);
}

static void shapes_meet_their_target_or_are_refused(void **state)
{
    (void)state;
    struct train_model m;
    struct prune_shape s;
    struct mr_error err = {""};
    fixture_load(&m, TINY("llama3"));
    static const unsigned parts[] = {PRUNE_HEADS,
                                     PRUNE_CHANNELS,
                                     PRUNE_WIDTH,
                                     PRUNE_LAYERS,
                                     PRUNE_HEADS | PRUNE_CHANNELS,
                                     PRUNE_HEADS | PRUNE_CHANNELS | PRUNE_WIDTH | PRUNE_LAYERS};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t target = m.n_weight - m.n_weight / 20;
        assert_int_equal(prune_shape_for(&s, &m, parts[i], target, &err), MR_OK);
        assert_true(prune_weights(&m, s) <= target && s.n_ff % PRUNE_TILE == 0 && s.n_embd % PRUNE_TILE == 0);
        assert_int_equal(prune_shape_for(&s, &m, parts[i], 100, &err), MR_BAD_INPUT);
    }
    train_model_release(&m);
}

/* Of two kinds the one whose structures matter less loses them, though a like share would take from both. */
static void globally_what_matters_least_goes(void **state)
{
    (void)state;
    struct train_model m;
    struct structures score;
    struct prune_shape s;
    struct mr_error err = {""};
    const unsigned parts = PRUNE_HEADS | PRUNE_CHANNELS | PRUNE_LAYERS;
    fixture_load(&m, TINY("llama3"));
    const struct prune_shape whole = prune_whole(&m.h);
    assert_int_equal(structures_create(&score, &m.h, &err), MR_OK);
    for (int round = 0; round < 2; round++) {
        struct prune_shape want = whole;
        want.n_ff = round == 0 ? whole.n_ff - PRUNE_TILE : whole.n_ff;
        want.n_group = round == 1 ? whole.n_group - 1 : whole.n_group;
        for (int i = 0; i < m.h.n_layer; i++)
            score.layer[i] = 1000;
        for (int i = 0; i < m.h.n_layer * m.h.n_head_kv; i++)
            score.group[i] = round == 0 ? 100.0f : 0.1f;
        for (int i = 0; i < m.h.n_layer * m.h.n_ff; i++)
            score.channel[i] = round == 0 ? 0.1f : 100.0f;
        assert_int_equal(prune_shape_global(&s, &m, &score, parts, prune_weights(&m, want), &err), MR_OK);
        assert_true(s.n_layer == want.n_layer && s.n_group == want.n_group && s.n_ff == want.n_ff && s.n_embd == want.n_embd);
    }
    score.layer[1] = 0; /* and a layer that is worth nothing goes alone */
    const struct prune_shape without = {whole.n_layer - 1, whole.n_group, whole.n_ff, whole.n_embd, 0};
    assert_int_equal(prune_shape_global(&s, &m, &score, parts, prune_weights(&m, without), &err), MR_OK);
    assert_true(s.n_layer == without.n_layer && s.n_group == whole.n_group && s.n_ff == whole.n_ff);
    assert_int_equal(prune_shape_global(&s, &m, &score, parts, 100, &err), MR_BAD_INPUT);
    structures_release(&score);
    train_model_release(&m);
}

static void masks_that_leave_no_model_are_refused(void **state)
{
    (void)state;
    struct train_model m, out;
    struct structures mask;
    struct mr_error err = {""};
    fixture_load(&m, TINY("llama3"));
    assert_int_equal(structures_create(&mask, &m.h, &err), MR_OK);
    assert_int_equal(prune_apply(&out, &m, &mask, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "nothing"));
    struct structures score = mask;
    prune_choose(&mask, &score, prune_whole(&m.h));
    mask.channel[3] = 0;
    assert_int_equal(prune_apply(&out, &m, &mask, &err), MR_BAD_INPUT);
    mask.channel[3] = 1;
    assert_int_equal(prune_apply(&out, &m, &mask, &err), MR_OK);
    assert_memory_equal(out.w, m.w, m.n_weight * sizeof *m.w);
    structures_release(&mask);
    train_model_release(&m);
    train_model_release(&out);
}

static void a_width_is_pruned_in_every_place(void **state)
{
    (void)state;
    struct train_model m, out;
    struct structures score, mask;
    struct mr_error err = {""};
    fixture_load(&m, TINY("llama3"));
    measure(&score, &m, IMPORTANCE_TAYLOR);
    assert_int_equal(structures_create(&mask, &m.h, &err), MR_OK);
    prune_choose(&mask, &score, (struct prune_shape){m.h.n_layer, m.h.n_head_kv, m.h.n_ff, 32, 0});
    assert_int_equal(prune_apply(&out, &m, &mask, &err), MR_OK);
    assert_int_equal(out.h.n_embd, 32);
    float *x = logits_of(&out);
    for (int i = 0; i < TOK * 256; i++)
        assert_true(isfinite(x[i]));
    free(x);
    train_model_release(&m);
    train_model_release(&out);
    fixture_load(&m, TINY("gemma3"));
    structures_release(&mask);
    assert_int_equal(structures_create(&mask, &m.h, &err), MR_OK);
    struct structures same = mask;
    prune_choose(&mask, &same, prune_whole(&m.h));
    mask.width[0] = 0;
    assert_int_equal(prune_apply(&out, &m, &mask, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "gemma3"));
    structures_release(&score);
    structures_release(&mask);
    train_model_release(&m);
}

/* What removal gives a head is the loss of the model whose head gives nothing, less that of the model: below 0 where it does
 * harm, so that what does nothing need not go first. */
static void removal_is_the_measured_rise(void **state)
{
    (void)state;
    struct train_model m;
    struct structures score;
    struct probe *probe;
    struct thread_pool *pool;
    int32_t token[TOK * WINDOWS];
    windows_of(token);
    const struct text_windows windows = text_of(token);
    fixture_load(&m, TINY("llama3"));
    const int group = m.h.head_dim * (m.h.n_head / m.h.n_head_kv);
    zero_columns(&m, train_param(&m, 0, PARAM_O), 0, group);
    zero_columns(&m, train_param(&m, 0, PARAM_DOWN), 7, PRUNE_TILE);
    measure(&score, &m, IMPORTANCE_REMOVAL);
    assert_true(fabsf(score.group[0]) < 1e-9f);
    for (int c = 7; c < 7 + PRUNE_TILE; c++)
        assert_true(fabsf(score.channel[c]) < 1e-9f);
    assert_int_equal(pool_create(&pool, 1, NULL), MR_OK);
    double loss[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(probe_create(&probe, &m, &windows, WINDOWS, pool, fixture_cpu(), NULL), MR_OK);
        loss[i] = probe_loss(probe, 0);
        probe_free(probe);
        zero_columns(&m, train_param(&m, 1, PARAM_O), group, group);
    }
    assert_true(fabs((loss[1] - loss[0]) - (double)score.group[m.h.n_head_kv + 1]) < 1e-6);
    structures_release(&score);
    train_model_release(&m);
    pool_free(pool);
}

/* Scores and weights of a smaller model from a file's parameters, one at a time, are those of the model in memory. */
static void a_shape_and_its_file_give_the_same_model(void **state)
{
    (void)state;
    char path[] = "/tmp/prune_source_XXXXXX";
    struct mr_error err = {""};
    struct gguf *g, *back = NULL;
    struct train_model whole, merged, want, shape, merged_shape, plan, got;
    struct structures score, streamed, mask;
    struct prune_source source;
    close(mkstemp(path));
    fixture_load(&whole, TINY("llama3"));
    assert_int_equal(prune_merge_heads(&merged, &whole, 1, &err), MR_OK);
    measure(&score, &merged, IMPORTANCE_WEIGHT);
    assert_int_equal(structures_create(&mask, &merged.h, &err), MR_OK);
    prune_choose(&mask, &score, (struct prune_shape){1, 1, 64, 32, 0});
    assert_int_equal(prune_apply(&want, &merged, &mask, &err), MR_OK);

    assert_int_equal(gguf_open(&g, TINY("llama3"), &err), MR_OK);
    assert_int_equal(train_model_plan_file(&shape, g, &err), MR_OK);
    assert_int_equal(prune_merge_plan(&merged_shape, &shape, 1, &err), MR_OK);
    assert_int_equal(prune_source_init(&source, &shape, &merged_shape, g, &err), MR_OK);
    assert_int_equal(structures_create(&streamed, &merged_shape.h, &err), MR_OK);
    const struct importance_options o = {.method = IMPORTANCE_WEIGHT, .params = &source.source};
    assert_int_equal(importance_measure(&streamed, &merged_shape, &o, &err), MR_OK);
    assert_memory_equal(score.channel, streamed.channel, (size_t)(score.n_layer * score.n_ff) * sizeof *score.channel);
    assert_memory_equal(score.width, streamed.width, (size_t)score.n_embd * sizeof *score.width);
    assert_int_equal(prune_plan(&plan, &merged_shape, &mask, &err), MR_OK);
    prune_source_keep(&source, &mask);
    if (train_model_write_from(&plan, &source.source, g, false, QUANT_F32, path, &err) != MR_OK ||
        gguf_open(&back, path, &err) != MR_OK || train_model_load(&got, back, &err) != MR_OK)
        fail_msg("%s", err.message);
    assert_int_equal(got.n_weight, want.n_weight);
    assert_memory_equal(got.w, want.w, want.n_weight * sizeof *want.w);
    gguf_close(back);
    gguf_close(g);
    remove(path);
    prune_source_release(&source);
    structures_release(&score);
    structures_release(&streamed);
    structures_release(&mask);
    train_model_release(&whole);
    train_model_release(&merged);
    train_model_release(&want);
    train_model_release(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_gives_nothing_goes_first),
        cmocka_unit_test(a_layer_that_does_nothing_goes_first),
        cmocka_unit_test(equal_heads_merge_without_loss),
        cmocka_unit_test(shapes_meet_their_target_or_are_refused),
        cmocka_unit_test(masks_that_leave_no_model_are_refused),
        cmocka_unit_test(a_width_is_pruned_in_every_place),
        cmocka_unit_test(globally_what_matters_least_goes),
        cmocka_unit_test(removal_is_the_measured_rise),
        cmocka_unit_test(a_shape_and_its_file_give_the_same_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
