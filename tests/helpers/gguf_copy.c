/* gguf_copy.c: reads a model and writes it again, as one file, with the library's own reader and writer.
 * Usage: gguf_copy IN OUT */
#include <stdio.h>
#include <stdlib.h>

#include "format/gguf_write.h"

static enum mr_status copy_data(struct gguf_writer *w, const struct gguf *g, const struct gguf_tensor *t, struct mr_error *err)
{
    static char buffer[1 << 16];
    for (size_t at = 0; at < t->bytes;) {
        const size_t n = t->bytes - at < sizeof buffer ? t->bytes - at : sizeof buffer;
        MR_TRY(gguf_read(g, t, at, buffer, n, err));
        MR_TRY(gguf_write_data(w, buffer, n, err));
        at += n;
    }
    return MR_OK;
}

static enum mr_status copy(struct gguf_writer *w, const struct gguf *g, struct mr_error *err)
{
    for (int i = 0; i < gguf_n_values(g); i++)
        MR_TRY(gguf_put_value(w, gguf_value_at(g, i), err));
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        MR_TRY(gguf_declare_tensor(w, t->name, t->quant, t->n_dims, t->dims, err));
    }
    MR_TRY(gguf_begin_data(w, err));
    for (int i = 0; i < gguf_n_tensors(g); i++)
        MR_TRY(copy_data(w, g, gguf_tensor_at(g, i), err));
    return gguf_writer_finish(w, err);
}

int main(int argc, char **argv)
{
    struct gguf *g;
    struct gguf_writer *w = NULL;
    struct mr_error err = {""};
    if (argc != 3)
        return 2;
    enum mr_status status = gguf_open(&g, argv[1], &err);
    if (status == MR_OK)
        status = gguf_writer_create(&w, argv[2], &err);
    if (status == MR_OK)
        status = copy(w, g, &err);
    gguf_writer_free(w);
    gguf_close(g);
    if (status != MR_OK)
        fprintf(stderr, "%s\n", err.message);
    return status == MR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
