/* test_embeddings.c: a prompt's vector is the same alone, in chunks, beside others and put aside in between; what pools it. */
#include <math.h>

#include "unit/engine/engine_fixture.h"

enum {
    N_PROMPT = 50,
    N_EMBD_MAX = 1024
};

static struct mr_model *model;
static int n_embd;
static int32_t prompt[256];

static struct mr_request request(int n_prompt, enum mr_pooling pooling)
{
    struct mr_request r;
    for (int i = 0; i < 256; i++)
        prompt[i] = 1 + i * 37 % 255;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.pooling = pooling;
    r.normalize = false;
    return r;
}

static void embed_in(struct mr_engine *e, struct outcome *o, const struct mr_request *r)
{
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
    assert_int_equal(o->finish, MR_FINISH_STOP);
    assert_int_equal(o->n_embedding, n_embd);
    assert_int_equal(o->n_token, 0);
}

static void embed(struct outcome *o, const struct mr_request *r, int chunk)
{
    struct mr_engine *e = fixture_engine(model, 1, chunk, 256);
    embed_in(e, o, r);
    mr_engine_free(e);
}

static bool same(const struct outcome *a, const struct outcome *b)
{
    return memcmp(a->embedding, b->embedding, sizeof a->embedding) == 0;
}

static void the_mean_is_that_of_the_last_rows_of_all_prefixes(void **state)
{
    (void)state;
    static struct outcome mean, last, first;
    double sum[N_EMBD_MAX] = {0};
    for (int n = 1; n <= N_PROMPT; n++) {
        const struct mr_request r = request(n, MR_POOLING_LAST);
        embed(&last, &r, 512);
        for (int j = 0; j < n_embd; j++)
            sum[j] += (double)last.embedding[j];
        if (n == 1)
            first = last;
    }
    struct mr_request r = request(N_PROMPT, MR_POOLING_MEAN);
    embed(&mean, &r, 512);
    for (int j = 0; j < n_embd; j++)
        assert_true(mean.embedding[j] == (float)(sum[j] / N_PROMPT));
    r.pooling = MR_POOLING_CLS;
    embed(&mean, &r, 512);
    assert_true(same(&mean, &first));
}

static void chunks_do_not_change_a_vector(void **state)
{
    (void)state;
    static struct outcome whole, got;
    for (int pooling = MR_POOLING_MEAN; pooling < MR_N_POOLINGS; pooling++) {
        const struct mr_request r = request(200, (enum mr_pooling)pooling); /* more rows than logits have room for */
        embed(&whole, &r, 256);
        for (int chunk = 1; chunk < 120; chunk += 23) {
            embed(&got, &r, chunk);
            assert_true(same(&got, &whole));
        }
    }
}

static void a_normalized_vector_has_the_length_1(void **state)
{
    (void)state;
    static struct outcome raw, got;
    struct mr_request r = request(N_PROMPT, MR_POOLING_MEAN);
    double squares = 0, raw_squares = 0;
    embed(&raw, &r, 512);
    r.normalize = true;
    embed(&got, &r, 512);
    for (int j = 0; j < n_embd; j++) {
        squares += (double)got.embedding[j] * (double)got.embedding[j];
        raw_squares += (double)raw.embedding[j] * (double)raw.embedding[j];
    }
    assert_true(fabs(squares - 1) < 1e-6);
    for (int j = 0; j < n_embd; j++)
        assert_true(fabs((double)got.embedding[j] * sqrt(raw_squares) - (double)raw.embedding[j]) < 1e-6);
}

/* Beside answers, and in a cache so small that all are put aside again and again. */
static void neighbours_do_not_change_a_vector(void **state)
{
    (void)state;
    enum {
        N = 8
    };
    static struct outcome alone[N], together[N];
    struct mr_request r[N];
    struct mr_options o;
    struct mr_error err = {{0}};
    struct mr_engine *e;
    mr_options_defaults(&o);
    o.max_running = N;
    o.prompt_chunk = 5; /* so that a prompt takes longer than answers need for a block */
    o.n_ctx = o.kv_tokens = 160;
    o.prefix_cache = false;
    for (int i = 0; i < N; i++) {
        const bool answers = i % 2 == 0;
        r[i] = request(answers ? 20 : 60 + i, answers ? MR_POOLING_NONE : (enum mr_pooling)(1 + i / 2 % 3));
        r[i].priority = answers; /* the others are put aside */
        r[i].max_tokens = 60;
        r[i].ignore_eos = true;
        struct mr_engine *plain = fixture_engine(model, 1, 512, 256);
        alone[i] = (struct outcome){.id = submit(plain, &r[i])};
        run_to_end(plain, &alone[i], 1);
        mr_engine_free(plain);
    }
    check(mr_engine_create(&e, model, &o, &err), &err);
    for (int i = 0; i < N; i++)
        together[i] = (struct outcome){.id = submit(e, &r[i])};
    run_to_end(e, together, N);
    int n_preempted = 0;
    for (int i = 0; i < N; i++) {
        n_preempted += i % 2 == 0 ? 0 : together[i].usage.n_preempted;
        assert_int_equal(together[i].n_embedding, i % 2 == 0 ? 0 : n_embd);
        assert_true(same(&together[i], &alone[i]));
        assert_memory_equal(together[i].token, alone[i].token, sizeof alone[i].token);
    }
    assert_true(n_preempted > 0);
    mr_engine_free(e);
}

static void the_cache_serves_what_the_last_token_pools(void **state)
{
    (void)state;
    static struct outcome first, second, answer;
    struct mr_engine *e = fixture_engine(model, 1, 512, 256);
    struct mr_request r = request(N_PROMPT, MR_POOLING_MEAN);
    embed_in(e, &first, &r);
    embed_in(e, &second, &r);
    assert_int_equal(second.usage.n_cached, 0);
    assert_int_equal(second.usage.cache_miss, MR_CACHE_OFF);
    assert_true(same(&first, &second));
    r.pooling = MR_POOLING_LAST;
    embed_in(e, &first, &r); /* what the mean has computed is shared */
    assert_int_equal(first.usage.n_cached, 48);
    embed(&second, &r, 512);
    assert_true(same(&first, &second));
    r.pooling = MR_POOLING_NONE;
    r.max_tokens = 3;
    answer = (struct outcome){.id = submit(e, &r)};
    run_to_end(e, &answer, 1);
    assert_int_equal(answer.usage.n_cached, 48);
    mr_engine_free(e);
}

static void a_prompt_may_fill_the_context(void **state)
{
    (void)state;
    static struct outcome o;
    uint64_t id;
    struct mr_error err;
    struct mr_engine *e = fixture_engine(model, 1, 512, 64);
    struct mr_request r = request(64, MR_POOLING_MEAN);
    embed_in(e, &o, &r);
    r.n_prompt = 65;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_string_equal(err.message, "the prompt has 65 tokens and the context 64");
    mr_engine_free(e);
}

static void what_makes_no_sense_with_a_vector_is_refused(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    struct mr_request r[6];
    for (int i = 0; i < 6; i++)
        r[i] = request(N_PROMPT, MR_POOLING_LAST);
    r[0].n = 2;
    r[1].best_of = 2;
    r[2].prompt_logprobs = 0;
    r[3].token_healing = true;
    r[4].constraint = MR_CONSTRAINT_JSON_OBJECT;
    r[5].pooling = MR_N_POOLINGS;
    for (int i = 0; i < 6; i++) {
        uint64_t id;
        struct mr_error err;
        assert_int_equal(mr_engine_submit(e, &r[i], &id, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, "pooling"));
    }
    mr_engine_free(e);
}

static void a_cancelled_embedding_frees_all(void **state)
{
    (void)state;
    static struct outcome o;
    struct mr_engine_stats stats;
    struct mr_engine *e = fixture_engine(model, 1, 16, 256);
    const struct mr_request r = request(100, MR_POOLING_MEAN);
    o = (struct outcome){.id = submit(e, &r)};
    mr_engine_step(e);
    assert_int_equal(mr_engine_cancel(e, o.id), MR_OK);
    take_events(e, &o, 1);
    assert_int_equal(o.finish, MR_FINISH_CANCELLED);
    assert_int_equal(o.n_embedding, 0);
    mr_engine_get_stats(e, &stats);
    assert_int_equal(stats.kv_bytes_in_use, 0);
    mr_engine_free(e);
}

static void the_model_says_what_pools_where_its_file_does_not(void **state)
{
    (void)state;
    struct mr_model_info info;
    mr_model_info(model, &info);
    assert_int_equal(info.pooling, MR_POOLING_LAST);
    assert_int_equal(info.n_embd, n_embd);
}

static int set_up(void **state)
{
    (void)state;
    model = fixture_model(2);
    n_embd = model_info(model->model)->n_embd;
    assert_true(n_embd <= N_EMBD_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_mean_is_that_of_the_last_rows_of_all_prefixes),
                                       cmocka_unit_test(chunks_do_not_change_a_vector),
                                       cmocka_unit_test(a_normalized_vector_has_the_length_1),
                                       cmocka_unit_test(neighbours_do_not_change_a_vector),
                                       cmocka_unit_test(the_cache_serves_what_the_last_token_pools),
                                       cmocka_unit_test(a_prompt_may_fill_the_context),
                                       cmocka_unit_test(what_makes_no_sense_with_a_vector_is_refused),
                                       cmocka_unit_test(a_cancelled_embedding_frees_all),
                                       cmocka_unit_test(the_model_says_what_pools_where_its_file_does_not)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
