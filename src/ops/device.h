/* device.h: where tensors live. A device has memory, a table of ops (ops.h) and nothing else that the layers above may
 * touch: they hold views and never an address. */
#ifndef OPS_DEVICE_H
#define OPS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct ops;

struct device { /* embedded first in what a back end keeps */
    const struct ops *ops;
    const char *name;     /* "cpu" */
    bool multiplies_bf16; /* faster than f16, so that keys and values are bf16 where either would do */
    bool unfused;         /* its ops run step by step, and what lies between two steps has memory of its own; the same bits */
};

struct buffer { /* embedded first in what a back end keeps; made and freed through the device's ops */
    struct device *device;
    size_t bytes;
};

/* A view of n_row rows of n_col floats, row r at offset + r * row_bytes. buffer NULL: absent. */
struct tensor {
    struct buffer *buffer;
    size_t offset;
    size_t row_bytes;
    int n_row;
    int n_col;
};

/* An activation that products read: as floats always, as int8 rows (kernels.h) besides where a product wants them. A fine
 * row has a second int8 row, of what the first one leaves of the floats; int8 products of it are the sum over both. */
struct activation_view {
    struct tensor f32;
    struct tensor q8;       /* buffer NULL: nobody reads it */
    struct tensor q8_rest;  /* [n fine rows], the second int8 rows; absent where q8 is */
    struct tensor fine_row; /* [1][n fine rows] or more: the fine rows, ascending, int32 in the place of floats */
};

#endif
