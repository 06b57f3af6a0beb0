/* test_kv_policy.c: memory reserved for the longest sequence, and regions that grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cache/kv_cache.h"

enum {
    MAX_TOKEN = 1000,
    MAX_BLOCK = 63,
    ROWS = 64,
    WINDOW = 32,
    WINDOW_BLOCKS = (WINDOW + ROWS) / KV_BLOCK + 1
};

static int n_copy;

static void note_copy(void *context, int group, uint32_t to, uint32_t from)
{
    (void)context;
    (void)group;
    assert_true(to != from);
    n_copy++;
}

static struct kv_cache *make_cache(enum kv_policy policy, int n_block)
{
    const struct kv_config config = {
        .group = {{.n_layer = 1, .bytes_per_token = 10, .n_block = n_block},
                  {.n_layer = 1, .bytes_per_token = 10, .window = WINDOW, .n_block = n_block}},
        .n_group = 2,
        .n_seq = 3,
        .max_token = MAX_TOKEN,
        .copy = note_copy,
    };
    struct kv_cache *kv;
    n_copy = 0;
    assert_int_equal(kv_cache_create(&kv, &config, NULL), MR_OK);
    kv_set_policy(kv, policy, ROWS);
    return kv;
}

static enum mr_status write_to(struct kv_cache *kv, kv_seq seq, int n_token)
{
    while (kv_seq_length(kv, seq) < n_token) {
        const int left = n_token - kv_seq_length(kv, seq), n = left < ROWS ? left : ROWS;
        const enum mr_status status = kv_seq_reserve(kv, seq, n);
        if (status != MR_OK)
            return status;
        kv_seq_advance(kv, seq, n);
    }
    return MR_OK;
}

static void a_reserved_sequence_holds_the_longest_ones_blocks(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(KV_RESERVE, 2 * MAX_BLOCK + 5);
    kv_seq a, b, c;
    assert_int_equal(kv_seq_open(kv, &a), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 2 * MAX_BLOCK + 5); /* nothing before it is claimed */
    assert_int_equal(kv_seq_claim(kv, a, 1), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), MAX_BLOCK + 5);
    assert_int_equal(kv_n_free_blocks(kv, 1), 2 * MAX_BLOCK + 5 - WINDOW_BLOCKS);
    assert_int_equal(kv_seq_open(kv, &b), MR_OK);
    assert_int_equal(write_to(kv, b, 200), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 5); /* used or not */
    assert_int_equal(kv_seq_open(kv, &c), MR_OK);
    assert_int_equal(kv_seq_claim(kv, c, 1), MR_FULL);
    assert_int_equal(write_to(kv, a, MAX_TOKEN), MR_OK); /* what is its own cannot be taken by others */
    assert_int_equal(write_to(kv, b, MAX_TOKEN), MR_OK);
    assert_int_equal(n_copy, 0);
    kv_seq_close(kv, a);
    kv_seq_close(kv, b);
    assert_int_equal(kv_bytes_in_use(kv), 0);
    kv_cache_free(kv);
}

static void a_region_that_is_full_is_copied_into_one_twice_as_large(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(KV_GROW, 100);
    kv_seq a;
    assert_int_equal(kv_seq_open(kv, &a), MR_OK);
    assert_int_equal(write_to(kv, a, 3 * KV_BLOCK), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 100 - 4);
    n_copy = 0;
    assert_int_equal(write_to(kv, a, 4 * KV_BLOCK), MR_OK);
    assert_int_equal(n_copy, 0); /* the region had room */
    assert_int_equal(write_to(kv, a, 4 * KV_BLOCK + 1), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 100 - 8);
    assert_int_equal(n_copy, 4); /* the layers with a window have given blocks back */
    assert_int_equal(kv_bytes_copied(kv), 4 * KV_BLOCK * 10);
    kv_seq_close(kv, a);
    assert_int_equal(kv_bytes_in_use(kv), 0);
    kv_cache_free(kv);
}

static void growing_needs_the_old_and_the_new_region_at_once(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(KV_GROW, MAX_BLOCK);
    kv_seq a;
    assert_int_equal(kv_seq_open(kv, &a), MR_OK);
    assert_int_equal(write_to(kv, a, 32 * KV_BLOCK), MR_OK);
    assert_int_equal(kv_seq_reserve(kv, a, 1), MR_FULL); /* 32 and 63 blocks */
    assert_int_equal(kv_seq_length(kv, a), 32 * KV_BLOCK);
    kv_seq_close(kv, a);
    assert_int_equal(kv_seq_open(kv, &a), MR_OK); /* from the beginning it fits */
    assert_int_equal(kv_seq_claim(kv, a, 32 * KV_BLOCK + 1), MR_OK);
    assert_int_equal(write_to(kv, a, MAX_TOKEN), MR_OK);
    kv_cache_free(kv);
}

static void regions_are_not_shared(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(KV_GROW, 100);
    kv_seq a, b;
    assert_int_equal(kv_seq_open(kv, &a), MR_OK);
    assert_int_equal(write_to(kv, a, 20), MR_OK);
    assert_int_equal(kv_seq_fork(kv, &b, a, 16), MR_BAD_INPUT);
    kv_cache_free(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reserved_sequence_holds_the_longest_ones_blocks),
        cmocka_unit_test(a_region_that_is_full_is_copied_into_one_twice_as_large),
        cmocka_unit_test(growing_needs_the_old_and_the_new_region_at_once),
        cmocka_unit_test(regions_are_not_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
