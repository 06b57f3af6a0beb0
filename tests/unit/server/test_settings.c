/* test_settings.c: deployment files, right, wrong and hostile; the environment; what is shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/settings.h"

static struct settings *s;

static int make(void **state)
{
    (void)state;
    return settings_create(&s, NULL) != MR_OK;
}

static int destroy(void **state)
{
    (void)state;
    settings_free(s);
    return 0;
}

static const struct setting *row_of(const char *path)
{
    const struct setting *row = setting_table;
    while (row->path != NULL && strcmp(row->path, path) != 0)
        row++;
    assert_non_null(row->path);
    return row;
}

static enum mr_status read_text(const char *text, struct mr_error *err) { return settings_read(s, text, strlen(text), err); }

static void take(const char *text)
{
    struct mr_error err = {""};
    if (read_text(text, &err) != MR_OK)
        fail_msg("'%s': %s", text, err.message);
}

static void the_whole_file_is_taken(void **state)
{
    (void)state;
    take("model: models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
         "alias: smollm2\n"
         "device: auto                  # auto, cpu, cuda:0\n"
         "precision: int8\n"
         "max_batch_size: auto\n"
         "memory_pool: {cpu: 2.0, gpu: 0.9}\n"
         "scheduler: {latency_target_ms: 500, latency_metric: e2e, itl_target_ms: 40,\n"
         "            low_load: 0.5, high_load: 0.7, bucket_capacity: auto}\n"
         "prompt_cache: {pin: [a.txt, \"b c.txt\"]}\n"
         "warm_pool: {active: 1, standby: 0}\n"
         "speculation: {method: auto, draft_model: null, max_draft_tokens: 8}\n"
         "server: {host: 127.0.0.1, port: 8081, api_keys_file: null, max_queue: 100}\n");
    const struct server_settings *v = settings_values(s);
    assert_string_equal(v->model, "models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert_string_equal(v->alias, "smollm2");
    assert_int_equal(v->engine.precision, MR_PRECISION_INT8);
    assert_int_equal(v->engine.max_running, 32);
    assert_int_equal(v->memory_cpu_bytes, (size_t)2 << 30);
    assert_int_equal(v->engine.latency_target_ms, 500);
    assert_int_equal(v->engine.latency_metric, MR_LATENCY_E2E);
    assert_int_equal(v->engine.itl_target_ms, 40);
    assert_true(v->engine.low_load == 0.5F && v->engine.high_load == 0.7F);
    assert_int_equal(v->engine.bucket_capacity, 0);
    assert_int_equal(v->n_pin, 2);
    assert_string_equal(v->pin[1], "b c.txt");
    assert_int_equal(v->port, 8081);
    assert_int_equal(v->engine.max_queue, 100);
    assert_null(v->api_keys_file);
    assert_int_equal(settings_check(s, NULL), MR_OK);
}

static void the_published_file_needs_a_device_or_a_fallback(void **state)
{
    struct mr_error err;
    (void)state;
    take("deployment:\n  device: \"cuda:0\"\n  precision: \"fp16\"\n  max_batch_size: 8\n  memory_pool:\n    gpu: 0.9\n    "
         "cpu: 2.0\n");
    assert_string_equal(settings_values(s)->device, "cuda:0");
    assert_int_equal(settings_values(s)->engine.precision, MR_PRECISION_FP16);
    assert_int_equal(settings_values(s)->engine.max_running, 8);
    assert_int_equal(settings_values(s)->memory_cpu_bytes, (size_t)2 << 30);
    assert_int_equal(settings_check(s, &err), MR_NO_SUPPORT);
    assert_non_null(strstr(err.message, "device 'cuda:0'"));
    take("device_fallback: cpu\n");
    assert_int_equal(settings_check(s, NULL), MR_OK);
}

static void the_published_file_on_one_line(void **state)
{
    (void)state;
    take("deployment: {device: \"cuda:0\", precision: \"fp16\", max_batch_size: 8, memory_pool: {gpu: 0.9, cpu: 2.0}}");
    assert_int_equal(settings_values(s)->engine.max_running, 8);
}

static void sizes_have_units_or_are_gb(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {{"2", (size_t)2 << 30},
                 {"0.5", (size_t)1 << 29},
                 {"512M", (size_t)512 << 20},
                 {"\"2GB\"", (size_t)2 << 30},
                 {"auto", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "memory_pool: {cpu: %s}", cases[i].text);
        take(text);
        assert_int_equal(settings_values(s)->memory_cpu_bytes, cases[i].bytes);
    }
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"prot: 1", "line 1: unknown key 'prot'"},
        {"server:\n  prot: 1", "line 2: unknown key 'server.prot'"},
        {"server.port: 1", "line 1: unknown key 'server.port'"},
        {"\"\": 1", "line 1: unknown key ''"},
        {"deployment: {prot: 1}", "line 1: unknown key 'prot'"},
        {"alias: a\ndeployment: {}", "line 2: unknown key 'deployment'"},
        {"deployment: {}\nalias: a", "line 2: beside deployment stands another key"},
        {"deployment: {deployment: {}}", "unknown key 'deployment'"},
        {"deployment: 3", "deployment is a section"},
        {"server: 3", "line 1: server is a section: it holds keys"},
        {"server: [port]", "line 1: server is a section"},
        {"\n\nmax_batch_size: many", "line 3: max_batch_size: 'many' is not an integer from 1 to 64"},
        {"max_batch_size: 0", "max_batch_size: '0' is not an integer"},
        {"max_batch_size: 65", "is not an integer from 1 to 64"},
        {"max_batch_size: 8.5", "is not an integer"},
        {"max_batch_size: \"8\"", "max_batch_size: '8' in quotes is a text"},
        {"max_batch_size: [8]", "max_batch_size is a single value"},
        {"max_batch_size: {a: 8}", "max_batch_size is a single value"},
        {"max_batch_size:", "max_batch_size needs a value"},
        {"max_batch_size: 99999999999999999999", "is not an integer"},
        {"precision: fp8", "precision: 'fp8' is not one of auto, fp32, bf16, fp16, int8, int4"},
        {"mlock: yes", "mlock: 'yes' is not one of false, true"},
        {"device: gpu", "device: 'gpu' is not one of auto, cpu, cuda:0"},
        {"device: \"cuda:\"", "is not one of"},
        {"device: \"cuda:-1\"", "is not one of"},
        {"device: \"cuda:99\"", "is not one of"},
        {"alias: \"\"", "alias: is empty"},
        {"scheduler: {low_load: .nan}", "low_load: '.nan' is not a number"},
        {"scheduler: {low_load: nan}", "is not a number"},
        {"memory_pool: {cpu: 2 dogs}", "is not a size"},
        {"memory_pool: {cpu: -1}", "is not a size"},
        {"memory_pool: {gpu: 1.5}", "is not a number from 0 to 1"},
        {"prompt_cache: {pin: a.txt}", "prompt_cache.pin is a list"},
        {"prompt_cache: {pin: [[a]]}", "an entry of the list is no text"},
        {"prompt_cache: {pin: [~]}", "an entry of the list is no text"},
        {"server: {api_key: [secret]}", "server.api_key is not taken from a file"},
        {"alias: a\nalias: b", "line 2: alias stands twice"},
        {"server: {port: 1}\nserver: {host: a}", "line 2: server stands twice"},
        {"a: &x [*x]", "unknown key 'a'"},
        {"alias: &x a", "line 1: anchors and aliases are not taken"},
        {"alias: *x", "anchors and aliases are not taken"},
        {"alias: !!str a", "tags are not taken"},
        {"&x alias: a", "anchors and aliases"},
        {"alias: \"a\\0b\"", "a text holds a NUL character"},
        {"? [a]\n: b", "a key is a word"},
        {"- a", "the file holds no mapping"},
        {"text", "the file holds no mapping"},
        {"alias: a\n---\nalias: b", "a second document begins"},
        {"alias: [", "line "},
        {"alias: a\n\tport: 1", "line 2: "},
        {"\xff\xfe", "line "},
        {"%YAML 9.9\n---\nalias: a", "line "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_error err = {""};
        struct settings *mine = s;
        assert_int_equal(settings_create(&s, NULL), MR_OK);
        const enum mr_status status = read_text(cases[i].text, &err);
        settings_free(s);
        s = mine;
        if ((status != MR_BAD_INPUT && status != MR_BAD_FORMAT) || strstr(err.message, cases[i].message) == NULL)
            fail_msg("'%s' gives %d '%s'", cases[i].text, (int)status, err.message);
    }
}

static void empty_files_say_nothing(void **state)
{
    static const char *const cases[] = {"",     "\n",          "# only a comment\n", "---\n",         "{}",
                                        "null", "deployment:", "server:\n",          "deployment: {}"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        take(cases[i]);
    assert_int_equal(settings_values(s)->port, 8080);
}

/* Nine levels of nine aliases each would be 387 million scalars. */
static void a_bomb_of_aliases_does_not_go_off(void **state)
{
    struct string_buffer text;
    struct mr_error err;
    (void)state;
    string_buffer_init(&text);
    string_buffer_puts(&text, "a0: &a0 [lol]\n");
    for (int i = 1; i < 10; i++)
        string_buffer_printf(&text, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1, i - 1,
                             i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    assert_int_equal(read_text(text.s, &err), MR_BAD_INPUT);
    string_buffer_release(&text);
}

static void depth_and_length_have_limits(void **state)
{
    enum {
        N = SETTINGS_FILE_MAX
    };
    char *text = malloc(N + 1);
    (void)state;
    memset(text, '[', N);
    text[N] = '\0';
    assert_int_not_equal(settings_read(s, text, N, NULL), MR_OK);
    memcpy(text, "prompt_cache: {pin: ", 20);
    assert_int_not_equal(settings_read(s, text, N, NULL), MR_OK);
    memset(text, '#', N);
    assert_int_equal(settings_read(s, text, N, NULL), MR_OK);
    assert_int_equal(settings_read(s, text, N + 1, NULL), MR_BAD_FORMAT);
    free(text);
    assert_int_equal(settings_read_file(s, "/dev/zero", NULL), MR_BAD_FORMAT);
    assert_int_equal(settings_read_file(s, "/nonexistent.yaml", NULL), MR_NOT_FOUND);
}

static void the_environment_wins_over_the_file(void **state)
{
    char port[] = "MILLRACE_PORT=9000", admission[] = "MILLRACE_ADMISSION=false", keys[] = "MILLRACE_API_KEY=one,two";
    char other[] = "MILLRACE_PORTAL=x", pool[] = "MILLRACE_MEMORY_POOL_CPU=1.5";
    char *const environment[] = {port, admission, keys, other, pool, NULL};
    (void)state;
    take("server: {port: 8081}\nmax_batch_size: 4");
    assert_int_equal(settings_read_environment(s, environment, NULL), MR_OK);
    const struct server_settings *v = settings_values(s);
    assert_int_equal(v->port, 9000);
    assert_int_equal(v->engine.max_running, 4);
    assert_false(v->engine.admission);
    assert_int_equal(v->n_api_key, 2);
    assert_string_equal(v->api_key[1], "two");
    assert_int_equal(v->memory_cpu_bytes, (size_t)3 << 29);
}

static void a_wrong_variable_is_named(void **state)
{
    char port[] = "MILLRACE_PORT=http";
    char *const environment[] = {port, NULL};
    struct mr_error err;
    (void)state;
    assert_int_equal(settings_read_environment(s, environment, &err), MR_BAD_INPUT);
    assert_string_equal(err.message, "MILLRACE_PORT: 'http' is not an integer from 0 to 65535");
}

/* A secret that was not filled in must not open the server. */
static void an_empty_key_is_an_error(void **state)
{
    static const char *const texts[] = {"MILLRACE_API_KEY=", "MILLRACE_API_KEY=,"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", texts[i]);
        char *const environment[] = {text, NULL};
        assert_int_equal(settings_read_environment(s, environment, NULL), MR_BAD_INPUT);
    }
}

static void what_does_not_go_together_is_told(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"scheduler: {low_load: 0.9}", "scheduler.low_load is 0.9, above scheduler.high_load, 0.8"},
        {"server: {tls_key: a}", "belong together"},
        {"kv_tokens: 100\nmemory_pool: {cpu: 1}", "give one"},
        {"speculation: {method: draft}", "needs speculation.draft_model"},
        {"prompt_cache: {enabled: false, pin: [a]}", "needs prompt_cache.enabled"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_error err = {""};
        struct settings *mine = s;
        assert_int_equal(settings_create(&s, NULL), MR_OK);
        take(cases[i].text);
        assert_int_not_equal(settings_check(s, &err), MR_OK);
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("'%s' gives '%s'", cases[i].text, err.message);
        settings_free(s);
        s = mine;
    }
}

/* What is shown, read again, says the same. */
static void what_is_shown_says_the_same(void **state)
{
    static const char *const key[] = {"top secret"};
    struct string_buffer first, second;
    (void)state;
    take("alias: \"a \\\"quoted\\\" \\\\ name\\n\"\nmlock: true\nmemory_pool: {cpu: 2.2}\nprompt_cache: {pin: [a, b]}\n"
         "server: {max_body_bytes: 1000001, port: 0}\nspeculation: {method: none}\ndevice_fallback: cpu\nscheduler: {low_load: "
         "0.3}");
    assert_int_equal(settings_give(s, row_of("server.api_key"), key, 1, SETTINGS_COMMAND_LINE, NULL), MR_OK);
    string_buffer_init(&first);
    string_buffer_init(&second);
    settings_write(s, &first);
    assert_null(strstr(first.s, "secret"));
    assert_non_null(strstr(first.s, "max_body_bytes: 1000001B  # file\n"));
    assert_non_null(strstr(first.s, "max_connections: 10000  # default\n"));
    struct settings *mine = s;
    assert_int_equal(settings_create(&s, NULL), MR_OK);
    take(first.s);
    settings_write(s, &second);
    settings_free(s);
    s = mine;
    for (char *at = first.s; (at = strstr(at, "# default")) != NULL;)
        memcpy(at, "# file   ", 9);
    char *a = first.s, *b = second.s;
    while (*a != '\0' && *b != '\0') { /* but for where it comes from */
        const size_t n = strcspn(a, "#"), m = strcspn(b, "#");
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        a += n + strcspn(a + n, "\n");
        b += m + strcspn(b + m, "\n");
    }
    string_buffer_release(&first);
    string_buffer_release(&second);
}

static void the_table_is_consistent(void **state)
{
    (void)state;
    for (const struct setting *a = setting_table; a->path != NULL; a++) {
        assert_non_null(a->flag);
        assert_non_null(a->help);
        assert_true(a->kind != SETTING_CHOICE || a->choice != NULL);
        for (const struct setting *b = a + 1; b->path != NULL; b++) {
            assert_string_not_equal(a->path, b->path);
            assert_string_not_equal(a->flag, b->flag);
            assert_true(a->letter == 0 || a->letter != b->letter);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, destroy)
    const struct CMUnitTest tests[] = {
        TEST(the_whole_file_is_taken),
        TEST(the_published_file_needs_a_device_or_a_fallback),
        TEST(the_published_file_on_one_line),
        TEST(sizes_have_units_or_are_gb),
        TEST(what_is_wrong_is_named_with_its_line),
        TEST(empty_files_say_nothing),
        TEST(a_bomb_of_aliases_does_not_go_off),
        TEST(depth_and_length_have_limits),
        TEST(the_environment_wins_over_the_file),
        TEST(a_wrong_variable_is_named),
        TEST(an_empty_key_is_an_error),
        TEST(what_does_not_go_together_is_told),
        TEST(what_is_shown_says_the_same),
        TEST(the_table_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
