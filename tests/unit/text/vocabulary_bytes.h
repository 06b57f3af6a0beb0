/* vocabulary_bytes.h: model files in memory that hold nothing but a small vocabulary. */
#ifndef TESTS_VOCABULARY_BYTES_H
#define TESTS_VOCABULARY_BYTES_H

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"
#include "unit/format/gguf_bytes.h"

struct vocabulary_bytes {
    const char *model, *pre; /* NULL: the key is left out */
    struct string_buffer token, type, score, merge, more;
    uint64_t n_token, n_type, n_score, n_merge, n_more;
    struct string_buffer file;
};

static inline void vb_init(struct vocabulary_bytes *b, const char *model, const char *pre)
{
    memset(b, 0, sizeof *b);
    b->model = model;
    b->pre = pre;
}

static inline void vb_token(struct vocabulary_bytes *b, const char *spelling, enum token_type type, float score)
{
    put_text(&b->token, spelling);
    put_u32(&b->type, (uint32_t)type);
    string_buffer_add(&b->score, (const char *)&score, sizeof score);
    b->n_token++;
    b->n_type++;
    b->n_score++;
}

static inline void vb_merge(struct vocabulary_bytes *b, const char *merge)
{
    put_text(&b->merge, merge);
    b->n_merge++;
}

static inline void vb_int(struct vocabulary_bytes *b, const char *key, uint32_t value)
{
    put_key(&b->more, key, GGUF_U32);
    put_u32(&b->more, value);
    b->n_more++;
}

static inline void vb_bool(struct vocabulary_bytes *b, const char *key, bool value)
{
    put_key(&b->more, key, GGUF_BOOL);
    string_buffer_add(&b->more, value ? "\1" : "\0", 1);
    b->n_more++;
}

static inline void vb_put_array(struct vocabulary_bytes *b, const char *key, uint32_t type, uint64_t n,
                                const struct string_buffer *data)
{
    put_array(&b->file, key, type, n);
    if (data->n > 0)
        string_buffer_add(&b->file, data->s, data->n);
}

/* The whole file: b->file.s, b->file.n. */
static inline void vb_finish(struct vocabulary_bytes *b)
{
    put_header(&b->file, 3, 0, 1 + (b->pre != NULL) + (b->n_type > 0) + (b->n_score > 0) + (b->n_merge > 0) + 1 + b->n_more);
    put_key(&b->file, "tokenizer.ggml.model", GGUF_STRING);
    put_text(&b->file, b->model);
    if (b->pre != NULL) {
        put_key(&b->file, "tokenizer.ggml.pre", GGUF_STRING);
        put_text(&b->file, b->pre);
    }
    vb_put_array(b, "tokenizer.ggml.tokens", GGUF_STRING, b->n_token, &b->token);
    if (b->n_type > 0)
        vb_put_array(b, "tokenizer.ggml.token_type", GGUF_I32, b->n_type, &b->type);
    if (b->n_score > 0)
        vb_put_array(b, "tokenizer.ggml.scores", GGUF_F32, b->n_score, &b->score);
    if (b->n_merge > 0)
        vb_put_array(b, "tokenizer.ggml.merges", GGUF_STRING, b->n_merge, &b->merge);
    if (b->more.n > 0)
        string_buffer_add(&b->file, b->more.s, b->more.n);
}

static inline void vb_release(struct vocabulary_bytes *b)
{
    string_buffer_release(&b->token);
    string_buffer_release(&b->type);
    string_buffer_release(&b->score);
    string_buffer_release(&b->merge);
    string_buffer_release(&b->more);
    string_buffer_release(&b->file);
}

/* Finish the file and read it. */
static inline enum mr_status vb_create(struct vocabulary_bytes *b, struct tokenizer **t, struct mr_error *err)
{
    struct gguf *g;
    *t = NULL;
    vb_finish(b);
    enum mr_status status = gguf_open_memory(&g, b->file.s, b->file.n, err);
    if (status != MR_OK)
        return status;
    status = tokenizer_create(t, g, err);
    gguf_close(g);
    return status;
}

/* Byte-level: byte b is token b; then "he" 256, "ll" 257, "hell" 258, " hell" 259, "\xf0\x9f" 260, "<|im_start|>" 261,
 * "<|im_end|>" 262, "<tool>" 263 (user-defined), "<|pad|>" 264 (user-defined, but spelled like a marker). */
static inline void vb_byte_level(struct vocabulary_bytes *b)
{
    static const char *const more[] = {"he", "ll", "hell", "\u0120hell", "\u00f0\u0141"};
    static const char *const merges[] = {"h e", "l l", "he ll", "\u0120 hell", "\u00f0 \u0141"};
    vb_init(b, "gpt2", "gpt-2");
    for (unsigned byte = 0; byte < 256; byte++) {
        char s[UTF8_MAX + 1] = {0};
        utf8_encode(s, byte_level_char(byte));
        vb_token(b, s, TOKEN_NORMAL, 0);
    }
    for (int i = 0; i < 5; i++) {
        vb_token(b, more[i], TOKEN_NORMAL, 0);
        vb_merge(b, merges[i]);
    }
    vb_token(b, "<|im_start|>", TOKEN_CONTROL, 0);
    vb_token(b, "<|im_end|>", TOKEN_CONTROL, 0);
    vb_token(b, "<tool>", TOKEN_USER_DEFINED, 0);
    vb_token(b, "<|pad|>", TOKEN_USER_DEFINED, 0);
    vb_int(b, "tokenizer.ggml.bos_token_id", 261);
}

/* SentencePiece: <unk> 0, <s> 1, </s> 2, byte b is token 3 + b; then pieces from 259 on. */
static inline void vb_sentence_piece(struct vocabulary_bytes *b)
{
    static const struct {
        const char *s;
        float score;
    } pieces[] = {{"\u2581", -10}, {"a", -11}, {"b", -12}, {"ab", -2}, {"\u2581a", -3}, {"\u2581ab", -1}, {"ba", -1.5f}};
    vb_init(b, "llama", NULL);
    vb_token(b, "<unk>", TOKEN_UNKNOWN, 0);
    vb_token(b, "<s>", TOKEN_CONTROL, 0);
    vb_token(b, "</s>", TOKEN_CONTROL, 0);
    for (unsigned byte = 0; byte < 256; byte++) {
        static const char digit[] = "0123456789ABCDEF";
        const char s[] = {'<', '0', 'x', digit[byte / 16], digit[byte % 16], '>', '\0'};
        vb_token(b, s, TOKEN_BYTE, 0);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        vb_token(b, pieces[i].s, TOKEN_NORMAL, pieces[i].score);
    vb_int(b, "tokenizer.ggml.bos_token_id", 1);
    vb_int(b, "tokenizer.ggml.eos_token_id", 2);
    vb_int(b, "tokenizer.ggml.unknown_token_id", 0);
}

#endif
