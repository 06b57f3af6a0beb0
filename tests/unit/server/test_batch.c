/* test_batch.c: the input of a batch line by line, and its state on the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/batch/batch_input.h"
#include "server/batch/batch_store.h"
#include "server/batch/durable_file.h"

struct fixture {
    char folder[64], path[96], state[96];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/millrace-batch-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/input", f->folder);
    snprintf(f->state, sizeof f->state, "%s/state", f->folder);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    batch_store_remove(f->state);
    unlink(f->path);
    rmdir(f->folder);
    free(f);
    return 0;
}

static void write_input(const struct fixture *f, const char *text, size_t n)
{
    FILE *file = fopen(f->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void lines_are_found_whatever_ends_them(void **state)
{
    static const char text[] = "\xEF\xBB\xBF{1}\r\n\n  \r\n{\0}\n\n{3} ";
    static const struct {
        const char *text;
        size_t n;
        int32_t line;
    } want[] = {{"{1}", 3, 1}, {"{\0}", 3, 4}, {"{3}", 3, 6}};
    const struct fixture *f = *state;
    struct batch_reader r;
    struct batch_text t;
    write_input(f, text, sizeof text - 1);
    assert_int_equal(batch_reader_open(&r, f->path, NULL), MR_OK);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct string_buffer again;
        string_buffer_init(&again);
        assert_int_equal(batch_reader_next(&r, &t, NULL), MR_OK);
        assert_int_equal(t.n, want[i].n);
        assert_memory_equal(t.text, want[i].text, t.n);
        assert_int_equal(t.line, want[i].line);
        assert_int_equal(batch_reader_reread(&r, t.offset, t.n, &again, NULL), MR_OK);
        assert_memory_equal(again.s, want[i].text, t.n);
        string_buffer_release(&again);
    }
    assert_int_equal(batch_reader_next(&r, &t, NULL), MR_NOT_FOUND);
    batch_reader_close(&r);
}

static void a_line_that_is_too_long_is_passed_over(void **state)
{
    const struct fixture *f = *state;
    const size_t n = (size_t)BATCH_LINE_BYTES_MAX + 100000;
    struct batch_reader r;
    struct batch_text t;
    char *text = malloc(n + 4);
    memset(text, 'x', n);
    memcpy(text + n, "\n{}\n", 4);
    write_input(f, text, n + 4);
    free(text);
    assert_int_equal(batch_reader_open(&r, f->path, NULL), MR_OK);
    assert_int_equal(batch_reader_next(&r, &t, NULL), MR_OK);
    assert_null(t.text);
    assert_int_equal(batch_reader_next(&r, &t, NULL), MR_OK);
    assert_int_equal(t.line, 2);
    assert_int_equal(t.offset, n + 1);
    assert_memory_equal(t.text, "{}", 2);
    batch_reader_close(&r);
}

static void the_digest_is_sha_256(void **state)
{
    const struct fixture *f = *state;
    char digest[BATCH_DIGEST_HEX + 1];
    write_input(f, "abc", 3);
    assert_int_equal(batch_input_digest(digest, f->path, NULL), MR_OK);
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); /* FIPS 180-4 */
}

static struct batch_line line_of(int32_t number, const char *id)
{
    return (struct batch_line){.line = number, .custom_id = id, .n_custom_id = id != NULL ? strlen(id) : 0};
}

static struct batch_store *open_with_job(const struct fixture *f, struct batch_job *job)
{
    struct batch_store *s;
    *job = (struct batch_job){.name = "job", .model = "model"};
    assert_int_equal(batch_store_open(&s, f->state, NULL), MR_OK);
    assert_int_equal(batch_store_add_job(s, job, NULL), MR_OK);
    return s;
}

static void a_duplicate_is_told_and_the_others_are_added(void **state)
{
    const struct fixture *f = *state;
    struct batch_job job;
    struct batch_store *s = open_with_job(f, &job);
    struct batch_line line[] = {line_of(1, "a"), line_of(2, "b"), line_of(3, "a"), line_of(4, NULL), line_of(5, NULL)};
    struct batch_counts counts;
    assert_int_equal(batch_store_add_lines(s, job.id, line, 5, NULL), MR_OK);
    assert_true(line[2].is_duplicate);
    assert_false(line[0].is_duplicate || line[1].is_duplicate || line[3].is_duplicate || line[4].is_duplicate);
    assert_int_equal(batch_store_count(s, job.id, &counts, NULL), MR_OK);
    assert_int_equal(counts.n_line, 4);
    batch_store_close(s);
}

static enum mr_status append(void *context, const char *result, size_t n, struct mr_error *err)
{
    (void)err;
    string_buffer_add(context, result, n);
    return MR_OK;
}

static void record_one(struct batch_store *s, const struct batch_job *job, int32_t number, const char *result)
{
    const struct batch_line done = {.line = number, .state = BATCH_LINE_OK, .result = result, .n_result = strlen(result)};
    assert_int_equal(batch_store_record(s, job->id, &done, 1, NULL), MR_OK);
}

static void a_result_is_recorded_once_and_outlives_the_process(void **state)
{
    const struct fixture *f = *state;
    struct batch_job job, again;
    struct batch_line line[] = {line_of(1, "a"), line_of(2, "b"), line_of(3, "c")}, pending[3];
    struct string_buffer results;
    int n = 3;
    struct batch_store *s = open_with_job(f, &job);
    assert_int_equal(batch_store_add_lines(s, job.id, line, 3, NULL), MR_OK);
    record_one(s, &job, 3, "third");
    record_one(s, &job, 1, "first");
    record_one(s, &job, 1, "another");
    batch_store_close(s);
    assert_int_equal(batch_store_open(&s, f->state, NULL), MR_OK);
    assert_int_equal(batch_store_first_job(s, &again, NULL), MR_OK);
    assert_string_equal(again.name, "job");
    assert_int_equal(batch_store_pending(s, job.id, 0, pending, &n, NULL), MR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(pending[0].line, 2);
    string_buffer_init(&results);
    assert_int_equal(batch_store_results(s, job.id, BATCH_LINE_OK, append, &results, NULL), MR_OK);
    assert_string_equal(results.s, "firstthird");
    string_buffer_release(&results);
    batch_store_close(s);
}

static void a_second_store_on_the_folder_is_busy(void **state)
{
    const struct fixture *f = *state;
    struct batch_job job;
    struct batch_store *s = open_with_job(f, &job), *other;
    struct mr_error err = {{0}};
    assert_int_equal(batch_store_open(&other, f->state, &err), MR_BUSY);
    assert_non_null(strstr(err.message, "in use by another process"));
    batch_store_close(s);
}

static void a_damaged_file_is_refused_and_put_aside(void **state)
{
    const struct fixture *f = *state;
    struct batch_job job;
    struct batch_store *s = open_with_job(f, &job);
    char path[128];
    batch_store_close(s);
    snprintf(path, sizeof path, "%s/batch.db", f->state);
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(batch_store_open(&s, f->state, NULL), MR_BAD_FORMAT);
    assert_int_equal(batch_store_put_aside(f->state, NULL), MR_OK);
    assert_int_equal(batch_store_open(&s, f->state, NULL), MR_OK);
    assert_int_equal(batch_store_first_job(s, &job, NULL), MR_NOT_FOUND);
    batch_store_close(s);
}

static void a_durable_file_is_whole_or_not_there(void **state)
{
    const struct fixture *f = *state;
    struct durable_file file;
    char part[128];
    snprintf(part, sizeof part, "%s.part", f->path);
    assert_int_equal(durable_file_open(&file, f->path, NULL), MR_OK);
    assert_int_equal(durable_file_add(&file, "text", 4, NULL), MR_OK);
    assert_int_not_equal(access(f->path, F_OK), 0);
    durable_file_discard(&file);
    assert_int_not_equal(access(part, F_OK), 0);
    assert_int_equal(durable_file_open(&file, f->path, NULL), MR_OK);
    assert_int_equal(durable_file_commit(&file, NULL), MR_OK);
    durable_file_discard(&file);
    assert_int_equal(access(f->path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_found_whatever_ends_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_that_is_too_long_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_digest_is_sha_256, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_duplicate_is_told_and_the_others_are_added, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_result_is_recorded_once_and_outlives_the_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_store_on_the_folder_is_busy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_refused_and_put_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_durable_file_is_whole_or_not_there, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
