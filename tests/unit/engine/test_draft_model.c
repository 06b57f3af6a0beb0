/* test_draft_model.c: guesses of a second model, and of a model's own first layers: the same answers in fewer steps, whatever
 * becomes of the draft model's cache; and which models are refused. */
#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"

static const char llama[] = TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf",
                  gemma[] = TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf",
                  llama_f32[] = TEST_SOURCE_DIR "/golden/data/tiny_llama3.gguf";

static struct mr_model *twin, *near_twin, *stranger; /* llama with itself, with its f32 original, with gemma */

static int set_up(void **state)
{
    (void)state;
    twin = fixture_model_and_draft(llama, llama, 1, 0);
    near_twin = fixture_model_and_draft(llama, llama_f32, 1, 0);
    stranger = fixture_model_and_draft(llama, gemma, 2, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(twin);
    mr_model_close(near_twin);
    mr_model_close(stranger);
    return 0;
}

enum {
    PROMPT_MAX = 200,
    N_ANSWER = 6
};

static int32_t prompt[PROMPT_MAX];

static struct mr_request request(int n_prompt, int max_tokens, float temperature)
{
    struct mr_request r;
    mr_request_defaults(&r);
    for (int i = 0; i < PROMPT_MAX; i++)
        prompt[i] = 1 + i * 37 % 255;
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    r.sampling.n_logprobs = 0;
    r.sampling.temperature = temperature;
    return r;
}

/* No time passes, so nothing is known of costs. */
static int64_t still_clock(void *context)
{
    (void)context;
    return 1;
}

static struct mr_options options_of(enum mr_speculation method)
{
    struct mr_options o;
    mr_options_defaults(&o);
    o.n_ctx = 256;
    o.max_running = N_ANSWER;
    o.speculation = (int32_t)method;
    o.clock_us = still_clock;
    return o;
}

static struct mr_engine *engine_of(struct mr_model *m, const struct mr_options *o)
{
    struct mr_engine *e;
    struct mr_error err = {{0}};
    check(mr_engine_create(&e, m, o, &err), &err);
    return e;
}

/* n answers at once, of different seeds. */
static struct mr_engine_stats run(struct mr_model *m, const struct mr_options *o, struct mr_request r, struct outcome *out,
                                  int n)
{
    struct mr_engine_stats stats;
    struct mr_engine *e = engine_of(m, o);
    for (int i = 0; i < n; i++) {
        r.sampling.seed = (uint64_t)i;
        out[i] = (struct outcome){.id = submit(e, &r)};
    }
    run_to_end(e, out, n);
    mr_engine_get_stats(e, &stats);
    assert_int_equal(stats.kv_bytes_in_use, 0);
    mr_engine_free(e);
    return stats;
}

static void assert_same(const struct outcome *a, const struct outcome *b, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(a[i].n_token, b[i].n_token);
        assert_memory_equal(a[i].token, b[i].token, (size_t)a[i].n_token * sizeof *a->token);
        assert_memory_equal(a[i].logprob, b[i].logprob, (size_t)a[i].n_token * sizeof *a->logprob);
        assert_int_equal(a[i].finish, b[i].finish);
    }
}

static struct outcome plain[N_ANSWER], got[N_ANSWER];

static void a_twin_is_always_right(void **state)
{
    (void)state;
    for (int hot = 0; hot < 2; hot++) {
        const struct mr_request r = request(40, 60, (float)hot);
        const struct mr_options off = options_of(MR_SPECULATION_OFF), draft = options_of(MR_SPECULATION_DRAFT);
        const struct mr_engine_stats slow = run(twin, &off, r, plain, N_ANSWER), fast = run(twin, &draft, r, got, N_ANSWER);
        assert_same(got, plain, N_ANSWER);
        assert_true(fast.n_drafts_accepted > 0 && fast.n_drafts_accepted == fast.n_draft_rows);
        assert_true(fast.n_steps * 3 < slow.n_steps);
    }
}

static void whoever_is_nearly_right_saves_steps(void **state)
{
    (void)state;
    const struct mr_options off = options_of(MR_SPECULATION_OFF), draft = options_of(MR_SPECULATION_DRAFT);
    const struct mr_request r = request(40, 60, 1);
    const struct mr_engine_stats slow = run(near_twin, &off, r, plain, N_ANSWER),
                                 fast = run(near_twin, &draft, r, got, N_ANSWER);
    assert_same(got, plain, N_ANSWER);
    assert_true(fast.n_drafts_accepted > fast.n_draft_rows / 2);
    assert_true(fast.n_steps * 2 < slow.n_steps);
}

static void a_stranger_is_hardly_asked(void **state)
{
    (void)state;
    const struct mr_options off = options_of(MR_SPECULATION_OFF), automatic = options_of(MR_SPECULATION_AUTO);
    const struct mr_request r = request(40, 200, 1);
    run(stranger, &off, r, plain, N_ANSWER);
    const struct mr_engine_stats stats = run(stranger, &automatic, r, got, N_ANSWER);
    assert_same(got, plain, N_ANSWER);
    assert_in_range(stats.n_draft_rows, 1, 200 * N_ANSWER / 4);
}

static void first_layers_guess(void **state)
{
    (void)state;
    const struct mr_options off = options_of(MR_SPECULATION_OFF), layers = options_of(MR_SPECULATION_LAYERS);
    for (int hot = 0; hot < 2; hot++) {
        const struct mr_request r = request(40, 100, (float)hot);
        run(stranger, &off, r, plain, N_ANSWER);
        const struct mr_engine_stats stats = run(stranger, &layers, r, got, N_ANSWER);
        assert_same(got, plain, N_ANSWER);
        assert_true(stats.n_draft_rows > 0);
    }
}

/* Nothing is made for a method that nobody asks for; a request may be the first who does. */
static void first_layers_are_made_for_whoever_asks(void **state)
{
    (void)state;
    const struct mr_options automatic = options_of(MR_SPECULATION_AUTO);
    struct mr_engine *e = engine_of(stranger, &automatic);
    for (int asks = 0; asks < 2; asks++) {
        struct mr_request r = request(40, 60, 1);
        r.speculation = asks ? MR_SPECULATION_LAYERS : MR_SPECULATION_AUTO;
        got[asks] = (struct outcome){.id = submit(e, &r)};
        run_to_end(e, &got[asks], 1);
        assert_int_equal(e->draft_layers != NULL, asks);
    }
    assert_same(&got[1], &got[0], 1);
    assert_true(e->stats.drafts[MR_SPECULATION_LAYERS].n_drafted > 0);
    mr_engine_free(e);
}

/* A prompt of many rows is not computed again at a stroke. */
static void the_draft_model_catches_up_in_parts(void **state)
{
    (void)state;
    struct mr_options o = options_of(MR_SPECULATION_DRAFT);
    struct mr_engine *e = engine_of(twin, &o);
    const struct mr_request r = request(PROMPT_MAX, 40, 0);
    struct outcome out = {.id = submit(e, &r)};
    int n_before = 0;
    for (bool drafts = false; !drafts; n_before++) {
        assert_false(mr_engine_is_idle(e));
        mr_engine_step(e);
        take_events(e, &out, 1);
        drafts = e->shape.n_draft > 0;
    }
    assert_in_range(n_before, PROMPT_MAX / KV_BLOCK, PROMPT_MAX / KV_BLOCK + 3); /* CATCH_UP_MIN each */
    run_to_end(e, &out, 1);
    struct outcome again = {.id = submit(e, &r)}; /* whose prompt both caches have */
    mr_engine_step(e);
    take_events(e, &again, 1);
    mr_engine_step(e);
    assert_true(e->shape.n_draft > 0);
    run_to_end(e, &again, 1);
    assert_memory_equal(out.token, again.token, (size_t)out.n_token * sizeof *out.token);
    mr_engine_free(e);
}

static void answers_of_one_request_share_their_prompt(void **state)
{
    (void)state;
    struct mr_options o = options_of(MR_SPECULATION_DRAFT);
    struct mr_request r = request(120, 50, 1);
    struct outcome out[2][3];
    r.n = 3;
    for (int i = 0; i < 2; i++) {
        o.speculation = i == 0 ? MR_SPECULATION_OFF : MR_SPECULATION_DRAFT;
        struct mr_engine *e = engine_of(twin, &o);
        const uint64_t id = submit(e, &r);
        for (int k = 0; k < 3; k++)
            out[i][k] = (struct outcome){.id = id, .sample = k};
        run_to_end(e, out[i], 3);
        mr_engine_free(e);
    }
    assert_same(out[1], out[0], 3);
    assert_true(out[1][2].usage.n_accepted > 0 && out[1][2].usage.n_accepted == out[1][2].usage.n_drafted);
}

/* The cache has no room for all: answers are put aside and come back, the draft model's places with them. */
static void answers_that_were_put_aside_are_guessed_again(void **state)
{
    (void)state;
    struct mr_options off = options_of(MR_SPECULATION_OFF), draft = options_of(MR_SPECULATION_DRAFT);
    draft.kv_tokens = 300;
    draft.prefix_cache = false;
    const struct mr_request r = request(30, 100, 1);
    run(twin, &off, r, plain, N_ANSWER);
    const struct mr_engine_stats stats = run(twin, &draft, r, got, N_ANSWER);
    assert_same(got, plain, N_ANSWER);
    assert_true(stats.n_preempted > 0);
    assert_true(stats.n_drafts_accepted > 0 && stats.n_drafts_accepted == stats.n_draft_rows);
}

/* What a constraint forbids is not guessed. */
static void guesses_obey_the_constraint(void **state)
{
    (void)state;
    const struct mr_options off = options_of(MR_SPECULATION_OFF), draft = options_of(MR_SPECULATION_DRAFT);
    struct mr_request r = request(30, 100, 1);
    r.constraint = MR_CONSTRAINT_REGEX;
    r.constraint_text = "([a-f]{2} ){30}";
    r.ignore_eos = false;
    run(twin, &off, r, plain, N_ANSWER);
    const struct mr_engine_stats stats = run(twin, &draft, r, got, N_ANSWER);
    assert_same(got, plain, N_ANSWER);
    assert_true(stats.n_drafts_accepted > 0 && stats.n_drafts_accepted == stats.n_draft_rows);
}

static void a_method_without_its_model_is_refused(void **state)
{
    (void)state;
    struct mr_engine *e;
    struct mr_error err;
    struct mr_model *m = fixture_model(1);
    struct mr_options o = options_of(MR_SPECULATION_DRAFT);
    assert_int_equal(mr_engine_create(&e, m, &o, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "draft_model"));
    o = options_of(MR_SPECULATION_LAYERS);
    o.draft_layers = 100;
    assert_int_equal(mr_engine_create(&e, m, &o, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "draft_layers is 100"));
    mr_model_close(m);
}

/* A vocabulary of three tokens with one thing changed. */
struct vocabulary {
    const char *token[4];
    int n, end, type;
};

static struct tokenizer *tokenizer_of(const struct vocabulary *v)
{
    char path[] = "/tmp/millrace-vocabulary-XXXXXX";
    struct mr_error err = {{0}};
    struct gguf_writer *w;
    struct gguf *g;
    struct tokenizer *t;
    struct gguf_string token[4];
    int32_t type[4] = {3, 1, v->type, 1};
    for (int i = 0; i < v->n; i++)
        token[i] = (struct gguf_string){v->token[i], strlen(v->token[i])};
    close(mkstemp(path));
    check(gguf_writer_create(&w, path, &err), &err);
    check(gguf_put_string(w, "tokenizer.ggml.model", (struct gguf_string){"gpt2", 4}, &err), &err);
    check(gguf_put_string(w, "tokenizer.ggml.pre", (struct gguf_string){"gpt-2", 5}, &err), &err);
    check(gguf_put_strings(w, "tokenizer.ggml.tokens", token, v->n, &err), &err);
    check(gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, type, v->n, &err), &err);
    check(gguf_put_strings(w, "tokenizer.ggml.merges", NULL, 0, &err), &err);
    check(gguf_put_int(w, "tokenizer.ggml.eos_token_id", GGUF_U32, v->end, &err), &err);
    check(gguf_begin_data(w, &err), &err);
    check(gguf_writer_finish(w, &err), &err);
    gguf_writer_free(w);
    check(gguf_open(&g, path, &err), &err);
    check(tokenizer_create(&t, g, &err), &err);
    gguf_close(g);
    unlink(path);
    return t;
}

static void another_vocabulary_is_refused_with_the_first_difference(void **state)
{
    (void)state;
    static const struct vocabulary model = {{"<end>", "a", "b"}, 3, 0, 1};
    static const struct {
        struct vocabulary draft;
        const char *message;
    } cases[] = {
        {{{"<end>", "a", "b"}, 3, 0, 1}, NULL},
        {{{"<end>", "x", "y"}, 3, 0, 1}, "token 1 is 'x', but 'a' in the model"},
        {{{"<end>", "a", "b", "c"}, 4, 0, 1}, "it has 4 tokens, but the model 3"},
        {{{"<end>", "a", "b"}, 3, 0, 3}, "token 2, 'b', is special in the draft only"},
        {{{"<end>", "a", "b"}, 3, 2, 1}, "token 0, '<end>', ends an answer in the model only"},
    };
    struct tokenizer *target = tokenizer_of(&model);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_error err = {{0}};
        struct tokenizer *t = tokenizer_of(&cases[i].draft);
        const enum mr_status status = draft_model_compare(t, target, &err);
        assert_int_equal(status, cases[i].message == NULL ? MR_OK : MR_BAD_INPUT);
        if (cases[i].message != NULL)
            assert_string_equal(err.message, cases[i].message);
        tokenizer_free(t);
    }
    tokenizer_free(target);
}

static void a_file_that_is_no_draft_model_is_named(void **state)
{
    (void)state;
    char path[] = "/tmp/millrace-model-XXXXXX";
    struct mr_options o;
    struct mr_error err;
    struct mr_model *m;
    write_model(path, llama);
    mr_options_defaults(&o);
    o.draft_model = "/nowhere/draft.gguf";
    assert_int_equal(mr_model_open(&m, path, &o, &err), MR_NOT_FOUND);
    assert_null(m);
    assert_non_null(strstr(err.message, "draft model"));
    assert_non_null(strstr(err.message, "/nowhere/draft.gguf"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_twin_is_always_right),
        cmocka_unit_test(whoever_is_nearly_right_saves_steps),
        cmocka_unit_test(a_stranger_is_hardly_asked),
        cmocka_unit_test(first_layers_guess),
        cmocka_unit_test(first_layers_are_made_for_whoever_asks),
        cmocka_unit_test(the_draft_model_catches_up_in_parts),
        cmocka_unit_test(answers_of_one_request_share_their_prompt),
        cmocka_unit_test(answers_that_were_put_aside_are_guessed_again),
        cmocka_unit_test(guesses_obey_the_constraint),
        cmocka_unit_test(a_method_without_its_model_is_refused),
        cmocka_unit_test(another_vocabulary_is_refused_with_the_first_difference),
        cmocka_unit_test(a_file_that_is_no_draft_model_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
