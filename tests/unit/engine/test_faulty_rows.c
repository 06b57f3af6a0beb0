/* test_faulty_rows.c: NaN or infinity that comes up in one request's rows ends that request, with layer, step and position, and
 * no other. Its cause here is an adapter whose scale makes products overflow. */
#include "unit/engine/engine_fixture.h"
#include "unit/model/adapter_fixture.h"

enum {
    N = 6
};

static int32_t load(struct mr_model *m, const char *source, int seed, float alpha)
{
    char path[] = "/tmp/millrace-adapter-XXXXXX";
    struct mr_error err = {{0}};
    int32_t id;
    close(mkstemp(path));
    adapter_write(path, source, &(struct adapter_recipe){.rank = 4, .seed = seed, .alpha = alpha, .only = "attn_q"});
    check(mr_adapter_load(m, path, &id, &err), &err);
    unlink(path);
    return id;
}

static struct mr_request request(int i)
{
    static int32_t prompt[N][40];
    struct mr_request r;
    mr_request_defaults(&r);
    for (int k = 0; k < 40; k++)
        prompt[i][k] = 1 + (k * 37 + i) % 255;
    r.prompt = prompt[i];
    r.n_prompt = 10 + 4 * i;
    r.max_tokens = 20;
    r.ignore_eos = true;
    r.sampling.n_logprobs = 0;
    return r;
}

/* The requests at faulty[], which name the adapter, end with an error; the others as they do alone. */
static void check_requests(struct mr_model *m, const struct mr_adapter_use *use, const bool faulty[N], int chunk)
{
    static struct outcome alone[N], got[N];
    struct mr_engine *e = fixture_engine(m, N, chunk, 128);
    int n_error = 0, n_faulty = 0;
    for (int i = 0; i < N; i++) {
        struct mr_request r = request(i);
        alone[i] = (struct outcome){.id = submit(e, &r)};
        run_to_end(e, &alone[i], 1);
    }
    for (int i = 0; i < N; i++) {
        struct mr_request r = request(i);
        r.adapter = use;
        r.n_adapter = faulty[i];
        n_faulty += faulty[i];
        got[i] = (struct outcome){.id = submit(e, &r)};
    }
    while (!mr_engine_is_idle(e)) {
        struct mr_event event;
        mr_engine_step(e);
        while (mr_engine_next_event(e, &event)) {
            struct outcome *o = &got[event.request - got[0].id];
            if (event.token >= 0) {
                o->logprob[o->n_token] = event.logprob;
                o->token[o->n_token++] = event.token;
            }
            o->finish = event.finish;
            if (event.finish != MR_FINISH_ERROR)
                continue;
            n_error++;
            assert_int_equal(event.status, MR_BAD_FORMAT);
            assert_non_null(strstr(event.error, "layer 0: "));
            assert_non_null(strstr(event.error, " gave NaN or infinity at position 0"));
        }
    }
    assert_int_equal(n_error, n_faulty);
    for (int i = 0; i < N; i++) {
        assert_int_equal(got[i].finish, faulty[i] ? MR_FINISH_ERROR : MR_FINISH_LENGTH);
        if (!faulty[i])
            assert_memory_equal(got[i].logprob, alone[i].logprob, sizeof alone[i].logprob);
    }
    mr_engine_free(e);
}

static void a_faulty_row_ends_its_own_request(void **state)
{
    (void)state;
    static const bool one[N] = {false, false, true}, first[N] = {true}, some[N] = {false, true, true, false, true, false},
                      all[N] = {true, true, true, true, true, true};
    static const char *const source[] = {TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf",
                                         TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf",
                                         TEST_SOURCE_DIR "/golden/data/tiny_olmoe.gguf"};
    for (int k = 0; k < 3; k++) {
        struct mr_model *m = fixture_model_of(source[k], 2);
        const struct mr_adapter_use use = {load(m, source[k], 1, 3e38f), 100};
        for (int chunk = 7; chunk < 100; chunk += 80) {
            check_requests(m, &use, one, chunk);
            check_requests(m, &use, first, chunk);
            check_requests(m, &use, some, chunk);
            check_requests(m, &use, all, chunk);
        }
        mr_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_faulty_row_ends_its_own_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
