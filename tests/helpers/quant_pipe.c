/* quant_pipe.c: decode or encode blocks from stdin to stdout, for comparison with other implementations.
 * Usage: quant_pipe decode|encode TYPE; decode reads blocks and writes floats, encode the reverse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "quant/quant.h"

/* All of stdin; *n bytes. */
static unsigned char *read_all(size_t *n)
{
    unsigned char *bytes = NULL;
    size_t capacity = 0, got;
    *n = 0;
    do {
        if (!mem_grow(&bytes, &capacity, *n + 65536, 1))
            exit(1);
        got = fread(bytes + *n, 1, 65536, stdin);
        *n += got;
    } while (got > 0);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct quant *q = argc == 3 ? quant_find_name(argv[2]) : NULL;
    if (q == NULL)
        return 2;
    const int decode = strcmp(argv[1], "decode") == 0;
    size_t n;
    unsigned char *in = read_all(&n);
    const size_t in_block = decode ? q->bytes : (size_t)q->block * sizeof(float);
    const size_t out_block = decode ? (size_t)q->block * sizeof(float) : q->bytes;
    const size_t n_block = n / in_block;
    unsigned char *out = mem_array(n_block, out_block);
    if (out == NULL || n % in_block != 0)
        return 1;
    if (decode)
        q->decode((float *)(void *)out, in, n_block * (size_t)q->block);
    else
        q->encode(out, (const float *)(const void *)in, n_block * (size_t)q->block);
    const int failed = fwrite(out, out_block, n_block, stdout) != n_block;
    free(out);
    free(in);
    return failed;
}
