/* vocabulary.c: the tokens of a model file. */
#include "text/vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/end_tokens.h"

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES  "tokenizer.ggml.token_type"
#define KEY_SCORES "tokenizer.ggml.scores"

static enum mr_status get_tokens(const struct gguf *g, const struct gguf_value **out, struct mr_error *err)
{
    MR_TRY(gguf_get_array(g, KEY_TOKENS, out, err));
    if ((*out)->type != GGUF_STRING)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is not an array of strings", KEY_TOKENS);
    if ((*out)->n == 0 || (*out)->n > INT32_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' holds %zu tokens", KEY_TOKENS, (*out)->n);
    return MR_OK;
}

static enum mr_status read_spellings(struct vocabulary *v, const struct gguf_value *tokens, struct mr_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        const size_t n = gguf_as_string(tokens, i).n;
        if (n > TOKEN_BYTES_MAX)
            return mr_fail(err, MR_BAD_FORMAT, "key '%s': token %zu has %zu bytes, at most %d are allowed", KEY_TOKENS, i, n,
                           TOKEN_BYTES_MAX);
        bytes += n;
    }
    if (bytes > UINT32_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': the tokens have %zu bytes in all", KEY_TOKENS, bytes);
    if (!string_table_init(&v->spelling, tokens->n, bytes) || !string_index_init(&v->by_spelling, &v->spelling, tokens->n))
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu tokens", tokens->n);
    uint32_t at = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        const struct gguf_string s = gguf_as_string(tokens, i);
        if (s.n > 0)
            memcpy(v->spelling.bytes + at, s.s, s.n);
        at += (uint32_t)s.n;
        v->spelling.start[i + 1] = at;
        if (s.n == 0)
            continue; /* padding: no text gives it */
        const int32_t first = string_index_add(&v->by_spelling, (int32_t)i);
        if (first != (int32_t)i)
            return mr_fail(err, MR_BAD_FORMAT, "key '%s': token %zu repeats token %d, '%.*s'", KEY_TOKENS, i, first, (int)s.n,
                           s.s);
    }
    return MR_OK;
}

/* The array of the key, NULL where there is none; its length must be that of the tokens. */
static enum mr_status get_column(const struct vocabulary *v, const struct gguf *g, const char *key,
                                 const struct gguf_value **out, struct mr_error *err)
{
    *out = gguf_value_find(g, key);
    if (*out == NULL)
        return MR_OK;
    if (!(*out)->is_array || !gguf_is_number(*out))
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is not an array of numbers", key);
    if ((*out)->n != (size_t)v->n)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' holds %zu values for %d tokens", key, (*out)->n, v->n);
    return MR_OK;
}

static enum mr_status read_types(struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    const struct gguf_value *types;
    MR_TRY(get_column(v, g, KEY_TYPES, &types, err));
    memset(v->type, TOKEN_NORMAL, (size_t)v->n);
    if (types == NULL)
        return MR_OK;
    if (!gguf_is_integer(types))
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is not an array of integers", KEY_TYPES);
    for (int i = 0; i < v->n; i++) {
        const int64_t type = gguf_as_i64(types, (size_t)i);
        if (type < 0 || type >= N_TOKEN_TYPE)
            return mr_fail(err, MR_BAD_FORMAT, "key '%s': token %d has type %lld, known are 0 to %d", KEY_TYPES, i,
                           (long long)type, N_TOKEN_TYPE - 1);
        v->type[i] = (uint8_t)type;
    }
    return MR_OK;
}

static enum mr_status read_scores(struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    const struct gguf_value *scores;
    MR_TRY(get_column(v, g, KEY_SCORES, &scores, err));
    if (scores == NULL)
        return MR_OK;
    v->score = mem_array((size_t)v->n, sizeof *v->score);
    if (v->score == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d scores", v->n);
    for (int i = 0; i < v->n; i++) {
        v->score[i] = (float)gguf_as_f64(scores, (size_t)i);
        if (!isfinite(v->score[i]))
            return mr_fail(err, MR_BAD_FORMAT, "key '%s': the score of token %d is not finite", KEY_SCORES, i);
    }
    return MR_OK;
}

static enum mr_status read_special_ids(struct vocabulary *v, const struct gguf *g, struct mr_error *err)
{
    static const char *const key[N_SPECIAL] = {
        [SPECIAL_BOS] = "tokenizer.ggml.bos_token_id",
        [SPECIAL_EOS] = "tokenizer.ggml.eos_token_id",
        [SPECIAL_UNKNOWN] = "tokenizer.ggml.unknown_token_id",
        [SPECIAL_SEPARATOR] = "tokenizer.ggml.seperator_token_id", /* spelled so by the specification */
        [SPECIAL_CLS] = "tokenizer.ggml.cls_token_id",
        [SPECIAL_EOT] = "tokenizer.ggml.eot_token_id",
        [SPECIAL_EOM] = "tokenizer.ggml.eom_token_id",
    };
    for (int i = 0; i < N_SPECIAL; i++) {
        int64_t id;
        MR_TRY(gguf_get_int_or(g, key[i], 0, v->n - 1, -1, &id, err));
        v->special[i] = (int32_t)id;
    }
    return MR_OK;
}

/* The value of "<0xHH>"; -1: not of this form. */
static int byte_of_spelling(const char *s, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || s[3] == '\0' || s[4] == '\0')
        return -1;
    const char *high = strchr(digits, s[3]), *low = strchr(digits, s[4]);
    return high == NULL || low == NULL ? -1 : (int)(high - digits) * 16 + (int)(low - digits);
}

static uint32_t put_byte_level(char *out, const char *s, size_t n)
{
    uint32_t o = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const int len = utf8_decode(&code, s + i, n - i);
        const int byte = len > 0 ? byte_level_byte(code) : -1;
        const size_t step = len > 0 ? (size_t)len : 1;
        if (byte >= 0) {
            out[o++] = (char)byte;
        } else {
            memcpy(out + o, s + i, step);
            o += (uint32_t)step;
        }
        i += step;
    }
    return o;
}

static uint32_t put_space_mark(char *out, const char *s, size_t n)
{
    uint32_t o = 0;
    for (size_t i = 0; i < n;) {
        const bool mark = n - i >= 3 && memcmp(s + i, "\xe2\x96\x81", 3) == 0;
        out[o++] = mark ? ' ' : s[i];
        i += mark ? 3 : 1;
    }
    return o;
}

/* A piece is never longer than its spelling. */
static enum mr_status decode_pieces(struct vocabulary *v, enum piece_form form, struct mr_error *err)
{
    if (!string_table_init(&v->piece, (size_t)v->n, v->spelling.start[v->n]))
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d tokens", v->n);
    memset(v->byte_token, 0xff, sizeof v->byte_token);
    uint32_t at = 0;
    for (int i = 0; i < v->n; i++) {
        size_t n;
        const char *s = string_table_at(&v->spelling, (size_t)i, &n);
        char *out = v->piece.bytes + at;
        if (v->type[i] == TOKEN_BYTE) {
            const int byte = byte_of_spelling(s, n);
            if (byte < 0)
                return mr_fail(err, MR_BAD_FORMAT, "key '%s': byte token %d is '%.*s', not '<0xHH>'", KEY_TOKENS, i, (int)n, s);
            v->byte_token[byte] = i;
            *out = (char)byte;
            at += 1;
        } else if (form == PIECE_SPACE_MARK) {
            at += put_space_mark(out, s, n);
        } else if (v->type[i] <= TOKEN_NORMAL) {
            at += put_byte_level(out, s, n);
        } else {
            if (n > 0)
                memcpy(out, s, n);
            at += (uint32_t)n;
        }
        v->piece.start[i + 1] = at;
    }
    return MR_OK;
}

static void mark_tokens(struct vocabulary *v)
{
    static const enum special_id end[] = {SPECIAL_EOS, SPECIAL_EOT, SPECIAL_EOM};
    for (int i = 0; i < v->n; i++) {
        size_t n;
        const char *s = string_table_at(&v->spelling, (size_t)i, &n);
        v->is_end[i] = end_token_is_known(s, n);
        v->is_guarded[i] = v->type[i] == TOKEN_CONTROL || v->is_end[i] || (v->type[i] == TOKEN_USER_DEFINED && is_marker(s, n));
    }
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        if (v->special[end[i]] >= 0)
            v->is_end[v->special[end[i]]] = true;
}

enum mr_status vocabulary_init(struct vocabulary *v, const struct gguf *g, enum piece_form form, struct mr_error *err)
{
    const struct gguf_value *tokens;
    *v = (struct vocabulary){0};
    MR_TRY(get_tokens(g, &tokens, err));
    v->n = (int)tokens->n;
    v->type = mem_array(tokens->n, sizeof *v->type);
    v->is_end = mem_zero_array(tokens->n, sizeof *v->is_end);
    v->is_guarded = mem_zero_array(tokens->n, sizeof *v->is_guarded);
    enum mr_status status = MR_OK;
    if (v->type == NULL || v->is_end == NULL || v->is_guarded == NULL)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for %d tokens", v->n);
    if (status == MR_OK)
        status = read_spellings(v, tokens, err);
    if (status == MR_OK)
        status = read_types(v, g, err);
    if (status == MR_OK)
        status = read_scores(v, g, err);
    if (status == MR_OK)
        status = read_special_ids(v, g, err);
    if (status == MR_OK)
        status = decode_pieces(v, form, err);
    if (status == MR_OK)
        mark_tokens(v);
    else
        vocabulary_release(v);
    return status;
}

void vocabulary_release(struct vocabulary *v)
{
    string_index_release(&v->by_spelling);
    string_table_release(&v->spelling);
    string_table_release(&v->piece);
    free(v->type);
    free(v->is_end);
    free(v->is_guarded);
    free(v->score);
    *v = (struct vocabulary){0};
}
