/* test_block_tier.c: blocks in host memory and in files: what is damaged does not count, and nothing grows without bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/block_tier.h"

enum {
    BLOCK_BYTES = 500,
    RECORD_BYTES = BLOCK_BYTES + BLOCK_RECORD_HEADER,
    MINUTE_US = 60000000
};

static char folder[] = "/tmp/millrace-tier-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    return mkdtemp(folder) == NULL;
}

/* Call visit with the path of each record. */
static int each_file(void (*visit)(const char *path))
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strchr(e->d_name, '-') == NULL)
            continue;
        n++;
        if (visit != NULL)
            visit(path);
    }
    closedir(d);
    return n;
}

static void unlink_file(const char *path) { unlink(path); }

static int remove_folder(void **state)
{
    char path[512];
    (void)state;
    each_file(unlink_file);
    snprintf(path, sizeof path, "%s/lock", folder);
    unlink(path);
    return rmdir(folder);
}

static struct prefix_key key_of(int number)
{
    struct prefix_key key;
    prefix_key_seed(&key, &number, sizeof number);
    return key;
}

static bool identify(void *context, struct block_folder *f, struct prefix_key *out)
{
    (void)f;
    prefix_key_seed(out, context, strlen(context));
    return ((const char *)context)[0] != '!';
}

static struct block_tier *open_tier(const char *model, size_t host_bytes, size_t folder_bytes)
{
    static char name[64];
    struct block_tier_options o = {
        .host_bytes = host_bytes, .folder = folder, .folder_bytes = folder_bytes, .identify = identify, .context = name};
    struct mr_error err = {{0}};
    struct block_tier *t;
    snprintf(name, sizeof name, "%s", model);
    o.block_bytes[0] = o.block_bytes[1] = BLOCK_BYTES;
    if (block_tier_create(&t, &o, &err) != MR_OK)
        fail_msg("%s", err.message);
    assert_true(block_tier_await_ready(t, MINUTE_US));
    return t;
}

static bool put(struct block_tier *t, int number)
{
    const struct prefix_key key = key_of(number);
    void *contents = block_tier_put(t, &key, number % 2);
    if (contents == NULL)
        return false;
    memset(contents, number, BLOCK_BYTES);
    block_tier_put_end(t);
    return true;
}

static enum block_found find(struct block_tier *t, int number)
{
    const struct prefix_key key = key_of(number);
    return block_tier_find(t, &key, number % 2);
}

/* From a file or memory. false: it is not there, or was not whole. */
static bool get(struct block_tier *t, int number)
{
    const struct prefix_key key = key_of(number);
    for (int i = 0; find(t, number) == BLOCK_IN_FOLDER && i < 10000; i++) {
        block_tier_want(t, &key, number % 2);
        block_tier_wait(t, 10000);
    }
    const uint8_t *contents = block_tier_get(t, &key, number % 2);
    if (contents == NULL)
        return false;
    for (int i = 0; i < BLOCK_BYTES; i++)
        assert_int_equal(contents[i], (uint8_t)number);
    block_tier_get_end(t);
    return true;
}

static struct block_tier_stats stats_of(struct block_tier *t)
{
    struct block_tier_stats stats;
    block_tier_stats(t, &stats);
    return stats;
}

static void blocks_survive_a_restart(void **state)
{
    (void)state;
    struct block_tier *t = open_tier("a", 1 << 20, 1 << 20);
    for (int i = 0; i < 20; i++)
        assert_true(put(t, i));
    assert_false(put(t, 3)); /* it is here already */
    block_tier_flush(t);
    assert_int_equal(each_file(NULL), 20);
    block_tier_free(t);
    t = open_tier("a", 1 << 20, 1 << 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(find(t, i), BLOCK_IN_FOLDER);
        assert_true(get(t, i));
        assert_int_equal(find(t, i), BLOCK_IN_MEMORY);
    }
    assert_int_equal(find(t, 20), BLOCK_ABSENT);
    assert_int_equal(stats_of(t).n_read, 20);
    block_tier_free(t);
}

static void another_model_finds_nothing(void **state)
{
    (void)state;
    struct block_tier *t = open_tier("a", 1 << 20, 1 << 20);
    put(t, 1);
    block_tier_flush(t);
    block_tier_free(t);
    t = open_tier("b", 1 << 20, 1 << 20);
    assert_int_equal(find(t, 1), BLOCK_ABSENT);
    block_tier_free(t);
    t = open_tier("!", 1 << 20, 1 << 20); /* which cannot be named */
    assert_int_equal(stats_of(t).state, TIER_UNNAMED);
    assert_false(put(t, 2));
    block_tier_free(t);
}

static void memory_keeps_what_was_used_last(void **state)
{
    (void)state;
    struct block_tier *t = open_tier("a", 5 * RECORD_BYTES, 1 << 20);
    for (int i = 0; i < 12; i++) {
        assert_true(put(t, i));
        block_tier_flush(t); /* what is not in a file yet is not given up */
        assert_true(stats_of(t).host_bytes <= 5 * RECORD_BYTES);
        assert_true(get(t, 0));
    }
    assert_int_equal(find(t, 0), BLOCK_IN_MEMORY);
    assert_int_equal(find(t, 1), BLOCK_IN_FOLDER);
    assert_int_equal(find(t, 11), BLOCK_IN_MEMORY);
    block_tier_free(t);
}

static void files_stay_within_their_bytes(void **state)
{
    (void)state;
    struct block_tier *t = open_tier("a", 1 << 20, 6 * RECORD_BYTES + 10);
    for (int i = 0; i < 15; i++) {
        put(t, i);
        block_tier_flush(t);
        assert_true(stats_of(t).folder_bytes <= 6 * RECORD_BYTES);
        usleep(20000); /* times of files may be as coarse */
    }
    assert_int_equal(each_file(NULL), 6);
    block_tier_free(t);
    t = open_tier("a", 1 << 20, 4 * RECORD_BYTES); /* a smaller bound holds for what is there, too */
    assert_int_equal(each_file(NULL), 4);
    assert_int_equal(find(t, 14), BLOCK_IN_FOLDER);
    assert_int_equal(find(t, 9), BLOCK_ABSENT);
    block_tier_free(t);
}

static long damage_at;

static void damage(const char *path)
{
    FILE *f = fopen(path, "r+b");
    fseek(f, damage_at, SEEK_SET);
    const int byte = fgetc(f);
    fseek(f, damage_at, SEEK_SET);
    fputc(byte ^ 0x10, f);
    fclose(f);
}

static void cut(const char *path) { assert_int_equal(truncate(path, damage_at), 0); }

static void store_one(void)
{
    struct block_tier *t = open_tier("a", 1 << 20, 1 << 20);
    put(t, 7);
    block_tier_flush(t);
    block_tier_free(t);
    assert_int_equal(each_file(NULL), 1);
}

/* A damaged record is refused, counted and removed; the block can be stored again. */
static void assert_refused(void)
{
    struct block_tier *t = open_tier("a", 1 << 20, 1 << 20);
    assert_false(get(t, 7));
    assert_int_equal(stats_of(t).n_damaged, 1);
    assert_int_equal(each_file(NULL), 0);
    assert_true(put(t, 7));
    block_tier_flush(t);
    assert_true(get(t, 7));
    block_tier_free(t);
}

static void a_damaged_byte_anywhere_is_found(void **state)
{
    (void)state;
    for (damage_at = 0; damage_at < RECORD_BYTES; damage_at += damage_at < BLOCK_RECORD_HEADER ? 3 : 97) {
        store_one();
        each_file(damage);
        assert_refused();
    }
}

static void a_cut_or_grown_file_is_refused(void **state)
{
    static const long sizes[] = {0,     1, BLOCK_RECORD_HEADER - 1, BLOCK_RECORD_HEADER, RECORD_BYTES - 1, RECORD_BYTES + 1,
                                 100000};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        damage_at = sizes[i];
        store_one();
        each_file(cut);
        assert_refused();
    }
}

static void one_blocks_record_is_not_anothers(void **state)
{
    uint8_t record[RECORD_BYTES] = {0};
    struct block_name a, b;
    const struct prefix_key model = key_of(0), key = key_of(1), other = key_of(2);
    (void)state;
    block_name_make(&a, &model, &key, 0);
    block_record_seal(record, &a, BLOCK_BYTES);
    assert_int_equal(block_record_check(record, RECORD_BYTES, &a, BLOCK_BYTES, NULL), MR_OK);
    block_name_make(&b, &model, &key, 1);
    assert_int_equal(block_record_check(record, RECORD_BYTES, &b, BLOCK_BYTES, NULL), MR_BAD_FORMAT);
    block_name_make(&b, &model, &other, 0);
    assert_int_equal(block_record_check(record, RECORD_BYTES, &b, BLOCK_BYTES, NULL), MR_BAD_FORMAT);
    block_name_make(&b, &other, &key, 0);
    assert_int_equal(block_record_check(record, RECORD_BYTES, &b, BLOCK_BYTES, NULL), MR_BAD_FORMAT);
    assert_int_equal(block_record_check(record, RECORD_BYTES, &a, BLOCK_BYTES - 1, NULL), MR_BAD_FORMAT);
}

static void a_folder_serves_one_at_a_time(void **state)
{
    (void)state;
    struct block_tier *first = open_tier("a", 1 << 20, 1 << 20), *second = open_tier("a", 1 << 20, 1 << 20);
    assert_int_equal(stats_of(first).state, TIER_READY);
    assert_int_equal(stats_of(second).state, TIER_LOCKED);
    assert_true(put(second, 1)); /* memory is its own */
    assert_true(get(second, 1));
    assert_true(put(first, 2));
    block_tier_flush(first);
    block_tier_flush(second);
    assert_int_equal(each_file(NULL), 1);
    block_tier_free(first);
    block_tier_free(second);
    first = open_tier("a", 1 << 20, 1 << 20);
    assert_int_equal(stats_of(first).state, TIER_READY);
    block_tier_free(first);
}

static void a_full_disk_only_ends_the_writing(void **state)
{
    struct rlimit limit, small;
    (void)state;
    store_one();
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    small = (struct rlimit){.rlim_cur = BLOCK_BYTES, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    struct block_tier *t = open_tier("a", 8 * RECORD_BYTES, 1 << 20);
    for (int i = 20; i < 40; i++)
        put(t, i);
    block_tier_flush(t);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(stats_of(t).state, TIER_FULL);
    for (int i = 40; i < 60; i++) /* memory goes on */
        assert_true(put(t, i));
    assert_true(get(t, 59));
    assert_true(get(t, 7)); /* so do the files that are there */
    assert_int_equal(each_file(NULL), 1);
    block_tier_free(t);
}

static void foreign_and_half_written_files_are_no_records(void **state)
{
    static const char *const names[] = {"unfinished", "README", "0123-0", "model-x",
                                        "zz23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef-0"};
    char path[512];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "wb");
        fputs("?", f);
        fclose(f);
    }
    struct block_tier *t = open_tier("a", 1 << 20, 0); /* no room for files at all */
    assert_int_equal(stats_of(t).folder_bytes, 0);
    block_tier_free(t);
    snprintf(path, sizeof path, "%s/README", folder);
    assert_int_equal(unlink(path), 0); /* what is not ours was left alone */
    snprintf(path, sizeof path, "%s/unfinished", folder);
    assert_int_not_equal(unlink(path), 0);
}

static void a_folder_that_cannot_be_used_is_refused(void **state)
{
    const struct block_tier_options o = {.host_bytes = 1000, .folder = "/dev/null/x", .folder_bytes = 1000};
    struct mr_error err = {{0}};
    struct block_tier *t;
    (void)state;
    assert_int_equal(block_tier_create(&t, &o, &err), MR_IO);
    assert_non_null(strstr(err.message, "'/dev/null/x'"));
    assert_null(t);
}

#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(blocks_survive_a_restart),
        FOLDER_TEST(another_model_finds_nothing),
        FOLDER_TEST(memory_keeps_what_was_used_last),
        FOLDER_TEST(files_stay_within_their_bytes),
        FOLDER_TEST(a_damaged_byte_anywhere_is_found),
        FOLDER_TEST(a_cut_or_grown_file_is_refused),
        cmocka_unit_test(one_blocks_record_is_not_anothers),
        FOLDER_TEST(a_folder_serves_one_at_a_time),
        FOLDER_TEST(a_full_disk_only_ends_the_writing),
        FOLDER_TEST(foreign_and_half_written_files_are_no_records),
        cmocka_unit_test(a_folder_that_cannot_be_used_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
