/* test_settings_fault.c: settings, keys and metrics with no memory are an error, and leak nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fault/failing_malloc.h"
#include "server/key_file.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/settings.h"

static const char yaml[] = "deployment:\n  alias: a\n  memory_pool: {cpu: 2.0}\n  prompt_cache: {pin: [a, b, c]}\n";

static enum mr_status settings_attempt(void *context)
{
    struct settings *s;
    struct string_buffer out;
    char keys[] = "MILLRACE_API_KEY=one,two";
    char *const environment[] = {keys, NULL};
    (void)context;
    MR_TRY(settings_create(&s, NULL));
    enum mr_status status = settings_read(s, yaml, sizeof yaml - 1, NULL);
    if (status == MR_OK)
        status = settings_read_environment(s, environment, NULL);
    string_buffer_init(&out);
    if (status == MR_OK)
        settings_write(s, &out);
    if (out.failed)
        status = MR_NO_MEMORY;
    string_buffer_release(&out);
    settings_free(s);
    return status;
}

static void settings_without_memory(void **state)
{
    (void)state;
    assert_true(check_every_allocation(settings_attempt, NULL) > 3);
}

static enum mr_status keys_attempt(void *context)
{
    static const char *const clear[] = {"one", "two"};
    struct key_ring *ring;
    MR_TRY(key_ring_create(&ring, clear, 2, context, NULL));
    const enum mr_status status = key_ring_reload(ring, NULL);
    const struct api_key *key = key_ring_find(ring, "two");
    assert_non_null(key); /* also where the reload failed */
    api_key_drop(key);
    key_ring_free(ring);
    return status;
}

static void keys_without_memory(void **state)
{
    char path[] = "/tmp/millrace-keys-XXXXXX";
    struct key_line line = {.name = "alice"};
    struct string_buffer text;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && key_line_hash(&line, "token"));
    string_buffer_init(&text);
    key_line_write(&text, &line);
    assert_int_equal(write(fd, text.s, text.n), (ssize_t)text.n);
    close(fd);
    string_buffer_release(&text);
    assert_true(check_every_allocation(keys_attempt, path) > 8);
    unlink(path);
}

static enum mr_status metrics_attempt(void *context)
{
    const struct metrics_options options = {0};
    struct metrics *m;
    struct string_buffer page;
    (void)context;
    MR_TRY(metrics_create(&m, &options, NULL));
    string_buffer_init(&page);
    enum mr_status status = metrics_model(m, "a") != NULL ? MR_OK : MR_NO_MEMORY;
    if (status == MR_OK)
        status = metrics_write(m, NULL, &page, NULL);
    string_buffer_release(&page);
    metrics_free(m);
    return status;
}

static void metrics_without_memory(void **state)
{
    (void)state;
    assert_true(check_every_allocation(metrics_attempt, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_without_memory),
        cmocka_unit_test(keys_without_memory),
        cmocka_unit_test(metrics_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
