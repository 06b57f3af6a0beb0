/* test_arena.c: memory that is freed all at once. */
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"

static void pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 7, 16, 17, 4095, 4096, 100000, 3};
    unsigned char *piece[sizeof sizes / sizeof *sizes];
    struct arena a;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        piece[i] = arena_alloc(&a, sizes[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % alignof(max_align_t), 0);
        memset(piece[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(piece[i][k], i + 1);
    }
    arena_release(&a);
    assert_int_equal(a.used, 0);
}

static void the_limit_bounds_what_is_taken(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 100000);
    size_t n = 0;
    while (arena_alloc(&a, 1000) != NULL)
        n++;
    assert_in_range(n, 80, 100);
    assert_true(a.used <= 100000);
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 8));
    assert_null(arena_alloc(&a, 100000));
    arena_release(&a);
    assert_non_null(arena_alloc(&a, 50000));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(the_limit_bounds_what_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
