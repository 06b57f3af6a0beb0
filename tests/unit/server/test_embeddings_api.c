/* test_embeddings_api.c: vectors over HTTP, and those that are known already. */
#include "unit/server/api_fixture.h"

#include "server/api/embeddings.h"

static json_t *ask(struct api_fixture *f, const char *body, int n_computed)
{
    struct exchange x;
    api_ask(f, &x, embeddings_create, body);
    assert_int_equal(x.http, 200);
    assert_int_equal(x.n_generated, n_computed);
    json_t *reply = api_json(&x);
    fake_release(&x);
    return reply;
}

static void what_was_computed_is_known(void **state)
{
    json_t *first = ask(*state, "{\"input\": [\"hello\", \"world\"]}", 2);
    json_t *again = ask(*state, "{\"input\": \"world\"}", 0);
    json_t *more = ask(*state, "{\"input\": [\"world\", \"there\", \"hello\"]}", 1);
    assert_true(json_equal(api_at(first, "data.1.embedding"), api_at(again, "data.0.embedding")));
    assert_true(json_equal(api_at(first, "data.0.embedding"), api_at(more, "data.2.embedding")));
    assert_int_equal(json_integer_value(api_at(more, "usage.prompt_tokens")), 15);
    json_t *pooled = ask(*state, "{\"input\": \"world\", \"pooling\": \"mean\"}", 1);
    assert_false(json_equal(api_at(pooled, "data.0.embedding"), api_at(again, "data.0.embedding")));
    json_decref(first);
    json_decref(again);
    json_decref(more);
    json_decref(pooled);
}

static void base64_holds_the_same_floats(void **state)
{
    json_t *numbers = ask(*state, "{\"input\": \"abc\"}", 1);
    json_t *text = ask(*state, "{\"input\": \"abc\", \"encoding_format\": \"base64\"}", 0);
    const size_t n = json_array_size(api_at(numbers, "data.0.embedding"));
    const char *digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *s = api_string(text, "data.0.embedding");
    unsigned char bytes[4];
    for (size_t i = 0; i < 4; i++) { /* of the first float */
        const unsigned a = (unsigned)(strchr(digits, s[i / 3 * 4 + i % 3]) - digits);
        const unsigned b = (unsigned)(strchr(digits, s[i / 3 * 4 + i % 3 + 1]) - digits);
        bytes[i] = (unsigned char)(a << (2 + 2 * (i % 3)) | b >> (4 - 2 * (i % 3)));
    }
    float first;
    memcpy(&first, bytes, sizeof first);
    assert_int_equal(strlen(s), (n * 4 + 2) / 3 * 4);
    assert_true((double)first - json_number_value(api_at(numbers, "data.0.embedding.0")) < 1e-6);
    json_decref(numbers);
    json_decref(text);
}

static void a_wrong_field_is_named(void **state)
{
    static const struct refused r[] = {
        {"{}", "input", 400},
        {"{\"input\": \"\"}", "input", 400},
        {"{\"input\": []}", "input", 400},
        {"{\"input\": [\"a\", \"\"]}", "input[1]", 400},
        {"{\"input\": [[300]]}", "input[0][0]", 400},
        {"{\"input\": \"a\", \"encoding_format\": \"hex\"}", "encoding_format", 400},
        {"{\"input\": \"a\", \"dimensions\": 3}", "dimensions", 400},
        {"{\"input\": \"a\", \"pooling\": \"max\"}", "pooling", 400},
    };
    assert_refused(*state, embeddings_create, r, sizeof r / sizeof *r);
}

static void the_cache_stays_within_its_budget(void **state)
{
    enum {
        N = 64
    };
    (void)state;
    struct embedding_cache *c = embedding_cache_create(100 * (N * sizeof(float) + 64));
    float v[N] = {0}, got[N];
    uint8_t key[EMBEDDING_KEY_BYTES], used[EMBEDDING_KEY_BYTES];
    const int32_t first = 0;
    embedding_cache_key(used, "m", 1, &first, 1);
    for (int32_t i = 0; i < 1000; i++) {
        v[0] = (float)i;
        embedding_cache_key(key, "m", 1, &i, 1);
        embedding_cache_put(c, key, v, N);
        assert_true(embedding_cache_get(c, used, got, N)); /* what is used stays */
    }
    assert_true(embedding_cache_get(c, key, got, N) && got[0] > 998.0F);
    const int32_t old = 5;
    embedding_cache_key(key, "m", 1, &old, 1);
    assert_false(embedding_cache_get(c, key, got, N));
    assert_false(embedding_cache_get(c, used, got, N - 1));
    embedding_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_computed_is_known),
        cmocka_unit_test(base64_holds_the_same_floats),
        cmocka_unit_test(a_wrong_field_is_named),
        cmocka_unit_test(the_cache_stays_within_its_budget),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
