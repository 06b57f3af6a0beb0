/* The loop of training: runs that are cut go on bit by bit, teachers teach, what does not fit is refused. */
#include "../train/train_fixture.h"

#include <stdio.h>
#include <unistd.h>

#include "compress/distill.h"

enum {
    TOK = 32,
    WINDOWS = 40
};

struct lesson {
    struct thread_pool *pool;
    struct train_model student, teacher;
    struct text_windows windows;
    struct distill_options o;
    int64_t n_asked, stop_at;
    char checkpoint[64], cache[64];
};

static bool go_on(void *context)
{
    struct lesson *l = context;
    return l->stop_at < 0 || l->n_asked++ < l->stop_at;
}

/* The teacher is a model of its own; the student has other random weights. */
static void open_lesson(struct lesson *l, int n_thread)
{
    memset(l, 0, sizeof *l);
    assert_int_equal(pool_create(&l->pool, n_thread, NULL), MR_OK);
    fixture_load(&l->teacher, TINY("llama3"));
    fixture_load(&l->student, TINY("llama3"));
    train_model_randomize(&l->student, 3);
    l->windows = (struct text_windows){.n_tok = TOK, .n_window = WINDOWS, .n_train = WINDOWS - 4, .seed = 9};
    l->windows.tokens.n = TOK * WINDOWS;
    l->windows.tokens.id = calloc(l->windows.tokens.n, sizeof(int32_t));
    assert_non_null(l->windows.tokens.id);
    for (int i = 0; i < TOK * WINDOWS; i++)
        l->windows.tokens.id[i] = (int32_t)((uint32_t)i * 2654435761u >> 26) + 5 * (i % 7);
    l->o = distill_defaults();
    l->o.student = &l->student;
    l->o.teacher = &l->teacher;
    l->o.windows = &l->windows;
    l->o.accumulate = 2;
    l->o.n_step = 12;
    l->o.n_warmup = 3;
    l->o.rate = 3e-3f;
    l->o.checkpoint_every = 4;
    l->o.measure_every = 6;
    l->o.hidden_weight = 0;
    l->o.pool = l->pool;
    l->o.cpu_features = fixture_cpu();
    l->o.go_on = go_on;
    l->o.context = l;
    l->stop_at = -1;
    snprintf(l->checkpoint, sizeof l->checkpoint, "/tmp/distill_%d.ckpt", (int)getpid());
    snprintf(l->cache, sizeof l->cache, "/tmp/distill_%d.cache", (int)getpid());
}

static void close_lesson(struct lesson *l)
{
    train_model_release(&l->student);
    train_model_release(&l->teacher);
    text_windows_release(&l->windows);
    pool_free(l->pool);
    remove(l->checkpoint);
    remove(l->cache);
}

static struct curve_point run(struct lesson *l, enum mr_status want, int64_t want_first)
{
    struct curve curve;
    int64_t first;
    struct mr_error err = {""};
    struct curve_point last = {0};
    const enum mr_status status = distill_run(&l->o, &curve, &first, &err);
    if (status != want)
        fail_msg("status %d: %s", (int)status, err.message);
    assert_int_equal(first, want_first);
    if (curve.n > 0)
        last = curve.point[curve.n - 1];
    free(curve.point);
    return last;
}

static float *weights_of(const struct lesson *l)
{
    float *w = fixture_floats(l->student.n_weight);
    memcpy(w, l->student.w, l->student.n_weight * sizeof *w);
    return w;
}

static void a_run_that_was_cut_goes_on_bit_by_bit(void **state)
{
    (void)state;
    struct lesson l;
    open_lesson(&l, 2);
    run(&l, MR_OK, 0);
    float *whole = weights_of(&l);
    const size_t n = l.student.n_weight;
    close_lesson(&l);
    static const int64_t stops[] = {0, 1, 4, 7, 11};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        open_lesson(&l, 1);
        l.o.checkpoint = l.checkpoint;
        l.o.cache = l.cache;
        l.stop_at = stops[i];
        run(&l, MR_CANCELLED, 0);
        l.stop_at = -1;
        train_model_randomize(&l.student, 3); /* as the file that the command would read again */
        run(&l, MR_OK, stops[i]);
        assert_memory_equal(whole, l.student.w, n * sizeof *whole);
        close_lesson(&l);
    }
    free(whole);
}

static void every_way_of_teaching_lowers_its_loss(void **state)
{
    (void)state;
    static const float weights[][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.3f, 0.3f, 0.4f}};
    for (size_t i = 0; i < 4; i++) {
        struct lesson l;
        open_lesson(&l, 2);
        l.o.ce_weight = weights[i][0];
        l.o.kl_weight = weights[i][1];
        l.o.hidden_weight = weights[i][2];
        l.o.temperature = 1.5f;
        l.o.n_step = 1;
        l.o.n_warmup = 0;
        const struct curve_point before = run(&l, MR_OK, 0);
        train_model_randomize(&l.student, 3);
        l.o.n_step = 40;
        l.o.report_every = 1;
        const struct curve_point after = run(&l, MR_OK, 0);
        if (!(after.loss < before.loss * 0.97f))
            fail_msg("case %zu: %g after %g", i, (double)after.loss, (double)before.loss);
        close_lesson(&l);
    }
}

/* Heads for speculation beside the teacher's model, which stands still. */
static void heads_learn_and_go_on_bit_by_bit(void **state)
{
    (void)state;
    struct draft_heads heads, again;
    struct lesson l;
    struct mr_error err = {""};
    open_lesson(&l, 2);
    l.o.student = &l.teacher;
    l.o.teacher = NULL;
    l.o.heads = &heads;
    l.o.kl_weight = 0.2f;
    l.o.k = 8;
    l.o.n_step = 30;
    l.o.report_every = 1;
    assert_int_equal(draft_heads_create(&heads, 3, l.teacher.h.n_embd, &err), MR_OK);
    const size_t n = l.teacher.n_weight;
    float *base = fixture_floats(n);
    memcpy(base, l.teacher.w, n * sizeof *base);
    struct curve curve;
    int64_t first;
    assert_int_equal(distill_run(&l.o, &curve, &first, &err), MR_OK);
    const struct curve_point *last = &curve.point[curve.n - 1];
    assert_true(last->loss < curve.point[0].loss * 0.9f && last->mfu <= 0);
    for (int i = 0; i < DRAFT_HEADS_MAX; i++)
        assert_true(i < 3 ? last->held_head[i] >= 0 && last->held_head[i] <= 1 : last->held_head[i] < 0);
    free(curve.point);
    l.o.checkpoint = l.checkpoint;
    l.o.heads = &again;
    assert_int_equal(draft_heads_create(&again, 3, l.teacher.h.n_embd, &err), MR_OK);
    l.stop_at = 7;
    run(&l, MR_CANCELLED, 0);
    l.stop_at = -1;
    memset(again.w, 0, again.n_weight * sizeof *again.w);
    run(&l, MR_OK, 7);
    assert_memory_equal(heads.w, again.w, heads.n_weight * sizeof *again.w);
    assert_memory_equal(base, l.teacher.w, n * sizeof *base);
    free(base);
    draft_heads_release(&heads);
    draft_heads_release(&again);
    close_lesson(&l);
}

static void a_head_of_eagle_learns_and_goes_on_bit_by_bit(void **state)
{
    (void)state;
    struct eagle eagle, again;
    struct lesson l;
    struct mr_error err = {""};
    open_lesson(&l, 2);
    l.o.student = &l.teacher;
    l.o.teacher = NULL;
    l.o.eagle = &eagle;
    l.o.hidden_weight = 1;
    l.o.kl_weight = 0.2f;
    l.o.k = 8;
    l.o.n_step = 30;
    l.o.report_every = 1;
    assert_int_equal(eagle_create(&eagle, &l.teacher, 4, &err), MR_OK);
    float *base = fixture_floats(l.teacher.n_weight);
    memcpy(base, l.teacher.w, l.teacher.n_weight * sizeof *base);
    struct curve curve;
    int64_t first;
    assert_int_equal(distill_run(&l.o, &curve, &first, &err), MR_OK);
    const struct curve_point *last = &curve.point[curve.n - 1];
    assert_true(last->loss < curve.point[0].loss * 0.9f && last->held_head[0] >= 0 && last->held_head[1] < 0);
    free(curve.point);
    l.o.checkpoint = l.checkpoint;
    l.o.eagle = &again;
    assert_int_equal(eagle_create(&again, &l.teacher, 4, &err), MR_OK);
    l.stop_at = 7;
    run(&l, MR_CANCELLED, 0);
    l.stop_at = -1;
    eagle_release(&again);
    assert_int_equal(eagle_create(&again, &l.teacher, 4, &err), MR_OK);
    run(&l, MR_OK, 7);
    assert_memory_equal(eagle.w, again.w, eagle.n_weight * sizeof *again.w);
    assert_memory_equal(base, l.teacher.w, l.teacher.n_weight * sizeof *base);
    free(base);
    eagle_release(&eagle);
    eagle_release(&again);
    close_lesson(&l);
}

static void refuse(struct lesson *l, const char *word)
{
    struct curve curve;
    int64_t first;
    struct mr_error err = {""};
    assert_int_equal(distill_run(&l->o, &curve, &first, &err), MR_BAD_INPUT);
    if (strstr(err.message, word) == NULL)
        fail_msg("'%s' says nothing of %s", err.message, word);
    free(curve.point);
}

/* Rounded products, weights in f32: another run than the other, and as fit to go on. */
static void bf16_learns_and_goes_on_bit_by_bit(void **state)
{
    (void)state;
    struct lesson l;
    open_lesson(&l, 2);
    run(&l, MR_OK, 0);
    float *plain = weights_of(&l);
    train_model_randomize(&l.student, 3);
    l.o.is_bf16 = true;
    run(&l, MR_OK, 0);
    float *whole = weights_of(&l);
    double off = 0, all = 0;
    for (size_t i = 0; i < l.student.n_weight; i++) {
        off += (double)(whole[i] - plain[i]) * (double)(whole[i] - plain[i]);
        all += (double)plain[i] * (double)plain[i];
    }
    assert_true(off > 0 && off < 0.05 * 0.05 * all);
    l.o.checkpoint = l.checkpoint;
    l.stop_at = 5;
    train_model_randomize(&l.student, 3);
    run(&l, MR_CANCELLED, 0);
    l.stop_at = -1;
    train_model_randomize(&l.student, 3);
    run(&l, MR_OK, 5);
    assert_memory_equal(whole, l.student.w, l.student.n_weight * sizeof *whole);
    l.o.is_bf16 = false;
    train_model_randomize(&l.student, 3);
    refuse(&l, "another run");
    free(plain);
    free(whole);
    close_lesson(&l);
}

/* An adapter on the student, which stands still; the teacher is another model. */
static void an_adapter_learns_and_goes_on_bit_by_bit(void **state)
{
    (void)state;
    struct lora lora, again;
    struct lesson l;
    struct mr_error err = {""};
    unsigned all;
    open_lesson(&l, 2);
    assert_int_equal(lora_targets_parse(&all, "all", &err), MR_OK);
    assert_int_equal(lora_create(&lora, &l.student, 4, 8, all, 1, &err), MR_OK);
    assert_int_equal(lora_create(&again, &l.student, 4, 8, all, 1, &err), MR_OK);
    l.o.lora = &lora;
    l.o.rate = 1e-2f;
    l.o.n_step = 30;
    l.o.report_every = 1;
    float *base = weights_of(&l);
    struct curve curve;
    int64_t first;
    assert_int_equal(distill_run(&l.o, &curve, &first, &err), MR_OK);
    assert_true(curve.point[curve.n - 1].loss < curve.point[0].loss * 0.97f);
    free(curve.point);
    l.o.checkpoint = l.checkpoint;
    l.o.lora = &again;
    l.stop_at = 7;
    run(&l, MR_CANCELLED, 0);
    l.stop_at = -1;
    lora_release(&again);
    assert_int_equal(lora_create(&again, &l.student, 4, 8, all, 1, &err), MR_OK); /* as the command would again */
    run(&l, MR_OK, 7);
    assert_memory_equal(lora.w, again.w, lora.n_weight * sizeof *again.w);
    assert_memory_equal(base, l.student.w, l.student.n_weight * sizeof *base);
    free(base);
    lora_release(&lora);
    lora_release(&again);
    close_lesson(&l);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct lesson l;
    open_lesson(&l, 1);
    l.o.checkpoint = l.checkpoint;
    l.o.cache = l.cache;
    run(&l, MR_OK, 0);
    l.o.rate = 1e-3f;
    refuse(&l, "another run");
    l.o.checkpoint = NULL;
    l.o.temperature = 2;
    refuse(&l, "another teacher");
    l.o.cache = NULL;
    l.o.k = 0;
    refuse(&l, "top-k");
    l.o.k = 8;
    l.student.h.n_vocab -= 16;
    refuse(&l, "vocabulary");
    l.o.teacher = NULL;
    refuse(&l, "need a teacher");
    close_lesson(&l);
}

static void a_damaged_checkpoint_is_refused(void **state)
{
    (void)state;
    struct lesson l;
    struct curve curve;
    int64_t first;
    struct mr_error err = {""};
    open_lesson(&l, 1);
    l.o.checkpoint = l.checkpoint;
    l.stop_at = 2;
    run(&l, MR_CANCELLED, 0);
    FILE *f = fopen(l.checkpoint, "r+b");
    assert_non_null(f);
    fseek(f, 5000, SEEK_SET);
    fputs("damage", f);
    fclose(f);
    train_model_randomize(&l.student, 3);
    assert_int_equal(distill_run(&l.o, &curve, &first, &err), MR_BAD_FORMAT);
    assert_non_null(strstr(err.message, "damaged"));
    assert_int_equal(truncate(l.checkpoint, 20), 0);
    train_model_randomize(&l.student, 3);
    assert_int_equal(distill_run(&l.o, &curve, &first, &err), MR_BAD_FORMAT);
    close_lesson(&l);
}

/* A torn record of the cache is computed again. */
static void a_damaged_cache_is_mended(void **state)
{
    (void)state;
    struct lesson l;
    open_lesson(&l, 1);
    l.o.cache = l.cache;
    run(&l, MR_OK, 0);
    float *want = weights_of(&l);
    FILE *f = fopen(l.cache, "r+b");
    assert_non_null(f);
    for (long at = 200; at < 60000; at += 7000) {
        fseek(f, at, SEEK_SET);
        fputs("torn", f);
    }
    fclose(f);
    train_model_randomize(&l.student, 3);
    run(&l, MR_OK, 0);
    assert_memory_equal(want, l.student.w, l.student.n_weight * sizeof *want);
    free(want);
    close_lesson(&l);
}

static void each_round_meets_every_window_once(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 17, 64, 65, 1000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const struct text_windows w = {.n_train = sizes[k], .seed = 5};
        for (uint64_t round = 0; round < 3; round++) {
            bool seen[1000] = {false};
            for (uint32_t i = 0; i < sizes[k]; i++) {
                const uint32_t window = text_windows_order(&w, round * sizes[k] + i);
                assert_true(window < sizes[k] && !seen[window]);
                seen[window] = true;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_was_cut_goes_on_bit_by_bit),
        cmocka_unit_test(every_way_of_teaching_lowers_its_loss),
        cmocka_unit_test(heads_learn_and_go_on_bit_by_bit),
        cmocka_unit_test(an_adapter_learns_and_goes_on_bit_by_bit),
        cmocka_unit_test(bf16_learns_and_goes_on_bit_by_bit),
        cmocka_unit_test(a_head_of_eagle_learns_and_goes_on_bit_by_bit),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_damaged_checkpoint_is_refused),
        cmocka_unit_test(a_damaged_cache_is_mended),
        cmocka_unit_test(each_round_meets_every_window_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
