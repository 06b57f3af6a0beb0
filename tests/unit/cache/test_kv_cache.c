/* test_kv_cache.c: block tables, sharing, windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cache/kv_cache.h"

struct copies {
    int n;
    int group;
    uint32_t to, from;
};

static void note_copy(void *context, int group, uint32_t to, uint32_t from)
{
    struct copies *c = context;
    *c = (struct copies){c->n + 1, group, to, from};
}

static struct copies copies;

/* Group 0 sees everything, group 1 the last `window` tokens; n_block blocks each. */
static struct kv_cache *make_cache(int window, int n_block)
{
    copies = (struct copies){0};
    const struct kv_config config = {
        .group = {{.n_layer = 2, .bytes_per_token = 100, .n_block = n_block},
                  {.n_layer = 1, .bytes_per_token = 10, .window = window, .n_block = n_block}},
        .n_group = window > 0 ? 2 : 1,
        .n_seq = 3,
        .max_token = 1000,
        .copy = note_copy,
        .context = &copies,
    };
    struct kv_cache *kv;
    assert_int_equal(kv_cache_create(&kv, &config, NULL), MR_OK);
    return kv;
}

static kv_seq open_with(struct kv_cache *kv, int n_token)
{
    kv_seq seq;
    assert_int_equal(kv_seq_open(kv, &seq), MR_OK);
    assert_int_equal(kv_seq_reserve(kv, seq, n_token), MR_OK);
    kv_seq_advance(kv, seq, n_token);
    return seq;
}

static void blocks_are_taken_as_tokens_come(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(0, 10);
    const kv_seq seq = open_with(kv, 16);
    assert_int_equal(kv_n_free_blocks(kv, 0), 9);
    assert_int_equal(kv_seq_reserve(kv, seq, 1), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 8);
    assert_int_equal(kv_seq_reserve(kv, seq, 1), MR_OK); /* room once made is not made again */
    assert_int_equal(kv_n_free_blocks(kv, 0), 8);
    assert_int_equal(kv_bytes_in_use(kv), 2 * 16 * 100);
    assert_int_equal(kv_seq_length(kv, seq), 16);
    kv_seq_close(kv, seq);
    assert_int_equal(kv_n_free_blocks(kv, 0), 10);
    assert_int_equal(kv_bytes_in_use(kv), 0);
    kv_cache_free(kv);
}

static void full_changes_nothing(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(8, 3);
    const kv_seq a = open_with(kv, 20), b = open_with(kv, 5);
    assert_int_equal(kv_n_free_blocks(kv, 0), 0);
    assert_int_equal(kv_seq_reserve(kv, a, 13), MR_FULL);
    assert_int_equal(kv_seq_length(kv, a), 20);
    assert_int_equal(kv_seq_reserve(kv, a, 12), MR_OK);
    kv_seq_close(kv, b);
    assert_int_equal(kv_seq_reserve(kv, a, 13), MR_OK);
    assert_int_equal(kv_seq_reserve(kv, a, 981), MR_BAD_INPUT); /* 20 + 981 > max_token */
    kv_cache_free(kv);
}

static void sequences_run_out(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(0, 3);
    kv_seq seq;
    for (int i = 0; i < 3; i++)
        assert_int_equal(kv_seq_open(kv, &seq), MR_OK);
    assert_int_equal(kv_seq_open(kv, &seq), MR_FULL);
    kv_seq_close(kv, 1);
    assert_int_equal(kv_seq_open(kv, &seq), MR_OK);
    assert_int_equal(seq, 1);
    kv_cache_free(kv);
}

static void fork_shares_and_the_first_write_copies(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(0, 10);
    const kv_seq a = open_with(kv, 40);
    kv_seq b;
    assert_int_equal(kv_seq_fork(kv, &b, a, 20), MR_OK);
    assert_int_equal(kv_seq_length(kv, b), 20);
    assert_int_equal(kv_n_free_blocks(kv, 0), 7);
    assert_int_equal(kv_seq_blocks(kv, b, 0)[1], kv_seq_blocks(kv, a, 0)[1]);
    assert_int_equal(kv_seq_reserve(kv, b, 1), MR_OK);
    assert_int_equal(copies.n, 1);
    assert_int_equal(copies.from, kv_seq_blocks(kv, a, 0)[1]);
    assert_int_equal(copies.to, kv_seq_blocks(kv, b, 0)[1]);
    assert_int_not_equal(copies.to, copies.from);
    assert_int_equal(kv_seq_blocks(kv, b, 0)[0], kv_seq_blocks(kv, a, 0)[0]);
    assert_int_equal(kv_seq_reserve(kv, b, 1), MR_OK);
    assert_int_equal(copies.n, 1);
    kv_seq_close(kv, a);
    assert_int_equal(kv_n_free_blocks(kv, 0), 8);
    kv_seq_close(kv, b);
    assert_int_equal(kv_n_free_blocks(kv, 0), 10);
    kv_cache_free(kv);
}

static void fork_at_a_block_border_copies_nothing(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(0, 10);
    const kv_seq a = open_with(kv, 32);
    kv_seq b;
    assert_int_equal(kv_seq_fork(kv, &b, a, 32), MR_OK);
    assert_int_equal(kv_seq_reserve(kv, b, 5), MR_OK);
    assert_int_equal(copies.n, 0);
    assert_int_equal(kv_seq_fork(kv, &b, a, 33), MR_BAD_INPUT);
    kv_cache_free(kv);
}

static void copy_shares_nothing(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(20, 10);
    const kv_seq from = open_with(kv, 40); /* group 1 has given back its first block */
    kv_seq to;
    assert_int_equal(kv_seq_copy(kv, &to, from, 40), MR_OK);
    assert_int_equal(kv_seq_length(kv, to), 40);
    assert_int_equal(copies.n, 3 + 2);
    assert_int_equal(kv_n_free_blocks(kv, 0), 4);
    assert_int_equal(kv_n_free_blocks(kv, 1), 6);
    assert_int_equal(kv_seq_blocks(kv, to, 1)[0], KV_NO_BLOCK);
    for (int b = 0; b < 3; b++)
        assert_int_not_equal(kv_seq_blocks(kv, to, 0)[b], kv_seq_blocks(kv, from, 0)[b]);
    kv_seq_close(kv, to);
    kv_seq_close(kv, from);
    assert_int_equal(kv_n_free_blocks(kv, 0), 10);
    assert_int_equal(kv_n_free_blocks(kv, 1), 10);
    kv_cache_free(kv);
}

static void copy_without_room_changes_nothing(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(0, 5);
    const kv_seq from = open_with(kv, 48);
    kv_seq to;
    assert_int_equal(kv_seq_copy(kv, &to, from, 48), MR_FULL);
    assert_int_equal(kv_n_free_blocks(kv, 0), 2);
    assert_int_equal(kv_seq_copy(kv, &to, from, 32), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 0);
    kv_cache_free(kv);
}

static void window_gives_back_what_no_later_token_reads(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(20, 100);
    const kv_seq seq = open_with(kv, 35); /* the token at 35 reads 16..35 */
    assert_int_equal(kv_n_free_blocks(kv, 0), 97);
    assert_int_equal(kv_n_free_blocks(kv, 1), 98);
    assert_int_equal(kv_seq_blocks(kv, seq, 1)[0], KV_NO_BLOCK);
    assert_int_not_equal(kv_seq_blocks(kv, seq, 1)[1], KV_NO_BLOCK);
    for (int i = 35; i < 900; i++) {
        assert_int_equal(kv_seq_reserve(kv, seq, 1), MR_OK);
        kv_seq_advance(kv, seq, 1);
        assert_true(100 - kv_n_free_blocks(kv, 1) <= 3);
    }
    kv_seq_close(kv, seq);
    assert_int_equal(kv_n_free_blocks(kv, 1), 100);
    kv_cache_free(kv);
}

static void drafts_are_taken_back_within_a_window(void **state)
{
    (void)state;
    for (int kept = 0; kept <= 40; kept++) {
        struct kv_cache *kv = make_cache(20, 100);
        const kv_seq seq = open_with(kv, 35), plain = open_with(kv, 36 + kept);
        assert_int_equal(kv_seq_reserve(kv, seq, 41), MR_OK);
        kv_seq_expect_drafts(kv, seq, 40);
        kv_seq_advance(kv, seq, 41);
        for (int b = kv_first_block(kv, 1, 36); b < 5; b++) /* what the token at 36 reads */
            assert_int_not_equal(kv_seq_blocks(kv, seq, 1)[b], KV_NO_BLOCK);
        kv_seq_settle(kv, seq, 36 + kept);
        assert_int_equal(kv_seq_length(kv, seq), 36 + kept);
        assert_int_equal(kv_seq_bytes(kv, seq), kv_seq_bytes(kv, plain)); /* as if they had never been */
        assert_int_equal(100 - kv_n_free_blocks(kv, 0), 2 * ((36 + kept + 15) / 16));
        kv_seq_close(kv, seq);
        kv_seq_close(kv, plain);
        assert_int_equal(kv_n_free_blocks(kv, 1), 100);
        kv_cache_free(kv);
    }
}

static void truncate_keeps_the_front(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(0, 10);
    const kv_seq seq = open_with(kv, 50);
    assert_int_equal(kv_seq_truncate(kv, seq, 17), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 8);
    assert_int_equal(kv_seq_length(kv, seq), 17);
    assert_int_equal(kv_seq_truncate(kv, seq, 18), MR_BAD_INPUT);
    assert_int_equal(kv_seq_truncate(kv, seq, 0), MR_OK);
    assert_int_equal(kv_n_free_blocks(kv, 0), 10);
    kv_cache_free(kv);
}

static void truncate_behind_a_window_is_refused(void **state)
{
    (void)state;
    struct kv_cache *kv = make_cache(20, 100);
    const kv_seq seq = open_with(kv, 100); /* held: from block 5 (position 80) on */
    assert_int_equal(kv_seq_truncate(kv, seq, 98), MR_BAD_INPUT);
    assert_int_equal(kv_seq_length(kv, seq), 100);
    assert_int_equal(kv_seq_truncate(kv, seq, 99), MR_OK);
    assert_int_equal(kv_seq_truncate(kv, seq, 0), MR_OK);
    assert_int_equal(kv_seq_reserve(kv, seq, 30), MR_OK);
    kv_seq_advance(kv, seq, 30);
    assert_int_not_equal(kv_seq_blocks(kv, seq, 1)[1], KV_NO_BLOCK);
    kv_cache_free(kv);
}

static void numbers_are_checked(void **state)
{
    (void)state;
    const struct kv_config good = {.group = {{.n_layer = 1, .n_block = 1}}, .n_group = 1, .n_seq = 1, .max_token = 1};
    struct kv_config c;
    struct kv_cache *kv;
    c = good, c.n_group = 0;
    assert_int_equal(kv_cache_create(&kv, &c, NULL), MR_BAD_INPUT);
    assert_null(kv);
    c = good, c.n_group = KV_MAX_GROUPS + 1;
    assert_int_equal(kv_cache_create(&kv, &c, NULL), MR_BAD_INPUT);
    c = good, c.n_seq = 0;
    assert_int_equal(kv_cache_create(&kv, &c, NULL), MR_BAD_INPUT);
    c = good, c.max_token = 0;
    assert_int_equal(kv_cache_create(&kv, &c, NULL), MR_BAD_INPUT);
    c = good, c.group[0].n_block = 0;
    assert_int_equal(kv_cache_create(&kv, &c, NULL), MR_BAD_INPUT);
    c = good, c.group[0].is_state = true;
    assert_int_equal(kv_cache_create(&kv, &c, NULL), MR_NO_SUPPORT);
    kv_cache_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_taken_as_tokens_come),
        cmocka_unit_test(full_changes_nothing),
        cmocka_unit_test(sequences_run_out),
        cmocka_unit_test(fork_shares_and_the_first_write_copies),
        cmocka_unit_test(fork_at_a_block_border_copies_nothing),
        cmocka_unit_test(copy_shares_nothing),
        cmocka_unit_test(copy_without_room_changes_nothing),
        cmocka_unit_test(window_gives_back_what_no_later_token_reads),
        cmocka_unit_test(drafts_are_taken_back_within_a_window),
        cmocka_unit_test(truncate_keeps_the_front),
        cmocka_unit_test(truncate_behind_a_window_is_refused),
        cmocka_unit_test(numbers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
