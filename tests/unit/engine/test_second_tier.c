/* test_second_tier.c: what left the cache, or the process, comes back, and the answers do not show it. */
#include <dirent.h>
#include <sys/stat.h>

#include "unit/engine/engine_fixture.h"

enum {
    N_CTX = 400
};

static char folder[] = "/tmp/millrace-tier-XXXXXX";
static struct mr_model *windowed, *whole;

static void each_file(void (*visit)(const char *path))
{
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strchr(e->d_name, '-') != NULL)
            visit(path);
    }
    closedir(d);
}

static void unlink_file(const char *path) { unlink(path); }

static int set_up(void **state)
{
    (void)state;
    windowed = fixture_model_of(TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf", 2);
    whole = fixture_model(2);
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    char path[512];
    (void)state;
    mr_model_close(windowed);
    mr_model_close(whole);
    each_file(unlink_file);
    snprintf(path, sizeof path, "%s/lock", folder);
    unlink(path);
    return rmdir(folder);
}

struct setting {
    struct mr_model *model;
    int max_running, kv_tokens;
    size_t host_bytes;
    const char *dir;
    bool prefix_cache;
};

/* Time stands still, so that what computing costs stays unknown, and whatever was kept is taken. */
static int64_t still(void *context)
{
    (void)context;
    return 1;
}

static struct mr_engine *engine_of(const struct setting *s)
{
    struct mr_options o;
    struct mr_error err = {{0}};
    struct mr_engine *e;
    mr_options_defaults(&o);
    o.n_ctx = N_CTX;
    o.prefix_cache = s->prefix_cache;
    o.max_running = s->max_running;
    o.kv_tokens = s->kv_tokens;
    o.cache_host_bytes = s->host_bytes;
    o.cache_dir = s->dir;
    o.prompt_chunk = 64;
    o.clock_us = still;
    check(mr_engine_create(&e, s->model, &o, &err), &err);
    return e;
}

struct text {
    int32_t token[N_CTX];
    struct mr_request request;
};

static const struct mr_request *text_of(struct text *x, int n, int t)
{
    for (int i = 0; i < n; i++)
        x->token[i] = 1 + (i * 37 + t * 11) % 255;
    mr_request_defaults(&x->request);
    x->request.prompt = x->token;
    x->request.n_prompt = n;
    x->request.max_tokens = 20;
    x->request.ignore_eos = true;
    x->request.sampling.n_logprobs = 0;
    x->request.sampling.seed = 7;
    return &x->request;
}

static void ask(struct mr_engine *e, struct outcome *o, const struct mr_request *r)
{
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
}

static void assert_as_alone(struct mr_model *model, const struct outcome *got, const struct mr_request *r)
{
    static struct outcome want;
    const struct setting plain = {.model = model, .max_running = 1};
    struct mr_engine *e = engine_of(&plain);
    ask(e, &want, r);
    assert_int_equal(got->n_token, want.n_token);
    assert_memory_equal(got->token, want.token, (size_t)want.n_token * sizeof *want.token);
    assert_memory_equal(got->logprob, want.logprob, (size_t)want.n_token * sizeof *want.logprob);
    mr_engine_free(e);
}

static struct mr_engine_stats stats_of(const struct mr_engine *e)
{
    struct mr_engine_stats stats;
    mr_engine_get_stats(e, &stats);
    return stats;
}

static struct outcome o;
static struct text x;

static void a_prompt_is_found_after_a_restart(void **state)
{
    (void)state;
    struct mr_model *const models[] = {whole, windowed};
    for (int m = 0; m < 2; m++) {
        const struct setting s = {.model = models[m], .max_running = 1, .dir = folder, .prefix_cache = true};
        struct mr_engine *e = engine_of(&s);
        ask(e, &o, text_of(&x, 321, m));
        assert_int_equal(o.usage.n_cached, 0);
        mr_engine_free(e);
        for (int i = 0; i < 2; i++) {
            e = engine_of(&s);
            ask(e, &o, text_of(&x, 321, m));
            assert_int_equal(o.usage.n_cached, 320);
            assert_int_equal(o.usage.n_restored, 320);
            assert_int_equal(o.usage.cache_miss, MR_CACHE_HIT);
            assert_int_equal(stats_of(e).n_prompt_rows, 1);
            assert_as_alone(models[m], &o, &x.request);
            mr_engine_free(e);
        }
    }
}

static void tenants_do_not_share_files(void **state)
{
    (void)state;
    const struct setting s = {.model = whole, .max_running = 1, .dir = folder, .prefix_cache = true};
    struct mr_engine *e = engine_of(&s);
    struct mr_request r = *text_of(&x, 100, 50);
    r.cache_salt = "one";
    ask(e, &o, &r);
    mr_engine_free(e);
    e = engine_of(&s);
    r.cache_salt = "another";
    ask(e, &o, &r);
    assert_int_equal(o.usage.n_cached, 0);
    mr_engine_free(e);
}

static int n_damaged;

static void damage(const char *path)
{
    struct stat st;
    FILE *f = fopen(path, "r+b");
    if (strstr(path, "/model-") == NULL && fstat(fileno(f), &st) == 0 && n_damaged % 3 == 0) {
        fseek(f, st.st_size / 2, SEEK_SET);
        const int byte = fgetc(f);
        fseek(f, st.st_size / 2, SEEK_SET);
        fputc(byte ^ 1, f);
    }
    n_damaged++;
    fclose(f);
}

static void damaged_files_are_computed_again(void **state)
{
    (void)state;
    struct mr_model *const models[] = {whole, windowed};
    for (int m = 0; m < 2; m++) {
        const struct setting s = {.model = models[m], .max_running = 1, .dir = folder, .prefix_cache = true};
        struct mr_engine *e = engine_of(&s);
        ask(e, &o, text_of(&x, 321, 20 + m));
        mr_engine_free(e);
        each_file(damage);
        e = engine_of(&s);
        ask(e, &o, text_of(&x, 321, 20 + m));
        assert_true(stats_of(e).n_tier_damaged > 0);
        assert_as_alone(models[m], &o, &x.request);
        mr_engine_free(e);
        e = engine_of(&s); /* and stored again */
        ask(e, &o, text_of(&x, 321, 20 + m));
        assert_as_alone(models[m], &o, &x.request);
        mr_engine_free(e);
    }
}

static void a_second_engine_goes_without_the_folder(void **state)
{
    (void)state;
    const struct setting s = {.model = whole, .max_running = 1, .dir = folder, .prefix_cache = true};
    struct mr_engine *first = engine_of(&s), *second = engine_of(&s);
    assert_int_equal(stats_of(first).tier, MR_TIER_READY);
    assert_int_equal(stats_of(second).tier, MR_TIER_LOCKED);
    assert_string_equal(mr_cache_tier_text(stats_of(second).tier), "locked");
    ask(second, &o, text_of(&x, 200, 30));
    assert_as_alone(whole, &o, &x.request);
    mr_engine_free(first);
    mr_engine_free(second);
}

static void evicted_prompts_come_back_from_host_memory(void **state)
{
    (void)state;
    struct mr_model *const models[] = {whole, windowed};
    for (int m = 0; m < 2; m++) {
        const struct setting s = {
            .model = models[m], .max_running = 1, .kv_tokens = N_CTX, .host_bytes = 64 << 20, .prefix_cache = true};
        struct mr_engine *e = engine_of(&s);
        int n_restored = 0;
        for (int i = 0; i < 12; i++) {
            ask(e, &o, text_of(&x, 300, 40 + i % 3));
            n_restored += o.usage.n_restored;
            assert_as_alone(models[m], &o, &x.request);
        }
        assert_int_equal(n_restored, stats_of(e).n_restored);
        assert_true(stats_of(e).n_exported > 0);
        assert_true(stats_of(e).tier_host_bytes > 0 && stats_of(e).tier_host_bytes <= 64 << 20);
        mr_engine_free(e);
    }
}

static void an_answer_that_was_put_aside_takes_its_blocks_back(void **state)
{
    (void)state;
    enum {
        N = 4
    };
    static struct outcome many[N];
    static struct text text[N];
    const struct setting small = {
        .model = whole, .max_running = N, .kv_tokens = N_CTX, .host_bytes = 64 << 20, .prefix_cache = true};
    struct mr_engine *e = engine_of(&small);
    for (int i = 0; i < N; i++) {
        struct mr_request r = *text_of(&text[i], 60, 70 + i);
        r.max_tokens = 150;
        text[i].request = r;
        many[i] = (struct outcome){.id = submit(e, &r)};
    }
    run_to_end(e, many, N);
    assert_true(stats_of(e).n_preempted > 0);
    assert_true(stats_of(e).n_resumed > 0);
    assert_true(stats_of(e).n_redone_rows < stats_of(e).n_resumed);
    for (int i = 0; i < N; i++)
        assert_as_alone(whole, &many[i], &text[i].request);
    mr_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_found_after_a_restart),
        cmocka_unit_test(tenants_do_not_share_files),
        cmocka_unit_test(damaged_files_are_computed_again),
        cmocka_unit_test(a_second_engine_goes_without_the_folder),
        cmocka_unit_test(evicted_prompts_come_back_from_host_memory),
        cmocka_unit_test(an_answer_that_was_put_aside_takes_its_blocks_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
