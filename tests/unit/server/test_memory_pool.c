/* test_memory_pool.c: how many tokens the cache holds, by what is given or free. */
#include "server/memory_pool.h"
#include "unit/engine/engine_fixture.h"

static int setup(void **state)
{
    *state = fixture_model(1);
    return 0;
}

static int teardown(void **state)
{
    mr_model_close(*state);
    return 0;
}

static struct mr_options options_of(int32_t n_ctx)
{
    struct mr_options o;
    mr_options_defaults(&o);
    o.max_running = 4;
    o.n_ctx = n_ctx;
    o.reference_bytes = 0; /* which would lie beside it */
    return o;
}

static void enough_memory_leaves_all_sequences_their_length(void **state)
{
    struct mr_options o = options_of(64);
    struct mr_error err = {{0}};
    check(memory_pool_fit(&o, *state, (size_t)1 << 30, &err), &err);
    assert_int_equal(o.kv_tokens, 0);
}

static void less_memory_is_shared_by_the_sequences(void **state)
{
    struct mr_options o = options_of(64), whole = options_of(64);
    struct mr_error err = {{0}};
    check(memory_pool_divide(&whole, *state, (size_t)1 << 20, &err), &err);
    const size_t each = ((size_t)1 << 20) / (size_t)whole.kv_tokens;
    check(memory_pool_fit(&o, *state, each * 128 / 3 * 4, &err), &err);
    assert_in_range(o.kv_tokens, 100, 128);
    assert_int_equal(o.n_ctx, 64);
}

static void a_context_without_room_is_refused(void **state)
{
    struct mr_options o = options_of(64);
    struct mr_error err = {{0}};
    assert_int_equal(memory_pool_fit(&o, *state, 4096, &err), MR_NO_MEMORY);
    assert_non_null(strstr(err.message, "3072 bytes"));
    o = options_of(0);
    assert_int_equal(memory_pool_fit(&o, *state, 0, &err), MR_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(enough_memory_leaves_all_sequences_their_length, setup, teardown),
        cmocka_unit_test_setup_teardown(less_memory_is_shared_by_the_sequences, setup, teardown),
        cmocka_unit_test_setup_teardown(a_context_without_room_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
