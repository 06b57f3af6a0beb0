/* test_file_kind.c: what is no model file is called by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "format/file_kind.h"

static void files_are_recognised_by_their_first_bytes(void **state)
{
    (void)state;
#define FILE_OF(bytes) bytes, sizeof bytes - 1
    static const struct {
        const char *bytes;
        size_t n;
        const char *kind;
    } cases[] = {
        {FILE_OF(""), "an empty file"},
        {FILE_OF("GGUF\3\0\0\0"), "a GGUF file"},
        {FILE_OF("tjgg\3\0\0\0"), "an old GGML file, GGJT (convert it to GGUF)"},
        {FILE_OF("\x7f"
                 "ELF\2\1\1"),
         "an ELF program or library"},
        {FILE_OF("PK\3\4\0\0\0\0\0\0\0\0archive/data.pkl"), "a PyTorch checkpoint"},
        {FILE_OF("PK\3\4\0\0\0\0\0\0\0\0mimetype"), "a zip archive"},
        {FILE_OF("\x1f\x8b\x08"), "a gzip archive (unpack it first)"},
        {FILE_OF("\x20\0\0\0\0\0\0\0{\"__metadata__\":{}}"), "a safetensors file"},
        {FILE_OF("\x20\0\0\0\0\0\0\x7f{\"__metadata__\":{}}"), "a file of an unknown kind"},
        {FILE_OF(" \n<!DOCTYPE html><p>404"), "an HTML page (a download that was refused?)"},
        {FILE_OF("<HTML>"), "an HTML page (a download that was refused?)"},
        {FILE_OF("version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer (the model itself was not fetched)"},
        {FILE_OF("{\"a\": 1}\n"), "a JSON text"},
        {FILE_OF("hello \xc3\xa9\n"), "a text file"},
        {FILE_OF("hello \xc3"), "a text file"}, /* cut within a character */
        {FILE_OF("GGU"), "a text file"},
        {FILE_OF("\0\0\0\0"), "a file of zeros (a download that did not finish?)"},
        {FILE_OF("\1\2\3\4"), "a file of an unknown kind"},
        {FILE_OF("hello \xff"), "a file of an unknown kind"},
    };
#undef FILE_OF
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(file_kind(cases[i].bytes, cases[i].n), cases[i].kind);
}

static void a_tar_archive_is_recognised_by_its_257th_byte(void **state)
{
    (void)state;
    char tar[600] = "models/x.gguf";
    memcpy(tar + 257, "ustar", 5);
    assert_string_equal(file_kind(tar, sizeof tar), "a tar archive (unpack it first)");
    assert_string_equal(file_kind(tar, 260), "a file of an unknown kind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_recognised_by_their_first_bytes),
        cmocka_unit_test(a_tar_archive_is_recognised_by_its_257th_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
