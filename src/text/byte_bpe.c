/* byte_bpe.c: byte-level byte pair encoding (tokenizer.ggml.model = gpt2; Radford et al. 2019). */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/merge_table.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_model.h"

struct byte_bpe {
    struct pre_tokenizer *pre;
    struct merge_table merges;
    int32_t byte_id[256];      /* -1: the vocabulary lacks this byte */
    struct string_index whole; /* tokens that a piece equal to them becomes, without merging */
    bool whole_piece_first;
};

struct byte_bpe_scratch {
    struct pre_tokenizer_scratch *pre;
    struct merger merger;
};

static void byte_bpe_scratch_free(void *scratch)
{
    struct byte_bpe_scratch *s = scratch;
    if (s == NULL)
        return;
    pre_tokenizer_scratch_free(s->pre);
    merger_release(&s->merger);
    free(s);
}

static void *byte_bpe_scratch_create(const void *model)
{
    (void)model;
    struct byte_bpe_scratch *s = calloc(1, sizeof *s);
    if (s != NULL)
        s->pre = pre_tokenizer_scratch_create();
    if (s != NULL && s->pre == NULL) {
        byte_bpe_scratch_free(s);
        return NULL;
    }
    return s;
}

static void byte_bpe_free(void *model)
{
    struct byte_bpe *b = model;
    if (b == NULL)
        return;
    pre_tokenizer_free(b->pre);
    merge_table_release(&b->merges);
    string_index_release(&b->whole);
    free(b);
}

static void find_bytes(struct byte_bpe *b, const struct vocabulary *v)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char s[UTF8_MAX];
        const int n = utf8_encode(s, byte_level_char(byte));
        const int32_t id = string_index_find(&v->by_spelling, s, (size_t)n);
        b->byte_id[byte] = id >= 0 && vocabulary_is_text(v, id) ? id : -1;
    }
}

/* The symbols of a piece. A byte without a token gives none, as the published tokenizers have it: such bytes are rare
 * control characters, or stand in no assigned character. */
static bool add_bytes(const struct byte_bpe *b, struct merger *m, const char *s, size_t n)
{
    m->n = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t id = b->byte_id[(unsigned char)s[i]];
        if (id >= 0 && !merger_add(m, id, (uint32_t)i, 1))
            return false;
    }
    return true;
}

/* Index the tokens that merging their own bytes gives: most pieces of a text are such tokens. */
static bool index_whole_pieces(struct byte_bpe *b, const struct vocabulary *v)
{
    struct merger m = {0};
    bool ok = string_index_init(&b->whole, &v->piece, (size_t)v->n);
    for (int32_t id = 0; ok && id < v->n; id++) {
        const struct gguf_string piece = vocabulary_piece(v, id);
        if (!vocabulary_is_text(v, id) || piece.n == 0)
            continue;
        bool is_whole = b->whole_piece_first;
        if (!is_whole) {
            ok = add_bytes(b, &m, piece.s, piece.n) && merger_run(&m, merge_table_find, &b->merges);
            is_whole = ok && m.n == 1 && m.symbol[0].id == id;
        }
        if (is_whole)
            string_index_add(&b->whole, id);
    }
    merger_release(&m);
    return ok;
}

static enum mr_status byte_bpe_create(void **out, const struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    struct gguf_string name;
    *out = NULL;
    MR_TRY(gguf_get_string(g, "tokenizer.ggml.pre", &name, err));
    struct byte_bpe *b = calloc(1, sizeof *b);
    if (b == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the tokenizer");
    enum mr_status status = pre_tokenizer_create(&b->pre, name.s, name.n, err);
    if (status == MR_OK)
        status = merge_table_init(&b->merges, v, g, err);
    if (status == MR_OK) {
        b->whole_piece_first = pre_tokenizer_traits(b->pre).whole_piece_first;
        find_bytes(b, v);
        if (!index_whole_pieces(b, v))
            status = mr_fail(err, MR_NO_MEMORY, "no memory for the index of %d tokens", v->n);
    }
    if (status == MR_OK)
        *out = b;
    else
        byte_bpe_free(b);
    return status;
}

static struct tokenizer_defaults byte_bpe_defaults(const void *model)
{
    const struct byte_bpe *b = model;
    return (struct tokenizer_defaults){.add_bos = pre_tokenizer_traits(b->pre).adds_bos};
}

struct encoding {
    const struct byte_bpe *b;
    struct byte_bpe_scratch *scratch;
    struct token_list *list;
};

static bool encode_piece(void *ctx, const char *s, size_t n)
{
    const struct encoding *e = ctx;
    struct merger *m = &e->scratch->merger;
    const int32_t whole = string_index_find(&e->b->whole, s, n);
    if (whole >= 0)
        return token_list_add(e->list, whole);
    if (!add_bytes(e->b, m, s, n) || !merger_run(m, merge_table_find, &e->b->merges))
        return false;
    for (size_t i = 0; i < m->n; i++)
        if (!token_list_add(e->list, m->symbol[i].id))
            return false;
    return true;
}

/* Bytes that are not UTF-8 are a piece of their own; one without a token becomes U+FFFD. */
static bool encode_ill_formed(struct encoding *e, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (e->b->byte_id[(unsigned char)s[i]] >= 0)
            continue;
        if ((i > from && !encode_piece(e, s + from, i - from)) || !encode_piece(e, "\xef\xbf\xbd", 3))
            return false;
        from = i + 1;
    }
    return from == n || encode_piece(e, s + from, n - from);
}

/* The length of the run of characters, or of ill-formed bytes, at s. */
static size_t run_length(const char *s, size_t n, bool *well_formed)
{
    uint32_t code;
    size_t i = 0;
    *well_formed = utf8_decode(&code, s, n) > 0;
    while (i < n) {
        if ((unsigned char)s[i] < 0x80) {
            if (!*well_formed)
                break;
            i++;
            continue;
        }
        const int len = utf8_decode(&code, s + i, n - i);
        if ((len > 0) != *well_formed)
            break;
        i += (size_t)(len > 0 ? len : -len);
    }
    return i;
}

static bool byte_bpe_encode(const void *model, void *scratch, const struct text_segment *segment, struct token_list *list)
{
    const struct byte_bpe *b = model;
    struct encoding e = {b, scratch, list};
    for (size_t at = 0; at < segment->n;) {
        bool well_formed;
        const char *s = segment->s + at;
        const size_t n = run_length(s, segment->n - at, &well_formed);
        if (!(well_formed ? pre_tokenizer_split(b->pre, e.scratch->pre, s, n, encode_piece, &e) : encode_ill_formed(&e, s, n)))
            return false;
        at += n;
    }
    return true;
}

const struct model_kind model_byte_bpe = {
    .name = "gpt2",
    .form = PIECE_BYTE_LEVEL,
    .create = byte_bpe_create,
    .free = byte_bpe_free,
    .defaults = byte_bpe_defaults,
    .scratch_create = byte_bpe_scratch_create,
    .scratch_free = byte_bpe_scratch_free,
    .encode = byte_bpe_encode,
};
