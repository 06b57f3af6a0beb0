/* calibration_state.h: what the files behind calibrate.h share. */
#ifndef COMPRESS_CALIBRATION_STATE_H
#define COMPRESS_CALIBRATION_STATE_H

#include "compress/calibrate.h"
#include "model/model_state.h"
#include "ops/ops.h"

struct met { /* one matrix, or those of all experts */
    const struct weight *weight;
    struct gguf_string name; /* borrowed from the model's file */
    int n_in, n_matrix;
    double *sum;    /* [n_matrix][n_in] of squares */
    int64_t *count; /* [n_matrix] rows */
};

struct calibration {
    struct ops ops; /* first: the device points here while the text is read */
    const struct ops *inner;
    struct device *device;
    struct met *met;
    int n_met;
    int n_window; /* tokens */
    float *row;   /* room for the widest row */
};

#endif
