/* sentence_piece.c: byte pair encoding over characters, by the scores of the pieces (tokenizer.ggml.model = llama), as
 * SentencePiece does it (Kudo and Richardson 2018, arXiv:1808.06226): blanks are characters, the pair whose joined text
 * is the piece of the highest score merges first, and a character without a piece falls back to byte tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/char_bpe.h"

struct sentence_piece {
    struct char_bpe base;
    uint32_t *rank; /* [n_vocab]: the order of the scores, the highest first */
};

static void sentence_piece_free(void *model)
{
    struct sentence_piece *m = model;
    if (m == NULL)
        return;
    char_bpe_release(&m->base);
    free(m->rank);
    free(m);
}

/* Scores as integers of the opposite order. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 to 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7fffffffu - bits;
}

static enum mr_status sentence_piece_create(void **out, const struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    (void)g;
    *out = NULL;
    if (v->score == NULL)
        return mr_fail(err, MR_NOT_FOUND, "key 'tokenizer.ggml.scores' is missing");
    struct sentence_piece *m = calloc(1, sizeof *m);
    if (m != NULL)
        m->rank = mem_array((size_t)v->n, sizeof *m->rank);
    if (m == NULL || m->rank == NULL || !char_bpe_init(&m->base, v)) {
        sentence_piece_free(m);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a vocabulary of %d tokens", v->n);
    }
    for (int i = 0; i < v->n; i++)
        m->rank[i] = rank_of_score(v->score[i]);
    *out = m;
    return MR_OK;
}

static struct tokenizer_defaults sentence_piece_defaults(const void *model)
{
    (void)model;
    return (struct tokenizer_defaults){.add_bos = true, .add_space_prefix = true};
}

struct merging {
    const struct sentence_piece *m;
    const char *s;
};

static struct merge merge_by_score(const void *ctx, const struct symbol *left, const struct symbol *right)
{
    const struct merging *c = ctx;
    const int32_t id = string_index_find(&c->m->base.by_piece, c->s + left->start, left->n + right->n);
    return (struct merge){id >= 0 ? c->m->rank[id] : MERGE_RANK_NONE, id};
}

static bool merge_piece(const void *model, struct merger *merger, const char *s)
{
    const struct merging merging = {model, s};
    return merger_run(merger, merge_by_score, &merging);
}

static bool sentence_piece_encode(const void *model, void *scratch, const struct text_segment *segment, struct token_list *list)
{
    const struct sentence_piece *m = model;
    return char_bpe_encode(&m->base, scratch, segment, merge_piece, model, list);
}

const struct model_kind model_sentence_piece = {
    .name = "llama",
    .form = PIECE_SPACE_MARK,
    .marks_spaces = true,
    .create = sentence_piece_create,
    .free = sentence_piece_free,
    .defaults = sentence_piece_defaults,
    .scratch_create = char_bpe_scratch_create,
    .scratch_free = char_bpe_scratch_free,
    .encode = sentence_piece_encode,
};
