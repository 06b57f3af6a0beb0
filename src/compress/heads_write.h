/* heads_write.h: heads for speculation as a file beside the model (docs/compression.md says what it holds). */
#ifndef COMPRESS_HEADS_WRITE_H
#define COMPRESS_HEADS_WRITE_H

#include "train/draft_heads.h"
#include "train/eagle.h"

/* base_file: the file that base came from; its name, and a digest of its last norm, tell which model the heads belong to.
 * Matrices are written as `type` (f32, f16 or bf16), biases as f32. The file appears whole or not at all.
 * BAD_INPUT: a weight is not finite, by tensor. */
enum mr_status heads_write(const struct draft_heads *h, const struct train_model *base, const struct gguf *base_file,
                           enum quant_type type, const char *path, struct mr_error *err);
enum mr_status eagle_write(const struct eagle *e, const struct gguf *base_file, enum quant_type type, const char *path,
                           struct mr_error *err);

#endif
