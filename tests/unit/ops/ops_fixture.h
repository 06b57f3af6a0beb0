/* ops_fixture.h: a cpu device with threads, and one buffer that tensors are cut from. Rows have room behind them. */
#ifndef TESTS_UNIT_OPS_FIXTURE_H
#define TESTS_UNIT_OPS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "ops/cpu_device.h"
#include "ops/ops.h"

struct lab {
    struct thread_pool *pool;
    struct device *device;
    struct buffer *buffer;
    size_t used;
};

static inline void open_lab(struct lab *l, int n_thread)
{
    unsigned features;
    *l = (struct lab){0};
    assert_int_equal(cpu_features(&features, getenv("MILLRACE_CPU"), NULL), MR_OK);
    assert_int_equal(pool_create(&l->pool, n_thread, NULL), MR_OK);
    assert_int_equal(cpu_device_create(&l->device, l->pool, features, NULL), MR_OK);
    assert_int_equal(l->device->ops->buffer_create(l->device, &l->buffer, 64 << 20, NULL), MR_OK);
}

static inline void close_lab(struct lab *l)
{
    l->device->ops->buffer_free(l->buffer);
    cpu_device_free(l->device);
    pool_free(l->pool);
}

static inline float value(int i) { return (float)((i * 7919 + i / 13 * 31) % 2001 - 1000) * 0.001f; }

static inline struct tensor make_tensor(struct lab *l, int n_row, int n_col)
{
    const size_t row_bytes = ((size_t)n_col * 4 + 63) / 64 * 64 + 64;
    const struct tensor t = {l->buffer, l->used, row_bytes, n_row, n_col};
    l->used += row_bytes * (size_t)n_row;
    return t;
}

/* int32 in the place of floats */
static inline struct tensor make_list(struct lab *l, const int32_t *number, int n)
{
    const struct tensor t = make_tensor(l, 1, n);
    if (n > 0)
        l->device->ops->write(l->device, t.buffer, t.offset, number, (size_t)n * sizeof *number);
    return t;
}

#endif
