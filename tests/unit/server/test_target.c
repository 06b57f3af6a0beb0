/* test_target.c: targets of request lines taken apart, and the endpoint found for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/router.h"

static void handle(struct exchange *x) { (void)x; }

static const struct endpoint table[] = {
    {"GET", "/", 0, handle, NULL},
    {"GET", "/v1/models", 0, handle, NULL},
    {"GET", "/v1/models/{id}", 0, handle, NULL},
    {"GET", "/v1/models/default", 0, handle, NULL},
    {"POST", "/v1/models/{id}/load", 0, handle, NULL},
    {"GET", "/v1/responses/{id}", 0, handle, NULL},
    {"DELETE", "/v1/responses/{id}", 0, handle, NULL},
    {0},
};

static void parses_path_and_query(void **state)
{
    struct target t;
    (void)state;
    assert_int_equal(target_parse(&t, "/v1/a%20b/?x=1&y=%C3%A9+z&flag&x=2#part", NULL), MR_OK);
    assert_int_equal(t.n_segment, 2);
    assert_string_equal(t.segment[1], "a b");
    assert_string_equal(t.path, "/v1/a%20b/");
    assert_string_equal(target_find_query(&t, "x"), "1");
    assert_string_equal(target_find_query(&t, "y"), "\xC3\xA9 z");
    assert_string_equal(target_find_query(&t, "flag"), "");
    assert_null(target_find_query(&t, "z"));
    target_release(&t);
}

static void takes_a_whole_address(void **state)
{
    struct target t;
    (void)state;
    assert_int_equal(target_parse(&t, "http://host:80/v1/models?a=b", NULL), MR_OK);
    assert_string_equal(t.path, "/v1/models");
    target_release(&t);
    assert_int_equal(target_parse(&t, "https://host", NULL), MR_OK);
    assert_string_equal(t.path, "/");
    target_release(&t);
}

static void refuses_what_is_no_target(void **state)
{
    static const char *const wrong[] = {"",     "*",    "v1",        "/%",    "/%4",     "/%zz",  "/%00",
                                        "/%ff", "/a b", "/\xC3\xA9", "/?a=%", "/?%80=1", "/\x7f", "/a\tb"};
    char longest[TARGET_BYTES_MAX + 3];
    struct target t;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct mr_error err = {{0}};
        assert_int_equal(target_parse(&t, wrong[i], &err), MR_BAD_INPUT);
        assert_int_not_equal(err.message[0], '\0');
        target_release(&t);
    }
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[TARGET_BYTES_MAX + 1] = '\0';
    assert_int_equal(target_parse(&t, longest, NULL), MR_BAD_INPUT);
    target_release(&t);
    longest[TARGET_BYTES_MAX] = '\0';
    assert_int_equal(target_parse(&t, longest, NULL), MR_OK);
    target_release(&t);
}

static void bounds_segments_and_parameters(void **state)
{
    char many[512] = "";
    struct target t;
    (void)state;
    for (int i = 0; i < TARGET_SEGMENTS_MAX; i++)
        strcat(many, "/a");
    assert_int_equal(target_parse(&t, many, NULL), MR_OK);
    target_release(&t);
    strcat(many, "/a");
    assert_int_equal(target_parse(&t, many, NULL), MR_BAD_INPUT);
    target_release(&t);
    strcpy(many, "/?a");
    for (int i = 1; i < TARGET_QUERIES_MAX; i++)
        strcat(many, "&a");
    assert_int_equal(target_parse(&t, many, NULL), MR_OK);
    target_release(&t);
    strcat(many, "&a");
    assert_int_equal(target_parse(&t, many, NULL), MR_BAD_INPUT);
    target_release(&t);
}

static struct route route_of(const char *method, const char *text, struct target *t)
{
    struct route r;
    assert_int_equal(target_parse(t, text, NULL), MR_OK);
    route_find(&r, table, method, t);
    return r;
}

static void finds_the_endpoint_of_a_path(void **state)
{
    static const struct {
        const char *method, *path;
        int row; /* -1: none */
    } c[] = {{"GET", "/", 0},
             {"GET", "/v1/models", 1},
             {"GET", "/v1/models/", 1},
             {"HEAD", "/v1/models", 1},
             {"GET", "/v1/models/a", 2},
             {"GET", "/v1/models/default", 3},
             {"POST", "/v1/models/a/load", 4},
             {"DELETE", "/v1/responses/r", 6},
             {"GET", "/v1/models/a/b", -1},
             {"GET", "/v1/model", -1},
             {"GET", "/v1/modelss", -1},
             {"GET", "/v1", -1},
             {"GET", "//", -1},
             {"POST", "/v1/models//load", -1},
             {"get", "/v1/models", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct target t;
        const struct route r = route_of(c[i].method, c[i].path, &t);
        assert_ptr_equal(r.endpoint, c[i].row < 0 ? NULL : &table[c[i].row]);
        target_release(&t);
    }
}

static void gives_the_parameters_of_a_path(void **state)
{
    struct target t;
    (void)state;
    const struct route r = route_of("GET", "/v1/models/org%2Fname", &t);
    assert_string_equal(route_parameter(&r, "id"), "org/name");
    assert_null(route_parameter(&r, "i"));
    assert_null(route_parameter(&r, "idx"));
    target_release(&t);
}

static void lists_the_methods_of_a_path(void **state)
{
    struct target t;
    (void)state;
    struct route r = route_of("PUT", "/v1/responses/r", &t);
    assert_null(r.endpoint);
    assert_string_equal(r.methods, "GET, HEAD, DELETE, OPTIONS");
    target_release(&t);
    r = route_of("PUT", "/nowhere", &t);
    assert_string_equal(r.methods, "");
    target_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_path_and_query),        cmocka_unit_test(takes_a_whole_address),
        cmocka_unit_test(refuses_what_is_no_target),    cmocka_unit_test(bounds_segments_and_parameters),
        cmocka_unit_test(finds_the_endpoint_of_a_path), cmocka_unit_test(gives_the_parameters_of_a_path),
        cmocka_unit_test(lists_the_methods_of_a_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
