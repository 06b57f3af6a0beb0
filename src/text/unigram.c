/* unigram.c: the unigram language model (tokenizer.ggml.model = t5; Kudo 2018, arXiv:1804.10959): of all ways to cut the
 * text into pieces the one with the highest sum of scores, by Viterbi's algorithm, after SentencePiece's
 * normalisation. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/charsmap.h"
#include "text/tokenizer_model.h"
#include "text/trie.h"

static const float unknown_penalty = 10.0f; /* below the lowest score */

struct unigram {
    const struct vocabulary *v;
    struct trie trie;
    struct charsmap charsmap;
    float unknown_score;
    bool remove_extra_spaces;
};

struct best_path { /* to the byte with this index */
    float score;
    int32_t id;     /* of the last piece; -1: an unknown character */
    uint32_t start; /* of the last piece */
    bool reached;
};

struct unigram_scratch {
    char *text; /* normalised */
    size_t n, capacity;
    struct best_path *path;
    size_t path_capacity;
};

static void *unigram_scratch_create(const void *model)
{
    (void)model;
    return calloc(1, sizeof(struct unigram_scratch));
}

static void unigram_scratch_free(void *scratch)
{
    struct unigram_scratch *s = scratch;
    if (s == NULL)
        return;
    free(s->text);
    free(s->path);
    free(s);
}

static void unigram_free(void *model)
{
    struct unigram *m = model;
    if (m == NULL)
        return;
    trie_release(&m->trie);
    charsmap_release(&m->charsmap);
    free(m);
}

static bool index_pieces(struct unigram *m)
{
    const struct vocabulary *v = m->v;
    float lowest = FLT_MAX;
    size_t n = 0;
    int32_t *id = mem_array((size_t)v->n, sizeof *id);
    if (id == NULL)
        return false;
    for (int32_t i = 0; i < v->n; i++) {
        if (!vocabulary_is_text(v, i) || vocabulary_piece(v, i).n == 0)
            continue;
        id[n++] = i;
        if (v->score[i] < lowest)
            lowest = v->score[i];
    }
    m->unknown_score = (n > 0 ? lowest : 0) - unknown_penalty;
    const bool ok = trie_init(&m->trie, &v->piece, id, n);
    free(id);
    return ok;
}

static enum mr_status fill(struct unigram *m, const struct gguf *g, struct mr_error *err)
{
    if (m->v->score == NULL)
        return mr_fail(err, MR_NOT_FOUND, "key 'tokenizer.ggml.scores' is missing");
    if (m->v->special[SPECIAL_UNKNOWN] < 0)
        return mr_fail(err, MR_NOT_FOUND, "key 'tokenizer.ggml.unknown_token_id' is missing");
    MR_TRY(gguf_get_bool_or(g, "tokenizer.ggml.remove_extra_whitespaces", false, &m->remove_extra_spaces, err));
    MR_TRY(charsmap_init(&m->charsmap, g, err));
    return index_pieces(m) ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for a vocabulary of %d tokens", m->v->n);
}

static enum mr_status unigram_create(void **out, const struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    *out = NULL;
    struct unigram *m = calloc(1, sizeof *m);
    if (m == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the tokenizer");
    m->v = v;
    const enum mr_status status = fill(m, g, err);
    if (status == MR_OK)
        *out = m;
    else
        unigram_free(m);
    return status;
}

static struct tokenizer_defaults unigram_defaults(const void *model)
{
    (void)model;
    return (struct tokenizer_defaults){.add_eos = true, .add_space_prefix = true};
}

/* What stands for the text at s, *n_with bytes. Returns how much of s it stands for. */
static size_t normalize_one(const struct unigram *m, const char *s, size_t n, const char **with, size_t *n_with)
{
    uint32_t code;
    const size_t replaced = charsmap_match(&m->charsmap, s, n, with);
    if (replaced > 0) {
        *n_with = strlen(*with);
        return replaced;
    }
    const int len = utf8_decode(&code, s, n);
    *with = len > 0 ? s : "\xef\xbf\xbd";
    *n_with = len > 0 ? (size_t)len : 3;
    return len > 0 ? (size_t)len : 1;
}

static bool append(struct unigram_scratch *t, const char *s, size_t n)
{
    if (!mem_grow(&t->text, &t->capacity, t->n + n, 1))
        return false;
    for (size_t i = 0; i < n;) {
        const bool mark = n - i >= 3 && memcmp(s + i, "\xe2\x96\x81", 3) == 0; /* U+2581 is how pieces write a blank */
        t->text[t->n++] = mark ? ' ' : s[i];
        i += mark ? 3 : 1;
    }
    return true;
}

static bool normalize(const struct unigram *m, struct unigram_scratch *t, const struct text_segment *segment)
{
    bool after_space = m->remove_extra_spaces, begun = false;
    t->n = 0;
    for (size_t at = 0; at < segment->n;) {
        const char *with;
        size_t n;
        at += normalize_one(m, segment->s + at, segment->n - at, &with, &n);
        while (after_space && m->remove_extra_spaces && n > 0 && with[0] == ' ') {
            with++;
            n--;
        }
        if (n == 0)
            continue;
        if ((!begun && segment->add_space && !append(t, " ", 1)) || !append(t, with, n))
            return false;
        begun = true;
        after_space = with[n - 1] == ' ';
    }
    while (m->remove_extra_spaces && t->n > 0 && t->text[t->n - 1] == ' ')
        t->n--;
    return true;
}

static void reach(struct best_path *to, float score, int32_t id, size_t start)
{
    if (!to->reached || score > to->score)
        *to = (struct best_path){score, id, (uint32_t)start, true};
}

/* The best path to every border of characters, left to right. */
static void find_paths(const struct unigram *m, struct unigram_scratch *t)
{
    t->path[0].reached = true;
    for (size_t at = 0; at < t->n;) {
        const float so_far = t->path[at].score;
        uint32_t code, node = 0;
        const int len = utf8_decode(&code, t->text + at, t->n - at);
        const size_t step = len > 0 ? (size_t)len : 1;
        bool has_single = false;
        for (size_t i = at; i < t->n; i++) {
            node = trie_step(&m->trie, node, (unsigned char)t->text[i]);
            if (node == 0)
                break;
            const int32_t id = m->trie.node[node].value;
            if (id < 0)
                continue;
            reach(&t->path[i + 1], m->v->score[id] + so_far, id, at);
            has_single = has_single || i + 1 - at == step;
        }
        if (!has_single)
            reach(&t->path[at + step], m->unknown_score + so_far, -1, at);
        at += step;
    }
}

/* Appends the pieces back to front, then turns them round. Neighbouring unknown characters are one unknown token, or
 * their bytes' tokens where the vocabulary has them. */
static bool emit_path(const struct unigram *m, const struct unigram_scratch *t, struct token_list *list)
{
    const size_t first = list->n;
    bool unknown_after = false;
    for (size_t end = t->n; end > 0; end = t->path[end].start) {
        const struct best_path *p = &t->path[end];
        for (size_t i = end; p->id < 0 && i-- > p->start;) {
            const int32_t byte = m->v->byte_token[(unsigned char)t->text[i]];
            if (!(byte < 0 && unknown_after) && !token_list_add(list, byte >= 0 ? byte : m->v->special[SPECIAL_UNKNOWN]))
                return false;
            unknown_after = byte < 0;
        }
        if (p->id >= 0 && !token_list_add(list, p->id))
            return false;
        unknown_after = unknown_after && p->id < 0;
    }
    for (size_t i = first, j = list->n; i + 1 < j; i++) {
        const int32_t id = list->id[i];
        list->id[i] = list->id[--j];
        list->id[j] = id;
    }
    return true;
}

static bool unigram_encode(const void *model, void *scratch, const struct text_segment *segment, struct token_list *list)
{
    const struct unigram *m = model;
    struct unigram_scratch *t = scratch;
    if (!normalize(m, t, segment))
        return false;
    if (t->n == 0)
        return true;
    if (t->n >= UINT32_MAX || !mem_grow(&t->path, &t->path_capacity, t->n + 1, sizeof *t->path))
        return false;
    memset(t->path, 0, (t->n + 1) * sizeof *t->path);
    find_paths(m, t);
    return emit_path(m, t, list);
}

const struct model_kind model_unigram = {
    .name = "t5",
    .form = PIECE_SPACE_MARK,
    .create = unigram_create,
    .free = unigram_free,
    .defaults = unigram_defaults,
    .scratch_create = unigram_scratch_create,
    .scratch_free = unigram_scratch_free,
    .encode = unigram_encode,
};
