/* fuzz_safetensors.c: any bytes as a safetensors file; what opens is read whole. */
#include <stdlib.h>

#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *s;
    struct mr_error err;
    if (safetensors_open_memory(&s, data, size, &err) != MR_OK) {
        if (s != NULL || err.message[0] == '\0')
            abort();
        return 0;
    }
    uint64_t sum = 0;
    for (int i = 0; i < safetensors_n(s); i++) {
        const struct safetensor *t = safetensors_at(s, i);
        char *bytes = malloc((size_t)t->bytes + 1);
        if (bytes == NULL || safetensors_read(s, t, bytes, &err) != MR_OK || t->n_dims > SAFETENSORS_MAX_DIMS)
            abort();
        sum += t->bytes;
        free(bytes);
    }
    if (sum > size)
        abort();
    safetensors_close(s);
    return 0;
}
