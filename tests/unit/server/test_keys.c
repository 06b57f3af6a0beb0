/* test_keys.c: API keys: found by their tokens alone, limited by their own clock, reloaded under requests. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/key_file.h"
#include "server/keys.h"

enum {
    MINUTE_US = 60 * 1000 * 1000
};

static char path[] = "/tmp/millrace-keys-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A line for `name` whose token is "token-NAME". */
static void add_line(struct string_buffer *out, const char *name, struct key_limits limits, const char *models)
{
    struct key_line line = {.limits = limits};
    char token[64];
    snprintf(line.name, sizeof line.name, "%s", name);
    snprintf(line.models, sizeof line.models, "%s", models);
    snprintf(token, sizeof token, "token-%s", name);
    assert_true(key_line_hash(&line, token));
    key_line_write(out, &line);
}

static struct key_ring *ring_of(const char *name, struct key_limits limits, const char *models)
{
    struct key_ring *ring;
    struct string_buffer text;
    string_buffer_init(&text);
    string_buffer_puts(&text, "# keys\n\n");
    add_line(&text, name, limits, models);
    add_line(&text, "other", (struct key_limits){0}, "");
    write_file(text.s);
    string_buffer_release(&text);
    assert_int_equal(key_ring_create(&ring, NULL, 0, path, NULL), MR_OK);
    return ring;
}

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void a_key_is_found_by_its_whole_token_alone(void **state)
{
    static const char *const clear[] = {"secret", "secret2"};
    static const char *const wrong[] = {"", "secre", "secret3", "Secret", "key-1", "token-alice"};
    struct key_ring *ring;
    (void)state;
    assert_int_equal(key_ring_create(&ring, clear, 2, NULL, NULL), MR_OK);
    const struct api_key *first = key_ring_find(ring, "secret"), *second = key_ring_find(ring, "secret2");
    assert_string_equal(first->name, "key-1");
    assert_string_equal(second->name, "key-2");
    assert_true(first->id != second->id);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(key_ring_find(ring, wrong[i]));
    api_key_drop(first);
    api_key_drop(second);
    key_ring_free(ring);
}

static void a_token_too_long_is_nobodys(void **state)
{
    static const char *const clear[] = {"a"};
    struct key_ring *ring;
    char *token = malloc(1 << 20);
    (void)state;
    memset(token, 'a', (1 << 20) - 1);
    token[(1 << 20) - 1] = '\0';
    assert_int_equal(key_ring_create(&ring, clear, 1, NULL, NULL), MR_OK);
    assert_null(key_ring_find(ring, token));
    key_ring_free(ring);
    free(token);
}

static void the_file_holds_no_token(void **state)
{
    struct string_buffer text;
    (void)state;
    string_buffer_init(&text);
    add_line(&text, "alice", (struct key_limits){60, 1000, 2}, "a,b");
    assert_null(strstr(text.s, "token-alice"));
    assert_non_null(strstr(text.s, " requests_per_minute=60 tokens_per_minute=1000 concurrency=2 models=a,b\n"));
    string_buffer_release(&text);
}

static void wrong_lines_are_named(void **state)
{
#define HASH "sha256:00112233445566778899aabbccddeeff:000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "has no key"},
        {"# only a comment\n", "has no key"},
        {"\nalice\n", "line 2: key 'alice' has no hash"},
        {"alice sha256:00:00", "line 1: key 'alice' has no hash"},
        {"alice " HASH "0", "line 1: key 'alice' has no hash"},
        {"al/ice " HASH, "line 1: a name has"},
        {"alice " HASH "\nalice " HASH, "key 'alice' stands twice"},
        {"alice " HASH " concurrency=0", "line 1: concurrency '0' is not a number"},
        {"alice " HASH " concurrency=1e3", "is not a number"},
        {"alice " HASH " concurrency=-1", "is not a number"},
        {"alice " HASH " concurrency=99999999999", "is not a number"},
        {"alice " HASH " concurrency=1 concurrency=1", "concurrency stands twice"},
        {"alice " HASH " models=", "models is empty"},
        {"alice " HASH " colour=red", "'colour' is none of"},
        {"alice " HASH " models", "'models' is not NAME=VALUE"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct key_ring *ring;
        struct mr_error err;
        write_file(cases[i].text);
        assert_int_not_equal(key_ring_create(&ring, NULL, 0, path, &err), MR_OK);
        assert_null(ring);
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("'%s' gives '%s'", cases[i].text, err.message);
    }
}

static void no_key_or_no_file_is_an_error(void **state)
{
    static const char *const empty[] = {""};
    struct key_ring *ring;
    (void)state;
    assert_int_equal(key_ring_create(&ring, NULL, 0, NULL, NULL), MR_BAD_INPUT);
    assert_int_equal(key_ring_create(&ring, empty, 1, NULL, NULL), MR_BAD_INPUT);
    assert_int_equal(key_ring_create(&ring, NULL, 0, "/nonexistent/keys", NULL), MR_NOT_FOUND);
    assert_int_equal(key_ring_create(&ring, NULL, 0, "/dev/zero", NULL), MR_BAD_FORMAT);
}

static void models_are_a_scope(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){0}, "small,large");
    const struct api_key *alice = key_ring_find(ring, "token-alice"), *other = key_ring_find(ring, "token-other");
    (void)state;
    assert_true(api_key_allows(alice, "small"));
    assert_true(api_key_allows(alice, "large"));
    assert_false(api_key_allows(alice, "smal"));
    assert_false(api_key_allows(alice, "small,large"));
    assert_false(api_key_allows(alice, ""));
    assert_true(api_key_allows(other, "anything"));
    api_key_drop(alice);
    api_key_drop(other);
    key_ring_free(ring);
}

static void requests_flow_back_evenly(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){.requests_per_minute = 6}, "");
    const struct api_key *k = key_ring_find(ring, "token-alice");
    struct mr_error err;
    int64_t wait = 0;
    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(api_key_enter(k, 0, 1000, &wait, &err), MR_OK);
        api_key_leave(k, 0, 1000);
    }
    assert_int_equal(api_key_enter(k, 0, 1000, &wait, &err), MR_BUSY);
    assert_string_equal(err.message, "key 'alice' may send 6 requests a minute");
    assert_in_range(wait, 10000, 10001);
    assert_int_equal(api_key_enter(k, 0, 1000 + (wait - 10) * 1000, &wait, &err), MR_BUSY);
    assert_int_equal(api_key_enter(k, 0, 1000 + MINUTE_US / 6 + 1000, &wait, &err), MR_OK);
    assert_int_equal(api_key_enter(k, 0, 1000 + MINUTE_US / 6 + 1000, &wait, &err), MR_BUSY);
    api_key_drop(k);
    key_ring_free(ring);
}

static void answers_are_charged_at_their_end(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){.tokens_per_minute = 600}, "");
    const struct api_key *k = key_ring_find(ring, "token-alice");
    int64_t wait = 0;
    (void)state;
    assert_int_equal(api_key_enter(k, 100, 0, &wait, NULL), MR_OK);
    api_key_leave(k, 700, 0);
    assert_int_equal(api_key_enter(k, 100, 0, &wait, NULL), MR_BUSY);
    assert_in_range(wait, 30000, 30001);
    assert_int_equal(api_key_enter(k, 100, MINUTE_US / 2, &wait, NULL), MR_OK);
    api_key_drop(k);
    key_ring_free(ring);
}

static void a_request_above_the_limit_enters_alone(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){.tokens_per_minute = 100}, "");
    const struct api_key *k = key_ring_find(ring, "token-alice");
    int64_t wait = 0;
    (void)state;
    assert_int_equal(api_key_enter(k, 1000, 0, &wait, NULL), MR_OK);
    assert_int_equal(api_key_enter(k, 1, 0, &wait, NULL), MR_BUSY);
    assert_in_range(wait, 9 * 60000, 10 * 60000);
    api_key_drop(k);
    key_ring_free(ring);
}

static void concurrency_counts_those_that_have_not_left(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){.concurrency = 2}, "");
    const struct api_key *k = key_ring_find(ring, "token-alice");
    struct mr_error err;
    int64_t wait = 0;
    (void)state;
    assert_int_equal(api_key_enter(k, 0, 0, &wait, &err), MR_OK);
    assert_int_equal(api_key_enter(k, 0, 0, &wait, &err), MR_OK);
    assert_int_equal(api_key_enter(k, 0, 0, &wait, &err), MR_BUSY);
    assert_true(wait > 0);
    api_key_leave(k, 0, 0);
    assert_int_equal(api_key_enter(k, 0, 0, &wait, &err), MR_OK);
    api_key_drop(k);
    key_ring_free(ring);
}

static void a_reload_keeps_what_is_held_and_what_was_used(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){.concurrency = 1}, "");
    const struct api_key *before = key_ring_find(ring, "token-alice");
    const struct api_key *other = key_ring_find(ring, "token-other");
    struct string_buffer text;
    int64_t wait = 0;
    (void)state;
    assert_int_equal(api_key_enter(before, 0, 0, &wait, NULL), MR_OK);
    string_buffer_init(&text);
    add_line(&text, "alice", (struct key_limits){.concurrency = 1, .requests_per_minute = 5}, "small");
    write_file(text.s);
    string_buffer_release(&text);
    assert_int_equal(key_ring_reload(ring, NULL), MR_OK);
    const struct api_key *after = key_ring_find(ring, "token-alice");
    assert_int_equal(after->limits.requests_per_minute, 5);
    assert_int_equal(after->id, before->id);
    assert_true(api_key_allows(before, "large"));
    assert_false(api_key_allows(after, "large"));
    assert_int_equal(api_key_enter(after, 0, 0, &wait, NULL), MR_BUSY);
    api_key_leave(before, 0, 0);
    assert_int_equal(api_key_enter(after, 0, 0, &wait, NULL), MR_OK);
    assert_null(key_ring_find(ring, "token-other"));
    key_ring_free(ring);
    assert_string_equal(other->name, "other"); /* held longer than the ring lives */
    api_key_drop(other);
    api_key_drop(before);
    api_key_drop(after);
}

static void a_damaged_file_changes_nothing_on_reload(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){0}, "");
    struct mr_error err;
    (void)state;
    write_file("alice\n");
    assert_int_equal(key_ring_reload(ring, &err), MR_BAD_FORMAT);
    const struct api_key *k = key_ring_find(ring, "token-alice");
    assert_non_null(k);
    api_key_drop(k);
    key_ring_free(ring);
}

static void *find_and_enter(void *context)
{
    struct key_ring *ring = context;
    for (int i = 0; i < 300; i++) {
        int64_t wait;
        const struct api_key *k = key_ring_find(ring, "token-alice");
        if (k != NULL && api_key_enter(k, 1, i, &wait, NULL) == MR_OK)
            api_key_leave(k, 1, i);
        api_key_drop(k);
    }
    return NULL;
}

static void keys_are_found_while_they_are_reloaded(void **state)
{
    struct key_ring *ring = ring_of("alice", (struct key_limits){.tokens_per_minute = 1000000}, "");
    pthread_t thread[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, find_and_enter, ring), 0);
    for (int i = 0; i < 30; i++)
        assert_int_equal(key_ring_reload(ring, NULL), MR_OK);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    key_ring_free(ring);
}

static void made_tokens_differ(void **state)
{
    char a[KEY_MADE_TOKEN_MAX], b[KEY_MADE_TOKEN_MAX];
    (void)state;
    assert_true(key_make_token(a) && key_make_token(b));
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_by_its_whole_token_alone),
        cmocka_unit_test(a_token_too_long_is_nobodys),
        cmocka_unit_test(the_file_holds_no_token),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(no_key_or_no_file_is_an_error),
        cmocka_unit_test(models_are_a_scope),
        cmocka_unit_test(requests_flow_back_evenly),
        cmocka_unit_test(answers_are_charged_at_their_end),
        cmocka_unit_test(a_request_above_the_limit_enters_alone),
        cmocka_unit_test(concurrency_counts_those_that_have_not_left),
        cmocka_unit_test(a_reload_keeps_what_is_held_and_what_was_used),
        cmocka_unit_test(a_damaged_file_changes_nothing_on_reload),
        cmocka_unit_test(keys_are_found_while_they_are_reloaded),
        cmocka_unit_test(made_tokens_differ),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
