/* word_piece.c: WordPiece (tokenizer.ggml.model = bert; Wu et al. 2016, arXiv:1609.08144, section 4.1), after BERT's
 * cleaning and splitting of text (Devlin et al. 2019, arXiv:1810.04805): control characters go, each CJK character and
 * each punctuation mark is a word, and where the vocabulary is uncased, accents and capitals go as well.
 * In a GGUF file a piece that begins a word is spelled with U+2581 in front, and one that goes on with nothing. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/old_unicode.h"
#include "text/tokenizer_model.h"

enum {
    WORD_CHARS_MAX = 100 /* a longer word is unknown */
};

struct word_piece {
    const struct vocabulary *v;
    struct string_index by_piece;
    size_t longest; /* bytes of a piece */
    bool uncased;
};

struct word {
    char s[1 + WORD_CHARS_MAX * UTF8_MAX]; /* a blank, then the word */
    size_t n;
    int n_char; /* may pass WORD_CHARS_MAX: the rest is not kept */
};

static void word_piece_free(void *model)
{
    struct word_piece *m = model;
    if (m == NULL)
        return;
    string_index_release(&m->by_piece);
    free(m);
}

static bool has_capital(struct gguf_string s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.s[i] >= 'A' && s.s[i] <= 'Z')
            return true;
    return false;
}

/* A vocabulary without any capital is uncased; names such as [unused1] are lower case too. */
static void index_pieces(struct word_piece *m)
{
    m->uncased = true;
    for (int32_t id = 0; id < m->v->n; id++) {
        const struct gguf_string piece = vocabulary_piece(m->v, id);
        if (!vocabulary_is_text(m->v, id) || piece.n == 0)
            continue;
        string_index_add(&m->by_piece, id);
        m->uncased = m->uncased && !has_capital(piece);
        if (piece.n > m->longest)
            m->longest = piece.n;
    }
}

static enum mr_status word_piece_create(void **out, const struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    (void)g;
    *out = NULL;
    if (v->special[SPECIAL_UNKNOWN] < 0)
        return mr_fail(err, MR_NOT_FOUND, "key 'tokenizer.ggml.unknown_token_id' is missing");
    struct word_piece *m = calloc(1, sizeof *m);
    if (m == NULL || !string_index_init(&m->by_piece, &v->piece, (size_t)v->n)) {
        word_piece_free(m);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a vocabulary of %d tokens", v->n);
    }
    m->v = v;
    index_pieces(m);
    *out = m;
    return MR_OK;
}

static struct tokenizer_defaults word_piece_defaults(const void *model)
{
    (void)model;
    return (struct tokenizer_defaults){.add_bos = true, .add_eos = true};
}

static void *word_scratch_create(const void *model)
{
    (void)model;
    return calloc(1, sizeof(struct word));
}

static void word_scratch_free(void *scratch) { free(scratch); }

/* The longest piece at s; -1: none. */
static int32_t longest_piece(const struct word_piece *m, const char *s, size_t n, size_t *used)
{
    for (size_t len = n < m->longest ? n : m->longest; len > 0; len--) {
        if (len < n && ((unsigned char)s[len] & 0xc0) == 0x80)
            continue; /* within a character */
        const int32_t id = string_index_find(&m->by_piece, s, len);
        if (id >= 0) {
            *used = len;
            return id;
        }
    }
    return -1;
}

/* A word of which a part is no piece is unknown as a whole. */
static bool end_word(const struct word_piece *m, struct word *w, struct token_list *list)
{
    const size_t before = list->n;
    const size_t n = w->n;
    const bool too_long = w->n_char > WORD_CHARS_MAX;
    if (w->n_char == 0)
        return true;
    w->n = 0;
    w->n_char = 0;
    for (size_t at = 0, used = 0; !too_long && at < n; at += used) {
        const int32_t id = longest_piece(m, w->s + at, n - at, &used);
        if (id < 0 || (at == 0 && used == 1)) { /* the blank alone begins no word */
            list->n = before;
            return token_list_add(list, m->v->special[SPECIAL_UNKNOWN]);
        }
        if (!token_list_add(list, id))
            return false;
    }
    return !too_long || token_list_add(list, m->v->special[SPECIAL_UNKNOWN]);
}

static void add_char(struct word *w, uint32_t code)
{
    if (w->n == 0)
        w->s[w->n++] = ' ';
    if (w->n_char++ < WORD_CHARS_MAX)
        w->n += (size_t)utf8_encode(w->s + w->n, code);
}

static bool add_word_of_one(const struct word_piece *m, struct word *w, uint32_t code, struct token_list *list)
{
    if (!end_word(m, w, list))
        return false;
    add_char(w, code);
    return end_word(m, w, list);
}

/* A character after accents and capitals are gone. */
static bool add_plain(const struct word_piece *m, struct word *w, uint32_t code, struct token_list *list)
{
    if (old_unicode_is_punctuation(code))
        return add_word_of_one(m, w, code, list);
    add_char(w, code);
    return true;
}

static bool add_normalized(const struct word_piece *m, struct word *w, uint32_t code, struct token_list *list)
{
    utf8proc_int32_t parts[32];
    int boundary = 0;
    if (!m->uncased)
        return add_plain(m, w, code, list);
    const utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code, parts, 32, UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 32; i++)
        if (!old_unicode_is_nonspacing_mark((uint32_t)parts[i]) && !add_plain(m, w, (uint32_t)utf8proc_tolower(parts[i]), list))
            return false;
    return true;
}

static bool is_space(uint32_t code)
{
    return code == '\t' || code == '\n' || code == '\r' || code == ' ' ||
           (code >= 0xa0 && utf8proc_category((utf8proc_int32_t)code) >= UTF8PROC_CATEGORY_ZS &&
            utf8proc_category((utf8proc_int32_t)code) <= UTF8PROC_CATEGORY_ZP);
}

/* The blocks that the published tokenizer names: ideographs, not kana or Hangul. */
static bool is_cjk(uint32_t code)
{
    return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) || (code >= 0xf900 && code <= 0xfaff) ||
           (code >= 0x20000 && code <= 0x2a6df) || (code >= 0x2a700 && code <= 0x2b81f) ||
           (code >= 0x2b920 && code <= 0x2ceaf) || (code >= 0x2f800 && code <= 0x2fa1f);
}

static bool word_piece_encode(const void *model, void *scratch, const struct text_segment *segment, struct token_list *list)
{
    const struct word_piece *m = model;
    struct word *w = scratch;
    w->n = 0;
    w->n_char = 0;
    for (size_t at = 0; at < segment->n;) {
        uint32_t code;
        const int len = utf8_decode(&code, segment->s + at, segment->n - at);
        bool ok = true;
        at += (size_t)(len > 0 ? len : -len);
        if (len < 0)
            ok = end_word(m, w, list) && token_list_add(list, m->v->special[SPECIAL_UNKNOWN]);
        else if (is_space(code))
            ok = end_word(m, w, list);
        else if (code == 0xfffd || old_unicode_is_control(code))
            continue;
        else if (is_cjk(code))
            ok = end_word(m, w, list) && add_normalized(m, w, code, list) && end_word(m, w, list);
        else
            ok = add_normalized(m, w, code, list);
        if (!ok)
            return false;
    }
    return end_word(m, w, list);
}

const struct model_kind model_word_piece = {
    .name = "bert",
    .form = PIECE_SPACE_MARK,
    .create = word_piece_create,
    .free = word_piece_free,
    .defaults = word_piece_defaults,
    .scratch_create = word_scratch_create,
    .scratch_free = word_scratch_free,
    .encode = word_piece_encode,
};
