/* test_prefix_index.c: prefixes are found by content, given back the least recently used first, and windows are minded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cache/prefix_index.h"

enum {
    N_BLOCK = 40,
    TEXT = 512
};

static struct kv_cache *kv;
static struct prefix_index *p;

/* Group 0 sees everything; with a window there is a group 1. */
static void make(int window)
{
    const struct kv_config config = {
        .group = {{.n_layer = 1, .bytes_per_token = 1, .n_block = N_BLOCK},
                  {.n_layer = 1, .bytes_per_token = 1, .window = window, .n_block = N_BLOCK}},
        .n_group = window > 0 ? 2 : 1,
        .n_seq = 8,
        .max_token = 1000,
    };
    assert_int_equal(kv_cache_create(&kv, &config, NULL), MR_OK);
    assert_int_equal(prefix_index_create(&p, kv, NULL), MR_OK);
}

static void end(void)
{
    prefix_index_free(p);
    for (int group = 0; group < kv_n_groups(kv); group++)
        assert_int_equal(kv_n_free_blocks(kv, group), N_BLOCK); /* nothing leaks */
    kv_cache_free(kv);
}

/* Keys of text `t`, which is that of text 0 for the first `same` tokens. */
static void keys_of(struct prefix_key *key, int t, int same)
{
    int32_t token[TEXT];
    for (int i = 0; i < TEXT; i++)
        token[i] = i * 7 % 100 + (i < same ? 0 : t * 1000);
    prefix_key_seed(&key[0], "seed", 4);
    const struct prefix_key seed = key[0];
    for (int b = 0; b < TEXT / KV_BLOCK; b++)
        prefix_key_next(&key[b], b == 0 ? &seed : &key[b - 1], token + (ptrdiff_t)b * KV_BLOCK);
}

/* A sequence that begins with what is there, computes the rest `chunk` tokens at a time, and ends. Returns the blocks found. */
static int run(const struct prefix_key *key, int n_block, int chunk)
{
    kv_seq seq;
    enum prefix_miss why;
    assert_int_equal(kv_seq_open(kv, &seq), MR_OK);
    const int found = prefix_index_match(p, key, n_block, &why);
    prefix_index_adopt(p, seq, key, found);
    for (int at = found; at < n_block; at += chunk) {
        const int n = n_block - at < chunk ? n_block - at : chunk;
        while (kv_seq_reserve(kv, seq, n * KV_BLOCK) == MR_FULL)
            for (int group = 0; group < kv_n_groups(kv); group++)
                if (kv_blocks_missing(kv, seq, group, n * KV_BLOCK) > kv_n_free_blocks(kv, group))
                    assert_true(prefix_index_evict(p, group));
        kv_seq_advance(kv, seq, n * KV_BLOCK);
        for (int b = at; b < at + n; b++)
            prefix_index_add(p, seq, key, b);
    }
    kv_seq_close(kv, seq);
    prefix_index_touch(p, key, n_block);
    return found;
}

static void keys_are_a_chain(void **state)
{
    (void)state;
    struct prefix_key a, b, c;
    int32_t token[KV_BLOCK] = {1, 2, 3};
    char hex[65];
    prefix_key_seed(&a, "abc", 3);
    for (int i = 0; i < 32; i++)
        snprintf(hex + (ptrdiff_t)i * 2, 3, "%02x", a.byte[i]);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); /* FIPS 180-2, B.1 */
    prefix_key_next(&b, &a, token);
    prefix_key_next(&c, &b, token);
    assert_memory_not_equal(&b, &c, sizeof b);
    token[15] = 1;
    prefix_key_next(&c, &a, token);
    assert_memory_not_equal(&b, &c, sizeof b);
}

static void what_was_computed_is_found_again(void **state)
{
    (void)state;
    struct prefix_key key[32], other[32];
    enum prefix_miss why;
    make(0);
    keys_of(key, 0, 0);
    keys_of(other, 1, 100); /* differs in the seventh block */
    assert_int_equal(run(key, 10, 3), 0);
    assert_int_equal(run(key, 10, 3), 10);
    assert_int_equal(prefix_index_match(p, key, 8, &why), 8);
    assert_int_equal(why, PREFIX_WHOLE);
    assert_int_equal(prefix_index_match(p, other, 10, &why), 6);
    assert_int_equal(why, PREFIX_UNKNOWN);
    assert_int_equal(kv_n_free_blocks(kv, 0), N_BLOCK - 10);
    assert_int_equal(prefix_index_n_idle(p, 0), 10);
    end();
}

static void the_least_recently_used_goes_first_its_end_before_its_beginning(void **state)
{
    (void)state;
    struct prefix_key a[32], b[32], c[32];
    enum prefix_miss why;
    make(0);
    keys_of(a, 1, 0);
    keys_of(b, 2, 0);
    keys_of(c, 3, 0);
    run(a, 15, 4);
    run(b, 15, 4);
    run(a, 15, 4); /* b is older now */
    run(c, 15, 4);
    assert_int_equal(prefix_index_match(p, a, 15, &why), 15);
    assert_int_equal(prefix_index_match(p, b, 15, &why), 10);
    assert_int_equal(why, PREFIX_EVICTED);
    assert_int_equal(prefix_index_match(p, c, 15, &why), 15);
    end();
}

static void blocks_of_a_running_sequence_stay(void **state)
{
    (void)state;
    struct prefix_key key[32];
    kv_seq seq;
    make(0);
    keys_of(key, 0, 0);
    run(key, 12, 12);
    assert_int_equal(kv_seq_open(kv, &seq), MR_OK);
    prefix_index_adopt(p, seq, key, 5);
    assert_int_equal(kv_seq_length(kv, seq), 80);
    int n = 0;
    while (prefix_index_evict(p, 0))
        n++;
    assert_int_equal(n, 7);
    kv_seq_close(kv, seq);
    assert_int_equal(prefix_index_n_idle(p, 0), 5);
    end();
}

static void a_window_needs_its_last_blocks_only(void **state)
{
    (void)state;
    struct prefix_key key[32];
    enum prefix_miss why;
    make(40);
    keys_of(key, 0, 0);
    run(key, 20, 20); /* at once: the window's blocks in front are gone before they are known */
    assert_int_equal(prefix_index_match(p, key, 20, &why), 20);
    assert_int_equal(prefix_index_match(p, key, 19, &why), 0);
    assert_int_equal(why, PREFIX_NO_WINDOW);
    assert_int_equal(run(key, 19, 1), 0); /* computed again, and now each end can be continued */
    for (int n = 1; n <= 20; n++)
        assert_int_equal(prefix_index_match(p, key, n, &why), n);
    end();
}

static void a_window_that_was_given_back_is_not_read(void **state)
{
    (void)state;
    struct prefix_key key[32];
    enum prefix_miss why;
    make(40);
    keys_of(key, 0, 0);
    run(key, 10, 1);
    assert_true(prefix_index_evict(p, 1)); /* of block 9, the end */
    assert_int_equal(prefix_index_match(p, key, 10, &why), 9);
    assert_int_equal(why, PREFIX_NO_WINDOW);
    assert_int_equal(run(key, 10, 1), 9); /* which completes the entry */
    assert_int_equal(prefix_index_match(p, key, 10, &why), 10);
    end();
}

static void many_texts_use_the_places_again(void **state)
{
    (void)state;
    struct prefix_key key[32];
    make(40);
    for (int t = 0; t < 200; t++) {
        keys_of(key, t, t % 5 * 40);
        run(key, 1 + t * 7 % 30, 1 + t % 6);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_a_chain),
        cmocka_unit_test(what_was_computed_is_found_again),
        cmocka_unit_test(the_least_recently_used_goes_first_its_end_before_its_beginning),
        cmocka_unit_test(blocks_of_a_running_sequence_stay),
        cmocka_unit_test(a_window_needs_its_last_blocks_only),
        cmocka_unit_test(a_window_that_was_given_back_is_not_read),
        cmocka_unit_test(many_texts_use_the_places_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
