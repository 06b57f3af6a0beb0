/* tokenizer.c: text to token ids: special tokens first, the text between them by the model's kind. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/segment_cache.h"
#include "text/special_matcher.h"
#include "text/tokenizer_model.h"

struct tokenizer {
    struct vocabulary vocabulary;
    struct special_matcher specials;
    const struct model_kind *kind;
    void *model;
    bool add_bos, add_eos, add_space_prefix;
    int32_t bos, eos;
    char *chat_template;
    size_t n_chat_template;
};

static const struct model_kind *const kinds[] = {
    &model_byte_bpe, &model_sentence_piece, &model_merge_bpe, &model_word_piece, &model_unigram,
};

enum {
    N_KINDS = sizeof kinds / sizeof *kinds
};

static enum mr_status find_kind(const struct model_kind **out, const struct gguf *g, struct mr_error *err)
{
    struct gguf_string name;
    MR_TRY(gguf_get_string(g, "tokenizer.ggml.model", &name, err));
    for (int i = 0; i < N_KINDS; i++) {
        *out = kinds[i];
        if (strlen(kinds[i]->name) == name.n && memcmp(kinds[i]->name, name.s, name.n) == 0)
            return MR_OK;
    }
    return mr_fail(err, MR_NO_SUPPORT, "key 'tokenizer.ggml.model': unknown tokenizer '%.*s'", name.n < 100 ? (int)name.n : 100,
                   name.s);
}

static int32_t first_id(int32_t a, int32_t b) { return a >= 0 ? a : b; }

/* BERT calls its first and last token CLS and SEP. */
static enum mr_status read_settings(struct tokenizer *t, const struct gguf *g, struct mr_error *err)
{
    const struct tokenizer_defaults d = t->kind->defaults(t->model);
    const int32_t *id = t->vocabulary.special;
    bool add_sep;
    t->bos = first_id(id[SPECIAL_BOS], id[SPECIAL_CLS]);
    t->eos = first_id(id[SPECIAL_EOS], id[SPECIAL_SEPARATOR]);
    MR_TRY(gguf_get_bool_or(g, "tokenizer.ggml.add_bos_token", d.add_bos && t->bos >= 0, &t->add_bos, err));
    MR_TRY(gguf_get_bool_or(g, "tokenizer.ggml.add_eos_token", d.add_eos && t->eos >= 0, &t->add_eos, err));
    MR_TRY(gguf_get_bool_or(g, "tokenizer.ggml.add_sep_token", false, &add_sep, err));
    MR_TRY(gguf_get_bool_or(g, "tokenizer.ggml.add_space_prefix", d.add_space_prefix, &t->add_space_prefix, err));
    t->add_eos = t->add_eos || add_sep;
    if (t->add_bos && t->bos < 0)
        return mr_fail(err, MR_BAD_FORMAT,
                       "key 'tokenizer.ggml.add_bos_token' is true, but 'tokenizer.ggml.bos_token_id' is missing");
    if (t->add_eos && t->eos < 0)
        return mr_fail(err, MR_BAD_FORMAT,
                       "key 'tokenizer.ggml.add_eos_token' is true, but 'tokenizer.ggml.eos_token_id' is missing");
    return MR_OK;
}

static enum mr_status copy_chat_template(struct tokenizer *t, const struct gguf *g, struct mr_error *err)
{
    struct gguf_string s;
    if (gguf_value_find(g, "tokenizer.chat_template") == NULL)
        return MR_OK;
    MR_TRY(gguf_get_string(g, "tokenizer.chat_template", &s, err));
    t->chat_template = mem_string(s.s, s.n);
    if (t->chat_template == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a chat template of %zu bytes", s.n);
    t->n_chat_template = s.n;
    return MR_OK;
}

static enum mr_status fill(struct tokenizer *t, const struct gguf *g, struct mr_error *err)
{
    MR_TRY(find_kind(&t->kind, g, err));
    MR_TRY(vocabulary_init(&t->vocabulary, g, t->kind->form, err));
    if (!special_matcher_init(&t->specials, &t->vocabulary))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the special tokens");
    MR_TRY(t->kind->create(&t->model, &t->vocabulary, g, err));
    MR_TRY(read_settings(t, g, err));
    return copy_chat_template(t, g, err);
}

enum mr_status tokenizer_create(struct tokenizer **out, const struct gguf *g, struct mr_error *err)
{
    *out = NULL;
    struct tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the tokenizer");
    const enum mr_status status = fill(t, g, err);
    if (status == MR_OK)
        *out = t;
    else
        tokenizer_free(t);
    return status;
}

void tokenizer_free(struct tokenizer *t)
{
    if (t == NULL)
        return;
    if (t->kind != NULL)
        t->kind->free(t->model);
    special_matcher_release(&t->specials);
    vocabulary_release(&t->vocabulary);
    free(t->chat_template);
    free(t);
}

void token_list_release(struct token_list *list)
{
    free(list->id);
    *list = (struct token_list){0};
}

bool token_list_add(struct token_list *list, int32_t id)
{
    if (!mem_grow(&list->id, &list->capacity, list->n + 1, sizeof *list->id))
        return false;
    list->id[list->n++] = id;
    return true;
}

/* The runs joined, and who wrote which stretch. */
struct joined {
    struct special_text text;
    char *copy; /* NULL: text.s is the caller's only run */
    size_t *border;
};

static void joined_release(struct joined *j)
{
    free(j->copy);
    free(j->border);
}

/* Stretches alternate, beginning with the caller's. */
static void find_borders(struct joined *j, const struct text_run *run, int n_run)
{
    bool control = false;
    size_t end = 0, n = 0;
    for (int i = 0; i < n_run; i++) {
        if (run[i].match_control != control && run[i].n > 0) {
            j->border[n++] = end;
            control = !control;
        }
        end += run[i].n;
    }
    j->border[n++] = end;
    j->text.n_border = n;
    j->text.border = j->border;
    j->text.n = end;
}

/* U+2581 to a blank, in place. */
static void replace_marks(struct joined *j)
{
    size_t out = 0, stretch = 0;
    for (size_t at = 0; at < j->text.n;) {
        while (j->border[stretch] <= at)
            j->border[stretch++] = out;
        const bool mark = j->text.n - at >= 3 && memcmp(j->copy + at, "\xe2\x96\x81", 3) == 0;
        j->copy[out++] = mark ? ' ' : j->copy[at];
        at += mark ? 3 : 1;
    }
    while (stretch < j->text.n_border)
        j->border[stretch++] = out;
    j->text.n = out;
}

static bool join(struct joined *j, const struct text_run *run, int n_run, bool marks_spaces)
{
    size_t n = 0;
    *j = (struct joined){0};
    for (int i = 0; i < n_run; i++)
        if (!size_add(&n, n, run[i].n))
            return false;
    j->border = mem_array((size_t)n_run + 1, sizeof *j->border);
    if (j->border == NULL || n > INT32_MAX)
        return false;
    find_borders(j, run, n_run);
    if (n_run == 1 && !(marks_spaces && n > 0 && memmem(run[0].s, n, "\xe2\x96\x81", 3) != NULL)) {
        j->text.s = run[0].s;
        return true;
    }
    j->copy = mem_array(n, 1);
    if (j->copy == NULL)
        return false;
    for (size_t at = 0, i = 0; i < (size_t)n_run; at += run[i++].n)
        if (run[i].n > 0)
            memcpy(j->copy + at, run[i].s, run[i].n);
    if (marks_spaces)
        replace_marks(j);
    j->text.s = j->copy;
    return true;
}

/* What lies between two special tokens. */
static bool encode_segment(const struct tokenizer *t, struct segment_cache *cache, const struct text_segment *segment,
                           void *scratch, struct token_list *list)
{
    if (cache != NULL && segment_cache_find(cache, segment, list))
        return true;
    const size_t before = list->n;
    if (!t->kind->encode(t->model, scratch, segment, list))
        return false;
    if (cache != NULL)
        segment_cache_add(cache, segment, list->id + before, list->n - before);
    return true;
}

static bool encode_text(const struct tokenizer *t, struct segment_cache *cache, struct special_text *text, unsigned flags,
                        void *scratch, struct token_list *list)
{
    const bool add = (flags & ENCODE_ADD_BOS) != 0;
    struct text_segment segment = {.add_space = t->add_space_prefix};
    size_t at = 0;
    for (;;) {
        const struct special_match match = special_matcher_next(&t->specials, text, at);
        const bool begins_with_bos = at == 0 && match.start == 0 && match.id == t->bos;
        if (at == 0 && add && t->add_bos && !begins_with_bos && !token_list_add(list, t->bos))
            return false;
        segment.s = text->s + at;
        segment.n = match.start - at;
        if (segment.n > 0 && !encode_segment(t, cache, &segment, scratch, list))
            return false;
        if (match.id < 0)
            break;
        if (!token_list_add(list, match.id))
            return false;
        at = match.start + match.n;
        segment.add_space = t->add_space_prefix && t->vocabulary.type[match.id] != TOKEN_USER_DEFINED;
    }
    return !(add && t->add_eos) || token_list_add(list, t->eos);
}

enum mr_status tokenizer_encode(const struct tokenizer *t, const struct text_run *run, int n_run, unsigned flags,
                                struct token_list *list, struct mr_error *err)
{
    return tokenizer_encode_cached(t, NULL, run, n_run, flags, list, err);
}

enum mr_status tokenizer_encode_cached(const struct tokenizer *t, struct segment_cache *cache, const struct text_run *run,
                                       int n_run, unsigned flags, struct token_list *list, struct mr_error *err)
{
    struct joined j;
    const size_t before = list->n;
    void *scratch = t->kind->scratch_create(t->model);
    const bool ok = scratch != NULL && join(&j, run, n_run, t->kind->marks_spaces);
    const bool encoded = ok && encode_text(t, cache, &j.text, flags, scratch, list);
    if (scratch != NULL)
        joined_release(&j);
    t->kind->scratch_free(scratch);
    if (encoded)
        return MR_OK;
    list->n = before;
    return mr_fail(err, MR_NO_MEMORY, "no memory to encode the text");
}

int tokenizer_n_vocab(const struct tokenizer *t) { return t->vocabulary.n; }

static bool in_vocabulary(const struct tokenizer *t, int32_t id) { return id >= 0 && id < t->vocabulary.n; }

struct gguf_string tokenizer_piece(const struct tokenizer *t, int32_t id, bool special)
{
    if (!in_vocabulary(t, id) || (!special && tokenizer_is_control(t, id)))
        return (struct gguf_string){"", 0};
    return vocabulary_piece(&t->vocabulary, id);
}

struct gguf_string tokenizer_spelling(const struct tokenizer *t, int32_t id)
{
    struct gguf_string s = {"", 0};
    if (in_vocabulary(t, id))
        s.s = string_table_at(&t->vocabulary.spelling, (size_t)id, &s.n);
    return s;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *spelling, size_t n)
{
    return string_index_find(&t->vocabulary.by_spelling, spelling, n);
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    if (!in_vocabulary(t, id))
        return false;
    const uint8_t type = t->vocabulary.type[id];
    return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || t->vocabulary.is_end[id];
}

int32_t tokenizer_bos(const struct tokenizer *t) { return t->bos; }

int32_t tokenizer_eos(const struct tokenizer *t) { return t->eos; }

bool tokenizer_is_end(const struct tokenizer *t, int32_t id) { return in_vocabulary(t, id) && t->vocabulary.is_end[id]; }

bool tokenizer_adds_bos(const struct tokenizer *t) { return t->add_bos; }

bool tokenizer_adds_space(const struct tokenizer *t) { return t->add_space_prefix; }

struct gguf_string tokenizer_chat_template(const struct tokenizer *t)
{
    return (struct gguf_string){t->chat_template != NULL ? t->chat_template : "", t->n_chat_template};
}
