/* test_batch_service.c: batches in a server of this process, over a small model: jobs that run, are cancelled and watched at
 * the same time, a server that ends in the midst of them, and one that is killed where its files get their names. What the
 * sanitizers see of the clerk and the runner, they see here. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "server/batch/batch_service.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/settings.h"
#include "unit/engine/engine_fixture.h"

enum {
    N_LINE = 40,
    N_JOB = 4,
    N_LIFE = 6,
    N_RENAME = 2, /* files of results of a job */
    PATH_BYTES = 512
};

int __wrap_rename(const char *from, const char *to);
int __real_rename(const char *from, const char *to);

static int renames_left; /* of files of the service, until the process ends; 0: it stays */
static bool ends_before; /* the last of them, or after it */

int __wrap_rename(const char *from, const char *to)
{
    const bool is_last = strstr(to, "/files/") != NULL && renames_left > 0 && --renames_left == 0;
    if (is_last && ends_before)
        raise(SIGKILL);
    const int rc = __real_rename(from, to);
    if (is_last)
        raise(SIGKILL);
    return rc;
}

static char model_path[] = "/tmp/millrace-batches-XXXXXX";

struct fixture {
    struct server_settings settings;
    struct server *server;
    char folder[64];
    atomic_bool is_over;
};

static void start(struct fixture *f)
{
    struct mr_error err = {{0}};
    server_settings_defaults(&f->settings);
    f->settings.model = model_path;
    f->settings.port = 0;
    f->settings.state_dir = f->folder;
    f->settings.engine.threads = 1;
    f->settings.engine.max_running = 4;
    f->settings.engine.n_ctx = 256;
    f->settings.engine.cpu = getenv("MILLRACE_CPU");
    check(server_start(&f->server, &f->settings, &err), &err);
    check(server_load(f->server, NULL, NULL, &err), &err);
}

static int make_folder(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/millrace-batch-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    make_folder(state);
    start(*state);
    return 0;
}

static void path_of(const struct fixture *f, char out[PATH_BYTES], const char *id)
{
    snprintf(out, PATH_BYTES, "%s/files/%s", f->folder, id);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char path[PATH_BYTES];
    server_free(f->server);
    path_of(f, path, "");
    DIR *folder = opendir(path);
    for (const struct dirent *d; (d = readdir(folder)) != NULL;) {
        path_of(f, path, d->d_name);
        unlink(path); /* of "." and ".." it fails */
    }
    closedir(folder);
    path_of(f, path, "");
    rmdir(path);
    batch_store_remove(f->folder);
    free(f);
    return 0;
}

/* A file of requests, the second of which is refused. */
static void add_file(const struct fixture *f, char id[BATCH_ID_MAX + 1])
{
    char path[PATH_BYTES];
    struct batch_record r = {.kind = BATCH_RECORD_FILE, .tag = "batch"};
    batch_service_new_id(id, "file-");
    path_of(f, path, id);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < N_LINE; i++)
        fprintf(file,
                "{\"custom_id\":\"r%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"text %d\","
                "\"max_tokens\":4,\"temperature\":%d}}\n",
                i, i, i == 1 ? -5 : 0);
    assert_int_equal(fclose(file), 0);
    memcpy(r.id, id, sizeof r.id);
    r.body = json_pack("{s:s, s:s}", "id", id, "purpose", "batch");
    assert_int_equal(batch_records_put(batch_service_store(f->server->batches), &r, 1, NULL), MR_OK);
    batch_record_release(&r);
}

static void add_job(const struct fixture *f, char id[BATCH_ID_MAX + 1])
{
    char input[BATCH_ID_MAX + 1];
    struct batch_record job = {.kind = BATCH_RECORD_JOB, .expires_s = (int64_t)time(NULL) + 86400};
    add_file(f, input);
    job.body = json_pack("{s:s, s:s, s:I}", "endpoint", "/v1/completions", "input_file_id", input, "created_at",
                         (json_int_t)time(NULL));
    assert_int_equal(batch_service_add(f->server->batches, &job, NULL), MR_OK);
    memcpy(id, job.id, sizeof job.id);
    batch_record_release(&job);
}

static struct batch_record job_of(const struct fixture *f, const char *id)
{
    struct batch_record job;
    assert_int_equal(batch_records_get(batch_service_store(f->server->batches), BATCH_RECORD_JOB, id, &job, NULL), MR_OK);
    return job;
}

static bool is_status(const struct fixture *f, const char *id, const char *status)
{
    struct batch_record job = job_of(f, id);
    const bool is = strcmp(job.tag, status) == 0;
    batch_record_release(&job);
    return is;
}

static void wait_for(const struct fixture *f, const char *id, const char *status)
{
    while (!is_status(f, id, status))
        usleep(2000);
}

static void wait_while(const struct fixture *f, const char *id, const char *status)
{
    while (is_status(f, id, status))
        usleep(2000);
}

/* How often each line stands in a file of results; id "": there is none. */
static void count_lines(const struct fixture *f, const char *id, int n[N_LINE])
{
    char path[PATH_BYTES], *line = NULL;
    size_t room = 0;
    if (*id == '\0')
        return;
    path_of(f, path, id);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        const char *at = strstr(line, "\"custom_id\":");
        int i = -1;
        assert_non_null(at);
        assert_int_equal(sscanf(strchr(at, ':'), ":%*[ \"]r%d", &i), 1);
        assert_in_range(i, 0, N_LINE - 1);
        n[i]++;
    }
    free(line);
    fclose(file);
}

static void check_each_line_once(const struct fixture *f, const char *id)
{
    int n[N_LINE] = {0};
    struct batch_record job = job_of(f, id);
    count_lines(f, batch_record_text(&job, "output_file_id"), n);
    count_lines(f, batch_record_text(&job, "error_file_id"), n);
    for (int i = 0; i < N_LINE; i++)
        assert_int_equal(n[i], 1);
    batch_record_release(&job);
}

/* What clients and Prometheus ask meanwhile. */
static void *watch(void *context)
{
    struct fixture *f = context;
    while (!atomic_load(&f->is_over)) {
        const struct batch_listing all = {.kind = BATCH_RECORD_JOB, .tag = "", .limit = 100};
        struct string_buffer page;
        bool more;
        json_t *list = json_array(), *job;
        size_t i;
        string_buffer_init(&page);
        metrics_write(f->server->metrics, NULL, &page, NULL);
        batch_records_list(batch_service_store(f->server->batches), &all, list, &more, NULL);
        json_array_foreach(list, i, job) batch_service_show(f->server->batches, job);
        json_decref(list);
        string_buffer_release(&page);
        usleep(1000);
    }
    return NULL;
}

static bool is_on_page(const struct fixture *f, const char *line)
{
    struct string_buffer page;
    string_buffer_init(&page);
    assert_int_equal(metrics_write(f->server->metrics, NULL, &page, NULL), MR_OK);
    const bool is = strstr(page.s, line) != NULL;
    string_buffer_release(&page);
    return is;
}

static void jobs_run_while_they_are_watched(void **state)
{
    struct fixture *f = *state;
    char id[N_JOB][BATCH_ID_MAX + 1];
    pthread_t watcher;
    assert_int_equal(pthread_create(&watcher, NULL, watch, f), 0);
    for (int i = 0; i < N_JOB; i++)
        add_job(f, id[i]);
    for (int i = 0; i < N_JOB; i++) {
        wait_for(f, id[i], "completed");
        check_each_line_once(f, id[i]);
    }
    atomic_store(&f->is_over, true);
    pthread_join(watcher, NULL);
    assert_true(is_on_page(f, "\nmillrace_batch_lines_total{result=\"completed\"} 156\n"));
    assert_true(is_on_page(f, "\nmillrace_batch_lines_total{result=\"failed\"} 4\n"));
    assert_true(is_on_page(f, "\nmillrace_batch_lines_pending 0\n"));
    assert_true(is_on_page(f, "\nmillrace_batches{status=\"in_progress\"} 0\n"));
}

/* The first one runs when it is cancelled, the others wait; some may be done before. */
static void cancelled_jobs_have_each_line_once(void **state)
{
    struct fixture *f = *state;
    char id[N_JOB][BATCH_ID_MAX + 1];
    for (int i = 0; i < N_JOB; i++)
        add_job(f, id[i]);
    for (int i = 0; i < N_JOB; i++) {
        struct batch_record job = {0};
        wait_while(f, id[i], "validating");
        const enum mr_status status = batch_service_cancel(f->server->batches, id[i], 0, &job, NULL);
        batch_record_release(&job);
        assert_true(status == MR_OK || status == MR_BAD_INPUT);
    }
    for (int i = 0; i < N_JOB; i++) {
        wait_while(f, id[i], "cancelling");
        wait_while(f, id[i], "finalizing");
        check_each_line_once(f, id[i]);
    }
    assert_true(is_on_page(f, "\nmillrace_batch_lines_pending 0\n"));
}

static void a_server_that_ends_leaves_the_rest_to_the_next(void **state)
{
    struct fixture *f = *state;
    char id[N_JOB][BATCH_ID_MAX + 1];
    for (int i = 0; i < N_JOB; i++)
        add_job(f, id[i]);
    for (int i = 0; i < N_LIFE; i++) {
        usleep((useconds_t)i * 5000);
        server_free(f->server);
        start(f);
    }
    for (int i = 0; i < N_JOB; i++) {
        wait_for(f, id[i], "completed");
        check_each_line_once(f, id[i]);
    }
}

/* A server of its own process, which is killed while it writes the results of a job. */
static void run_until_killed(struct fixture *f, int n_renames, bool before)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        char id[BATCH_ID_MAX + 1];
        renames_left = n_renames;
        ends_before = before;
        start(f);
        add_job(f, id);
        wait_for(f, id, "completed");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int count_files(const struct fixture *f)
{
    char path[PATH_BYTES];
    int n = 0;
    path_of(f, path, "");
    DIR *folder = opendir(path);
    for (const struct dirent *d; (d = readdir(folder)) != NULL;)
        n += d->d_name[0] != '.';
    closedir(folder);
    return n;
}

/* Before and after each of the two files gets its name: the next server writes them again, and nothing else stays. */
static void killed_at_a_rename_the_files_are_written_again(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2 * N_RENAME; i++) {
        run_until_killed(f, i / 2 + 1, i % 2 == 0);
        start(f);
        const struct batch_listing last = {.kind = BATCH_RECORD_JOB, .tag = "", .limit = 1};
        json_t *list = json_array();
        bool more;
        assert_int_equal(batch_records_list(batch_service_store(f->server->batches), &last, list, &more, NULL), MR_OK);
        const char *id = json_string_value(json_object_get(json_array_get(list, 0), "id"));
        wait_for(f, id, "completed");
        check_each_line_once(f, id);
        assert_int_equal(count_files(f), (1 + N_RENAME) * (i + 1));
        json_decref(list);
        server_free(f->server);
        f->server = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_at_a_rename_the_files_are_written_again, make_folder, tear_down),
        cmocka_unit_test_setup_teardown(jobs_run_while_they_are_watched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelled_jobs_have_each_line_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_server_that_ends_leaves_the_rest_to_the_next, set_up, tear_down),
    };
    write_model(model_path, TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(model_path);
    return failed;
}
