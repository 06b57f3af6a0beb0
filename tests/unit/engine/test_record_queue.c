/* test_record_queue.c: records come out as they went in, whatever their sizes; a reserved one always fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/record_queue.h"

static void records_come_out_in_order(void **state)
{
    (void)state;
    struct record_queue q;
    record_queue_init(&q);
    int pushed = 0, popped = 0;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < round * 7 % 5; i++, pushed++) {
            const size_t n = (size_t)(pushed * 13 % 300) + 4;
            char *p = record_queue_push(&q, n);
            assert_int_equal((uintptr_t)p % 8, 0);
            memset(p, pushed & 0xff, n);
            memcpy(p, &pushed, sizeof pushed);
        }
        for (int i = 0; i < round * 5 % 4 && popped < pushed; i++, popped++) {
            const char *p = record_queue_pop(&q);
            int id;
            memcpy(&id, p, sizeof id);
            assert_int_equal(id, popped);
            const size_t n = (size_t)(popped * 13 % 300) + 4;
            if (n > 4)
                assert_int_equal((unsigned char)p[n - 1], popped & 0xff);
        }
    }
    while (popped++ < pushed)
        assert_non_null(record_queue_pop(&q));
    assert_null(record_queue_pop(&q));
    record_queue_release(&q);
}

static void memory_is_used_again(void **state)
{
    (void)state;
    struct record_queue q;
    record_queue_init(&q);
    for (int i = 0; i < 100000; i++) {
        memset(record_queue_push(&q, 100), 0, 100);
        assert_non_null(record_queue_pop(&q));
    }
    assert_true(q.capacity < 1000);
    record_queue_release(&q);
}

static void a_reserved_record_needs_no_memory(void **state)
{
    (void)state;
    struct record_queue q;
    record_queue_init(&q);
    assert_true(record_queue_reserve(&q, 500));
    for (int i = 0; i < 50; i++)
        memset(record_queue_push(&q, 40), 1, 40);
    const size_t capacity = q.capacity;
    memset(record_queue_push_reserved(&q, 500), 2, 500);
    assert_int_equal(q.capacity, capacity);
    assert_int_equal(q.reserved, 0);
    record_queue_release(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_in_order),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(a_reserved_record_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
