/* merge_bpe.c: byte pair encoding over characters with a list of merges (tokenizer.ggml.model = gemma4): blanks are
 * characters, and one without a piece falls back to byte tokens. */
#include <stdlib.h>

#include "text/char_bpe.h"
#include "text/merge_table.h"

struct merge_bpe {
    struct char_bpe base;
    struct merge_table merges;
};

static void merge_bpe_free(void *model)
{
    struct merge_bpe *m = model;
    if (m == NULL)
        return;
    char_bpe_release(&m->base);
    merge_table_release(&m->merges);
    free(m);
}

static enum mr_status merge_bpe_create(void **out, const struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    *out = NULL;
    struct merge_bpe *m = calloc(1, sizeof *m);
    if (m == NULL || !char_bpe_init(&m->base, v)) {
        merge_bpe_free(m);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a vocabulary of %d tokens", v->n);
    }
    const enum mr_status status = merge_table_init(&m->merges, v, g, err);
    if (status == MR_OK)
        *out = m;
    else
        merge_bpe_free(m);
    return status;
}

static struct tokenizer_defaults merge_bpe_defaults(const void *model)
{
    (void)model;
    return (struct tokenizer_defaults){.add_bos = true};
}

static bool merge_piece(const void *model, struct merger *merger, const char *s)
{
    const struct merge_bpe *m = model;
    (void)s;
    return merger_run(merger, merge_table_find, &m->merges);
}

static bool merge_bpe_encode(const void *model, void *scratch, const struct text_segment *segment, struct token_list *list)
{
    const struct merge_bpe *m = model;
    return char_bpe_encode(&m->base, scratch, segment, merge_piece, model, list);
}

const struct model_kind model_merge_bpe = {
    .name = "gemma4",
    .form = PIECE_SPACE_MARK,
    .marks_spaces = true,
    .create = merge_bpe_create,
    .free = merge_bpe_free,
    .defaults = merge_bpe_defaults,
    .scratch_create = char_bpe_scratch_create,
    .scratch_free = char_bpe_scratch_free,
    .encode = merge_bpe_encode,
};
