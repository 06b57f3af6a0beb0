/* test_gguf_write.c: a written file reads back alike, and nothing is left of one that was not finished. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "format/gguf_write.h"

struct folder {
    char name[32], path[64];
};

static int make_folder(void **state)
{
    static struct folder f;
    strcpy(f.name, "/tmp/gguf_write.XXXXXX");
    if (mkdtemp(f.name) == NULL)
        return -1;
    snprintf(f.path, sizeof f.path, "%s/m.gguf", f.name);
    *state = &f;
    return 0;
}

/* Fails where a test has left anything else behind. */
static int remove_folder(void **state)
{
    const struct folder *f = *state;
    unlink(f->path);
    return rmdir(f->name);
}

static struct gguf_string string(const char *s) { return (struct gguf_string){s, strlen(s)}; }

static struct gguf_writer *create(const struct folder *f)
{
    struct gguf_writer *w;
    struct mr_error err;
    if (gguf_writer_create(&w, f->path, &err) != MR_OK)
        fail_msg("%s", err.message);
    return w;
}

static void declare(struct gguf_writer *w, const char *name, enum quant_type type, int n_dims, const int64_t *dims)
{
    assert_int_equal(gguf_declare_tensor(w, string(name), quant_find(type), n_dims, dims, NULL), MR_OK);
}

static void what_is_written_reads_back(void **state)
{
    static const int64_t a[] = {32, 3}, b[] = {5};
    static const uint16_t list[] = {1, 2, 65535};
    const struct gguf_string words[] = {string(""), string("two"), {"a\0b", 3}};
    const struct folder *f = *state;
    struct gguf_writer *w = create(f);
    struct gguf *g;
    char bytes[3 * 34];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    assert_int_equal(gguf_put_int(w, "general.alignment", GGUF_U32, 64, NULL), MR_OK);
    assert_int_equal(gguf_put_int(w, "int", GGUF_I8, -5, NULL), MR_OK);
    assert_int_equal(gguf_put_f32(w, "float", 0.25f, NULL), MR_OK);
    assert_int_equal(gguf_put_bool(w, "yes", true, NULL), MR_OK);
    assert_int_equal(gguf_put_string(w, "text", string("hi"), NULL), MR_OK);
    assert_int_equal(gguf_put_array(w, "list", GGUF_U16, list, 3, NULL), MR_OK);
    assert_int_equal(gguf_put_strings(w, "words", words, 3, NULL), MR_OK);
    declare(w, "a", QUANT_Q8_0, 2, a);
    declare(w, "b", QUANT_F32, 1, b);
    assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
    assert_int_equal(gguf_write_data(w, bytes, 100, NULL), MR_OK);
    assert_int_equal(gguf_write_data(w, bytes + 100, 2, NULL), MR_OK);
    assert_int_equal(gguf_write_data(w, bytes, 20, NULL), MR_OK);
    assert_int_equal(access(f->path, F_OK), -1); /* not before it is whole */
    assert_int_equal(gguf_writer_finish(w, NULL), MR_OK);
    gguf_writer_free(w);

    struct mr_error err;
    if (gguf_open(&g, f->path, &err) != MR_OK)
        fail_msg("%s", err.message);
    assert_int_equal(gguf_n_values(g), 7);
    assert_true(gguf_as_i64(gguf_value_find(g, "int"), 0) == -5 && gguf_value_find(g, "int")->type == GGUF_I8);
    assert_true(gguf_as_f64(gguf_value_find(g, "float"), 0) == 0.25);
    assert_true(gguf_as_u64(gguf_value_find(g, "list"), 2) == 65535);
    const struct gguf_string last = gguf_as_string(gguf_value_find(g, "words"), 2);
    assert_true(last.n == 3 && memcmp(last.s, "a\0b", 3) == 0);
    const struct gguf_tensor *t = gguf_tensor_find(g, "b");
    assert_true(t->file_offset % 64 == 0 && t->bytes == 20 && memcmp(t->data, bytes, 20) == 0);
    t = gguf_tensor_find(g, "a");
    assert_memory_equal(t->data, bytes, sizeof bytes);
    gguf_close(g);
}

static void an_unfinished_file_leaves_nothing(void **state)
{
    static const int64_t dims[] = {4};
    const struct folder *f = *state;
    struct gguf_writer *w = create(f);
    declare(w, "t", QUANT_F32, 1, dims);
    assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
    assert_int_equal(gguf_write_data(w, "12345678", 8, NULL), MR_OK);
    assert_int_equal(gguf_writer_finish(w, NULL), MR_BAD_INPUT);
    gguf_writer_free(w);
    assert_int_equal(access(f->path, F_OK), -1);
}

static void an_unfinished_file_does_not_harm_the_one_before(void **state)
{
    const struct folder *f = *state;
    FILE *old = fopen(f->path, "w");
    assert_non_null(old);
    fputs("old", old);
    fclose(old);
    struct gguf_writer *w = create(f);
    assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
    gguf_writer_free(w);
    char text[4] = "";
    old = fopen(f->path, "r");
    assert_non_null(old);
    assert_string_equal(fgets(text, sizeof text, old), "old");
    fclose(old);
}

static void two_writers_of_one_file_do_not_mix(void **state)
{
    const struct folder *f = *state;
    struct gguf_writer *a = create(f), *b = create(f);
    assert_int_equal(gguf_begin_data(a, NULL), MR_OK);
    assert_int_equal(gguf_begin_data(b, NULL), MR_OK);
    assert_int_equal(gguf_writer_finish(a, NULL), MR_OK);
    gguf_writer_free(b);
    gguf_writer_free(a);
    assert_int_equal(access(f->path, F_OK), 0);
}

static void calls_out_of_order_are_refused(void **state)
{
    static const int64_t dims[] = {4}, odd[] = {33}, zero[] = {0};
    const struct folder *f = *state;
    struct gguf_writer *w = create(f);
    struct mr_error err;
    assert_int_equal(gguf_write_data(w, "x", 1, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_writer_finish(w, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_put_int(w, "k", GGUF_U8, 256, &err), MR_BAD_INPUT);
    assert_string_equal(err.message, "key 'k': 256 is no u8");
    assert_int_equal(gguf_put_int(w, "k", GGUF_F32, 1, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_put_array(w, "k", GGUF_STRING, "", 0, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_declare_tensor(w, string("odd"), quant_find(QUANT_Q8_0), 1, odd, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "'odd'"));
    assert_int_equal(gguf_declare_tensor(w, string("zero"), quant_find(QUANT_F32), 1, zero, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_declare_tensor(w, string("five"), quant_find(QUANT_F32), 5, dims, &err), MR_BAD_INPUT);
    declare(w, "t", QUANT_F32, 1, dims);
    assert_int_equal(gguf_put_int(w, "general.alignment", GGUF_U32, 64, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_begin_data(w, &err), MR_OK);
    assert_int_equal(gguf_begin_data(w, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_put_bool(w, "k", true, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_declare_tensor(w, string("t2"), quant_find(QUANT_F32), 1, dims, &err), MR_BAD_INPUT);
    assert_int_equal(gguf_write_data(w, "0123456789abcdefX", 17, &err), MR_BAD_INPUT);
    gguf_writer_free(w);
}

static void what_no_reader_accepts_is_not_written(void **state)
{
    static const int64_t dims[] = {4};
    const struct folder *f = *state;
    struct mr_error err;
    struct gguf_writer *w = create(f);
    gguf_put_bool(w, "twice", true, &err);
    gguf_put_bool(w, "twice", true, &err);
    assert_int_equal(gguf_begin_data(w, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "key 'twice' stands twice");
    gguf_writer_free(w);
    w = create(f);
    declare(w, "t", QUANT_F32, 1, dims);
    declare(w, "t", QUANT_F32, 1, dims);
    assert_int_equal(gguf_begin_data(w, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "tensor 't' stands twice");
    gguf_writer_free(w);
    w = create(f);
    gguf_put_bool(w, "", true, &err);
    assert_int_equal(gguf_begin_data(w, &err), MR_BAD_FORMAT);
    gguf_writer_free(w);
}

static void a_path_that_cannot_be_written_is_an_error(void **state)
{
    struct gguf_writer *w;
    struct mr_error err;
    (void)state;
    assert_int_equal(gguf_writer_create(&w, "/nonexistent/folder/m.gguf", &err), MR_IO);
    assert_null(w);
    assert_non_null(strstr(err.message, "'/nonexistent/folder/m.gguf'"));
}

static void a_file_cut_after_opening_gives_an_error_in_read(void **state)
{
    static const int64_t dims[] = {1024};
    static const char zeros[4096];
    const struct folder *f = *state;
    struct gguf_writer *w = create(f);
    struct gguf *g;
    struct mr_error err;
    char piece[16];
    declare(w, "t", QUANT_F32, 1, dims);
    assert_int_equal(gguf_put_string(w, "text", string("still here"), NULL), MR_OK);
    assert_int_equal(gguf_begin_data(w, NULL), MR_OK);
    assert_int_equal(gguf_write_data(w, zeros, sizeof zeros, NULL), MR_OK);
    assert_int_equal(gguf_writer_finish(w, NULL), MR_OK);
    gguf_writer_free(w);
    assert_int_equal(gguf_open(&g, f->path, NULL), MR_OK);
    assert_int_equal(truncate(f->path, 0), 0);
    assert_int_equal(gguf_read(g, gguf_tensor_at(g, 0), 4000, piece, sizeof piece, &err), MR_IO);
    assert_non_null(strstr(err.message, "tensor 't'"));
    assert_memory_equal(gguf_as_string(gguf_value_find(g, "text"), 0).s, "still here", 10);
    gguf_close(g);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_written_reads_back),
        IN_FOLDER(an_unfinished_file_leaves_nothing),
        IN_FOLDER(an_unfinished_file_does_not_harm_the_one_before),
        IN_FOLDER(two_writers_of_one_file_do_not_mix),
        IN_FOLDER(calls_out_of_order_are_refused),
        IN_FOLDER(what_no_reader_accepts_is_not_written),
        IN_FOLDER(a_path_that_cannot_be_written_is_an_error),
        IN_FOLDER(a_file_cut_after_opening_gives_an_error_in_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
