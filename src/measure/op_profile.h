/* op_profile.h: what the ops of a device do and how long they take, counted from the arguments of each call.
 * Installed, the profile stands between a device and its callers as another table of ops that calls the device's own; not
 * installed, it costs nothing. An operation is one multiply or one add. */
#ifndef MEASURE_OP_PROFILE_H
#define MEASURE_OP_PROFILE_H

#include "kernels/peaks.h"
#include "ops/ops.h"

enum op_kind {
    OP_EMBED,
    OP_GATHER,
    OP_NORM,
    OP_QUANTIZE,
    OP_MATMUL,
    OP_ROPE_ANGLES,
    OP_ROPE_STORE,
    OP_ATTENTION,
    OP_GLU,
    OP_SOFT_CAP,
    OP_ROUTE,
    OP_GATHER_SLOTS,
    OP_MATMUL_EXPERTS,
    OP_MIX_EXPERTS,
    OP_DOWNLOAD,
    N_OP_KINDS
};
const char *op_kind_name(enum op_kind kind);

/* Work of some calls. */
struct op_work {
    int64_t n_call;
    double seconds;
    double ops[N_PEAK_TYPES]; /* products by the type of their activations; attention is in attention_ops */
    double attention_ops;
    double weight_bytes;
    double kv_bytes;         /* keys and values read; those of a sequence once a call */
    double activation_bytes; /* rows read and written */
};
void op_work_add(struct op_work *to, const struct op_work *more);
double op_work_ops(const struct op_work *w);
double op_work_bytes(const struct op_work *w);

/* Calls of one kind with the same shapes. */
struct op_row {
    enum op_kind kind;
    const char *kernel; /* of products; NULL elsewhere; lives as long as the device */
    int n_in, n_out;    /* of products: n_out of all that share the activation; else columns and 0 */
    struct op_work work;
};

enum {
    OP_ROWS_MAX = 128,  /* a model has far fewer shapes; what is beyond is counted in the last row */
    OP_LAYERS_MAX = 512 /* as above */
};

struct op_profile {
    struct ops ops; /* first: the device points here, and the calls find their profile by it */
    const struct ops *inner;
    struct device *device;
    struct op_row row[OP_ROWS_MAX];
    int n_row;
    struct op_work layer[OP_LAYERS_MAX + 1]; /* [0]: outside the layers; [1 + i]: layer i */
    int n_layer;                             /* layers seen */
    int at;                                  /* index in layer[] of the next call */
    struct op_work total;
};

/* Empty it, and put it in front of the device's ops, until op_profile_remove. Not to be copied meanwhile. */
void op_profile_install(struct op_profile *p, struct device *device);
void op_profile_remove(struct op_profile *p);

#endif
