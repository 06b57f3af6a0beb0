/* test_batch_fault.c: a batch's input, state and files with no memory are an error, and leak nothing. */
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
#include "server/batch/batch_job.h"

static const char text[] = "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{}}\n"
                           "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{}}\n"
                           "{\"custom_id\":\"b\"}\n";

struct files {
    char folder[64], input[96], state[96], output[96], errors[96];
};

static enum mr_status write_all(struct batch_store *s, struct batch_job *job, const struct files *f)
{
    const struct batch_check check = {.input = f->input, .keep_going = true};
    struct batch_faults faults;
    MR_TRY(batch_store_add_job(s, job, NULL));
    enum mr_status status = batch_job_check(s, job, &check, &faults, NULL);
    json_decref(faults.list);
    if (status == MR_OK)
        status = batch_job_write(s, job, f->output, f->errors, NULL);
    return status;
}

static enum mr_status attempt(void *context)
{
    const struct files *f = context;
    struct batch_job job = {.name = "", .model = "m"};
    struct batch_store *s = NULL;
    batch_store_remove(f->state);
    MR_TRY(batch_input_digest(job.name, f->input, NULL));
    enum mr_status status = batch_store_open(&s, f->state, NULL);
    if (status == MR_OK)
        status = write_all(s, &job, f);
    batch_store_close(s);
    return status;
}

static void a_batch_without_memory(void **state)
{
    struct files f = {.folder = "/tmp/millrace-batch-XXXXXX"};
    (void)state;
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.input, sizeof f.input, "%s/input", f.folder);
    snprintf(f.state, sizeof f.state, "%s/state", f.folder);
    snprintf(f.output, sizeof f.output, "%s/output", f.folder);
    snprintf(f.errors, sizeof f.errors, "%s/errors", f.folder);
    FILE *file = fopen(f.input, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_true(check_every_allocation(attempt, &f) > 10);
    unlink(f.input);
    unlink(f.errors);
    unlink(f.output);
    batch_store_remove(f.state);
    assert_int_equal(rmdir(f.folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_batch_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
