/* f32.c: 32-bit floats as they are. */
#include <string.h>

#include "quant/types.h"

static void decode(float *out, const void *in, size_t n) { memcpy(out, in, n * sizeof(float)); }

static void encode(void *out, const float *in, size_t n) { memcpy(out, in, n * sizeof(float)); }

const struct quant quant_f32 = {QUANT_F32, "f32", 1, sizeof(float), decode, encode};
