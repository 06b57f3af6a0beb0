/* lora_write.h: a trained adapter as the file that --lora loads (docs/adapters.md). */
#ifndef COMPRESS_LORA_WRITE_H
#define COMPRESS_LORA_WRITE_H

#include "train/train_lora.h"

/* Matrices are written as `type` (f32, f16 or bf16); rows of q and k stand as in the model's own file. The file appears whole
 * or not at all. BAD_INPUT: a weight is not finite, by tensor. */
enum mr_status lora_write(const struct lora *l, enum quant_type type, const char *path, struct mr_error *err);

#endif
