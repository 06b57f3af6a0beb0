/* test_gguf_fault.c: opening and writing GGUF files with no memory is an error, and leaks nothing. */
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
#include "format/gguf_write.h"

struct folder {
    char name[32], path[64];
};

static const char *const words[] = {"one", "two", "three"};
static const int64_t dims[] = {32, 2};

static struct gguf_string string(const char *s) { return (struct gguf_string){s, strlen(s)}; }

static enum mr_status fill(struct gguf_writer *w)
{
    struct gguf_string list[3];
    char name[16], data[2 * 34] = {0};
    for (int i = 0; i < 3; i++)
        list[i] = string(words[i]);
    MR_TRY(gguf_put_strings(w, "words", list, 3, NULL));
    MR_TRY(gguf_put_string(w, "text", string("hello"), NULL));
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "blk.%d", i);
        MR_TRY(gguf_put_int(w, name, GGUF_U32, i, NULL));
        MR_TRY(gguf_declare_tensor(w, string(name), quant_find(QUANT_Q8_0), 2, dims, NULL));
    }
    MR_TRY(gguf_begin_data(w, NULL));
    for (int i = 0; i < 12; i++)
        MR_TRY(gguf_write_data(w, data, sizeof data, NULL));
    return gguf_writer_finish(w, NULL);
}

static enum mr_status write_file(void *context)
{
    const struct folder *f = context;
    struct gguf_writer *w;
    struct mr_error err;
    const enum mr_status created = gguf_writer_create(&w, f->path, &err);
    if (created != MR_OK) {
        assert_null(w);
        return created;
    }
    const enum mr_status status = fill(w);
    gguf_writer_free(w);
    return status;
}

static enum mr_status open_file(void *context)
{
    const struct folder *f = context;
    struct gguf *g;
    struct mr_error err;
    const enum mr_status status = gguf_open(&g, f->path, &err);
    if (status != MR_OK) {
        assert_null(g);
        assert_non_null(strstr(err.message, "no memory"));
        return status;
    }
    assert_int_equal(gguf_n_tensors(g), 12);
    gguf_close(g);
    return MR_OK;
}

static int make_folder(void **state)
{
    static struct folder f;
    strcpy(f.name, "/tmp/gguf_fault.XXXXXX");
    if (mkdtemp(f.name) == NULL)
        return -1;
    snprintf(f.path, sizeof f.path, "%s/m.gguf", f.name);
    *state = &f;
    return 0;
}

/* Fails where a writer has left anything else behind. */
static int remove_folder(void **state)
{
    const struct folder *f = *state;
    unlink(f->path);
    return rmdir(f->name);
}

static void every_allocation_of_the_writer_may_fail(void **state)
{
    assert_true(check_every_allocation(write_file, *state) > 5);
}

static void every_allocation_of_the_reader_may_fail(void **state)
{
    assert_int_equal(write_file(*state), MR_OK);
    assert_true(check_every_allocation(open_file, *state) > 5);
}

/* The same model over three files. */
static void every_allocation_of_a_split_model_may_fail(void **state)
{
    const struct folder *f = *state;
    struct folder part = *f;
    for (int no = 0; no < 3; no++) {
        struct gguf_writer *w;
        char name[16];
        snprintf(part.path, sizeof part.path, "%s/m-0000%d-of-00003.gguf", f->name, no + 1);
        assert_int_equal(gguf_writer_create(&w, part.path, NULL), MR_OK);
        gguf_put_int(w, "split.no", GGUF_U16, no, NULL);
        gguf_put_int(w, "split.count", GGUF_U16, 3, NULL);
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "blk.%d.%d", no, i);
            gguf_declare_tensor(w, string(name), quant_find(QUANT_Q8_0), 2, dims, NULL);
        }
        assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
        for (int i = 0; i < 4; i++)
            gguf_write_data(w, (const char[2 * 34]){0}, 2 * 34, NULL);
        assert_int_equal(gguf_writer_finish(w, NULL), MR_OK);
        gguf_writer_free(w);
    }
    snprintf(part.path, sizeof part.path, "%s/m-00001-of-00003.gguf", f->name);
    assert_true(check_every_allocation(open_file, &part) > 10);
    for (int no = 0; no < 3; no++) {
        snprintf(part.path, sizeof part.path, "%s/m-0000%d-of-00003.gguf", f->name, no + 1);
        unlink(part.path);
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_allocation_of_the_writer_may_fail),
        IN_FOLDER(every_allocation_of_the_reader_may_fail),
        IN_FOLDER(every_allocation_of_a_split_model_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
