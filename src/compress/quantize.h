/* quantize.h: a model file again with other block types. Tensors are streamed: memory holds a few megabytes of one at a time.
 * The output does not depend on the number of threads. It appears under its name when it is whole and on the disk. */
#ifndef COMPRESS_QUANTIZE_H
#define COMPRESS_QUANTIZE_H

#include "compress/column_weights.h"
#include "compress/mix.h"

/* Tensors whose name matches get this type. */
struct quantize_rule {
    const char *pattern; /* POSIX extended regular expression, found anywhere in the name */
    const struct quant *type;
};

/* What became of one tensor. */
struct quantize_step {
    struct gguf_string name;                /* borrowed */
    const struct quant *from, *wanted, *to; /* wanted is not to: its rows do not fit */
    uint64_t bytes;
    bool has_importance;
    double error; /* root of sum (x - q(x))^2 over sum x^2 */
    int done, n;  /* tensors */
};

struct quantize_options {
    const struct mix *mix;
    bool is_pure;                         /* the mix's base type everywhere */
    const struct quant *head, *embedding; /* of output.weight, of token_embd.weight; NULL: as the mix has it. A tied embedding
                                             takes the wider of both */
    const struct quantize_rule *rule;     /* n_rule of them; the first that matches counts, before all else */
    int n_rule;
    const struct column_weights *importance; /* NULL: all columns count alike */
    bool requantize;                         /* take types of fewer than 8 bits as input, too: their errors add up */
    int threads;                             /* 0: all */
    bool (*go_on)(void *context, const struct quantize_step *step); /* after each tensor; false: stop */
    void *context;
};

struct quantize_result {
    uint64_t bytes_in, bytes_out; /* of tensors */
    int n_tensor, n_quantized, n_unfit, n_importance;
};

/* BAD_INPUT: in is packed, a rule is no pattern, a tensor has few bits already; FULL: the disk has no room, told before work
 * begins; BAD_FORMAT: a weight is NaN or infinite or becomes so: the message names the tensor. CANCELLED: go_on said so. */
enum mr_status quantize(struct quantize_result *out, const char *in, const char *to, const struct quantize_options *options,
                        struct mr_error *err);

#endif
