/* write_floats.c: encoded a piece at a time. */
#include "compress/write_floats.h"

enum {
    PIECE = 1 << 14 /* weights encoded at a time */
};

enum mr_status write_floats(struct gguf_writer *w, const float *from, size_t n, const struct quant *quant, const char *name,
                            struct mr_error *err)
{
    char bytes[PIECE * sizeof(float)];
    for (size_t done = 0, some; done < n; done += some) {
        some = n - done < PIECE ? n - done : PIECE;
        quant->encode(bytes, from + done, some);
        if (!quant_is_finite(quant, bytes, some))
            return mr_fail(err, MR_BAD_INPUT, "tensor '%s' has weights that are not finite as %s", name, quant->name);
        MR_TRY(gguf_write_data(w, bytes, some * quant->bytes, err));
    }
    return MR_OK;
}
