/* test_page.c: the page's files in the program, and their etags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/page.h"

/* The bytes in the program are those of web/. */
static void test_files_are_whole(void **state)
{
    (void)state;
    assert_true(page_n_files > 0);
    for (int i = 0; i < page_n_files; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/../web/%s", TEST_SOURCE_DIR, page_files[i].name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        unsigned char *bytes = malloc(page_files[i].n + 1);
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, page_files[i].n + 1, f), page_files[i].n);
        assert_memory_equal(bytes, page_files[i].bytes, page_files[i].n);
        free(bytes);
        fclose(f);
    }
}

static void test_a_file_is_found_by_its_name_alone(void **state)
{
    (void)state;
    assert_non_null(page_find("index.html"));
    assert_ptr_equal(page_find("style.css"), page_find("style.css"));
    static const char *const unknown[] = {"", "index", "INDEX.HTML", "index.html ", "../web/index.html", "/index.html"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_null(page_find(unknown[i]));
    }
}

/* A browser loads no module and no style sheet of another type. */
static void test_every_file_has_a_type(void **state)
{
    (void)state;
    for (int i = 0; i < page_n_files; i++) {
        assert_string_not_equal(page_content_type(page_files[i].name), "application/octet-stream");
    }
    assert_string_equal(page_content_type("main.js"), "text/javascript; charset=utf-8");
    assert_string_equal(page_content_type("js"), "application/octet-stream");
}

static void test_etags_compare_weakly(void **state)
{
    (void)state;
    const struct page_file file = {"a.js", "\"abc\"", NULL, 0};
    static const char *const known[] = {"\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "\"x\",W/\"abc\" , \"y\"", "*", " * "};
    static const char *const unknown[] = {"", " ", ",", "abc", "\"ab\"", "\"abc", "\"abcd\"", "\"x\"", "W/", "**"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(page_is_known(&file, known[i]));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_false(page_is_known(&file, unknown[i]));
    }
    assert_false(page_is_known(&file, NULL));
}

/* A changed file has another etag: no two of the page's are equal. */
static void test_etags_differ(void **state)
{
    (void)state;
    for (int i = 0; i < page_n_files; i++) {
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(page_files[i].etag, page_files[k].etag);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_whole),       cmocka_unit_test(test_a_file_is_found_by_its_name_alone),
        cmocka_unit_test(test_every_file_has_a_type), cmocka_unit_test(test_etags_compare_weakly),
        cmocka_unit_test(test_etags_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
