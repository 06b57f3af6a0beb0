/* write_floats.h: the data of a trained tensor into a file that is being written. */
#ifndef COMPRESS_WRITE_FLOATS_H
#define COMPRESS_WRITE_FLOATS_H

#include "format/gguf_write.h"

/* from[n] as `quant`, piece by piece; quant has one value a block. BAD_INPUT: one is not finite, with the tensor's name. */
enum mr_status write_floats(struct gguf_writer *w, const float *from, size_t n, const struct quant *quant, const char *name,
                            struct mr_error *err);

#endif
