/* detokenizer.c: a stream of token ids to a stream of UTF-8. */
#include "text/detokenizer.h"

#include "base/utf8.h"

static const char replacement[] = "\xef\xbf\xbd";

void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, bool special)
{
    *d = (struct detokenizer){.t = t, .special = special, .at_start = tokenizer_adds_space(t)};
}

/* One byte after held ones. Returns false where it does not belong to them: they were replaced, the byte is still to do. */
static bool complete_held(struct detokenizer *d, char byte, struct string_buffer *out)
{
    char s[UTF8_MAX];
    uint32_t code;
    for (int i = 0; i < d->n_held; i++)
        s[i] = d->held[i];
    const size_t n = (size_t)d->n_held + 1;
    s[n - 1] = byte;
    if (utf8_decode(&code, s, n) > 0) {
        string_buffer_add(out, s, n);
        d->n_held = 0;
        return true;
    }
    if (utf8_is_prefix(s, n)) {
        d->held[d->n_held++] = byte;
        return true;
    }
    string_buffer_puts(out, replacement);
    d->n_held = 0;
    return false;
}

static void hold(struct detokenizer *d, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d->held[i] = s[i];
    d->n_held = (int)n;
}

static void push_bytes(struct detokenizer *d, const char *s, size_t n, struct string_buffer *out)
{
    size_t at = 0;
    while (d->n_held > 0 && at < n)
        at += complete_held(d, s[at], out);
    size_t good = at; /* from here all is well-formed and not yet written */
    while (at < n) {
        uint32_t code;
        const int len = utf8_decode(&code, s + at, n - at);
        if (len > 0) {
            at += (size_t)len;
            continue;
        }
        string_buffer_add(out, s + good, at - good);
        if (utf8_is_prefix(s + at, n - at)) {
            hold(d, s + at, n - at);
            return;
        }
        string_buffer_puts(out, replacement);
        good = at += (size_t)-len;
    }
    string_buffer_add(out, s + good, at - good);
}

void detokenizer_push(struct detokenizer *d, int32_t id, struct string_buffer *out)
{
    const struct gguf_string piece = tokenizer_piece(d->t, id, d->special);
    const size_t skip = d->at_start && piece.n > 0 && piece.s[0] == ' ';
    if (piece.n > 0)
        d->at_start = false;
    push_bytes(d, piece.s + skip, piece.n - skip, out);
}

void detokenizer_finish(struct detokenizer *d, struct string_buffer *out)
{
    if (d->n_held > 0)
        string_buffer_puts(out, replacement);
    d->n_held = 0;
}
