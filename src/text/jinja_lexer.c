/* jinja_lexer.c: the tokens of a template.
 * Block and comment tags swallow the line break behind them (trim_blocks) and the blanks before them on their line
 * (lstrip_blocks); '-' beside a tag's edge swallows all blanks there, '+' nothing. */
#include "text/jinja_lexer.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja_syntax.h"
#include "text/jinja_unicode.h"

enum {
    MAX_BRACKETS = JINJA_MAX_NESTING
};

struct lexer {
    struct jinja *j;
    const char *s; /* with line breaks as '\n', the last one dropped */
    size_t n, at;
    int line;
    bool line_start;            /* what was read last ended a line */
    char bracket[MAX_BRACKETS]; /* open brackets of the tag, as what closes them */
    int n_bracket;
    struct token *token;
    size_t n_token, capacity;
};

static struct token *add_token(struct lexer *l, enum token_kind kind)
{
    if (l->n_token == l->capacity) {
        const size_t capacity = 2 * l->capacity + 64;
        struct token *token = jinja_alloc_array(l->j, capacity, sizeof *token);
        if (l->n_token > 0)
            memcpy(token, l->token, l->n_token * sizeof *token);
        l->token = token;
        l->capacity = capacity;
    }
    struct token *t = &l->token[l->n_token++];
    *t = (struct token){.kind = kind, .line = l->line};
    return t;
}

static void add_data(struct lexer *l, size_t from, size_t to)
{
    if (from < to)
        add_token(l, TOKEN_DATA)->value = value_text(text_make(l->j, l->s + from, to - from, FROM_TEMPLATE));
}

/* Go to byte `to`, counting lines. */
static void advance(struct lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->s[l->at] == '\n';
    l->j->line = l->line;
    l->line_start = to > 0 && l->s[to - 1] == '\n';
}

static bool looks_at(const struct lexer *l, size_t at, const char *what)
{
    const size_t n = strlen(what);
    return n <= l->n - at && memcmp(l->s + at, what, n) == 0;
}

/* The length of the blank at byte `at`, 0: no blank. */
static size_t blank(const struct lexer *l, size_t at)
{
    uint32_t code;
    const int n = at < l->n ? utf8_decode(&code, l->s + at, l->n - at) : 0;
    return n > 0 && unicode_is_space(code) ? (size_t)n : 0;
}

static size_t skip_blanks(const struct lexer *l, size_t at)
{
    for (size_t n; (n = blank(l, at)) > 0;)
        at += n;
    return at;
}

/* The end of text [from, to) before a tag that opens with `sign`. */
static size_t trim_before(const struct lexer *l, size_t from, size_t to, char sign, bool is_print)
{
    size_t start, end;
    const struct text t = {.s = l->s + from, .n = to - from};
    if (sign == '-') {
        text_strip(l->j, &t, NULL, false, true, &start, &end);
        return from + end;
    }
    if (sign == '+' || is_print)
        return to;
    const char *line = memrchr(t.s, '\n', t.n);
    if (line == NULL && !l->line_start)
        return to;
    const size_t line_at = line == NULL ? from : (size_t)(line + 1 - l->s);
    return skip_blanks(l, line_at) >= to ? line_at : to;
}

/* Whether a tag ends at byte `at` with the two bytes of `close`, and where the text goes on. */
static bool tag_end(const struct lexer *l, size_t at, const char *close, size_t *next)
{
    const bool is_print = close[0] == '}';
    if (looks_at(l, at, close)) {
        *next = at + 2 + (!is_print && looks_at(l, at + 2, "\n"));
        return true;
    }
    if (at >= l->n || (l->s[at] != '-' && l->s[at] != '+') || !looks_at(l, at + 1, close) || (l->s[at] == '+' && is_print))
        return false;
    *next = l->s[at] == '-' ? skip_blanks(l, at + 3) : at + 3;
    return true;
}

static char sign_at(const struct lexer *l, size_t at)
{
    return at < l->n && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : 0;
}

static void lex_comment(struct lexer *l)
{
    size_t at = l->at + 2, next = at;
    while (at < l->n && !tag_end(l, at, "#}", &next))
        at++;
    if (at >= l->n && l->at + 2 < l->n) /* jinja2 lets the very end of the template pass */
        jinja_fail(l->j, "a comment has no end");
    advance(l, next);
}

/* After '{%', where the word `word` stands alone in the tag: the byte behind the tag's end; 0: another tag. */
static size_t lone_word(const struct lexer *l, size_t at, const char *word, bool trim)
{
    size_t next = 0;
    at = skip_blanks(l, at + 2 + (sign_at(l, at + 2) != 0));
    if (!looks_at(l, at, word))
        return 0;
    at = skip_blanks(l, at + strlen(word));
    if (!trim && looks_at(l, at, "%}"))
        return at + 2;
    if (!trim && !looks_at(l, at, "-"))
        return 0;
    return tag_end(l, at, "%}", &next) ? next : 0;
}

/* {% raw %} ... {% endraw %}; begin: the byte behind the first tag. */
static void lex_raw(struct lexer *l, size_t begin)
{
    advance(l, begin);
    for (size_t at = begin; at < l->n; at++) {
        const size_t next = looks_at(l, at, "{%") ? lone_word(l, at, "endraw", true) : 0;
        if (next == 0)
            continue;
        add_data(l, begin, trim_before(l, begin, at, sign_at(l, at + 2), false));
        advance(l, next);
        return;
    }
    if (begin < l->n)
        jinja_fail(l->j, "a raw block has no end");
}

static uint32_t hex_digits(struct lexer *l, size_t at, int n)
{
    uint32_t code = 0;
    for (int i = 0; i < n; i++) {
        const char c = at + (size_t)i < l->n ? l->s[at + (size_t)i] : 0;
        if (c == 0 || strchr("0123456789abcdefABCDEF", c) == NULL)
            jinja_fail(l->j, "a string has an incomplete \\x, \\u or \\U");
        code = code * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return code;
}

/* One escape behind the backslash at l->s[at]; returns the byte behind it. */
static size_t unescape(struct lexer *l, struct text_buffer *b, size_t at)
{
    static const char letters[] = "abfnrtv\\'\"", codes[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = l->s[at + 1];
    const char *letter = c != 0 ? strchr(letters, c) : NULL;
    if (letter != NULL) {
        text_add(l->j, b, &codes[letter - letters], 1, FROM_TEMPLATE);
        return at + 2;
    }
    if (c == '\n')
        return at + 2;
    if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t end = at + 1;
        while (end < at + 4 && l->s[end] >= '0' && l->s[end] <= '7')
            code = code * 8 + (uint32_t)(l->s[end++] - '0');
        text_add_code(l->j, b, code, FROM_TEMPLATE);
        return end;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        const int n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const uint32_t code = hex_digits(l, at + 2, n);
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            jinja_fail(l->j, "a string has an escape that is no character");
        text_add_code(l->j, b, code, FROM_TEMPLATE);
        return at + 2 + (size_t)n;
    }
    if (c == 'N')
        jinja_fail(l->j, "characters by name (\\N) are not supported");
    text_add(l->j, b, "\\", 1, FROM_TEMPLATE);
    return at + 1;
}

static void lex_string(struct lexer *l)
{
    const char quote = l->s[l->at];
    size_t at = l->at + 1;
    struct token *t = add_token(l, TOKEN_STRING);
    struct text_buffer *b = text_begin(l->j);
    size_t done = at;
    while (at < l->n && l->s[at] != quote) {
        if (l->s[at] != '\\') {
            at++;
            continue;
        }
        text_add(l->j, b, l->s + done, at - done, FROM_TEMPLATE);
        at = done = at + 1 < l->n ? unescape(l, b, at) : l->n;
    }
    if (at >= l->n)
        jinja_fail(l->j, "a string has no end");
    text_add(l->j, b, l->s + done, at - done, FROM_TEMPLATE);
    t->value = value_text(text_end(l->j, b));
    advance(l, at + 1);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits with single underscores between them; returns the byte behind them. */
static size_t digits(const struct lexer *l, size_t at, int base)
{
    const char *all = "0123456789abcdef";
    for (; at < l->n; at++) {
        const size_t digit = l->s[at] == '_' && at + 1 < l->n ? at + 1 : at;
        const char c = (char)(l->s[digit] >= 'A' && l->s[digit] <= 'F' ? l->s[digit] | 32 : l->s[digit]);
        if (c == 0 || memchr(all, c, (size_t)base) == NULL)
            break;
        at = digit;
    }
    return at;
}

/* The byte behind a float at l->at, 0: there is none. */
static size_t float_end(const struct lexer *l)
{
    if (l->at > 0 && l->s[l->at - 1] == '.')
        return 0;
    size_t at = digits(l, l->at, 10);
    bool is_float = false;
    if (at + 1 < l->n && l->s[at] == '.' && is_digit(l->s[at + 1])) {
        at = digits(l, at + 1, 10);
        is_float = true;
    }
    if (at < l->n && (l->s[at] | 32) == 'e') {
        const size_t exponent = at + 1 + (at + 1 < l->n && (l->s[at + 1] == '+' || l->s[at + 1] == '-'));
        if (exponent < l->n && is_digit(l->s[exponent])) {
            at = digits(l, exponent, 10);
            is_float = true;
        }
    }
    return is_float ? at : 0;
}

static struct value parse_integer(struct lexer *l, const char *digit, int base)
{
    int64_t value = 0;
    for (; *digit != '\0'; digit++) {
        const int d = *digit <= '9' ? *digit - '0' : (*digit | 32) - 'a' + 10;
        if (value > (INT64_MAX - d) / base)
            jinja_fail(l->j, "an integer does not fit in 64 bits");
        value = value * base + d;
    }
    return value_int(value);
}

static void lex_number(struct lexer *l)
{
    const size_t real_end = float_end(l);
    int base = 10;
    size_t start = l->at, end = real_end;
    if (end == 0) {
        const char letter = l->s[start] == '0' && start + 1 < l->n ? (char)(l->s[start + 1] | 32) : 0;
        const int prefixed = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
        if (prefixed != 0 && digits(l, start + 2, prefixed) > start + 2) {
            base = prefixed;
            start += 2;
        }
        end = digits(l, start, base);
        if (base == 10 && l->s[start] == '0') { /* zeros only */
            end = start + 1;
            while (end < l->n && (l->s[end] == '0' || (l->s[end] == '_' && end + 1 < l->n && l->s[end + 1] == '0')))
                end++;
        }
    }
    char *plain = jinja_alloc(l->j, end - start + 1);
    size_t n = 0;
    for (size_t i = start; i < end; i++) {
        if (l->s[i] != '_')
            plain[n++] = l->s[i];
    }
    plain[n] = '\0';
    add_token(l, TOKEN_NUMBER)->value = real_end > 0 ? value_float(strtod(plain, NULL)) : parse_integer(l, plain, base);
    advance(l, end);
}

static bool lex_name(struct lexer *l)
{
    size_t at = l->at;
    while (at < l->n) {
        uint32_t code;
        const int n = utf8_decode(&code, l->s + at, l->n - at);
        if (!unicode_is_word(code))
            break;
        at += (size_t)n;
    }
    if (at == l->at)
        return false;
    add_token(l, TOKEN_NAME)->value = value_text(text_make(l->j, l->s + l->at, at - l->at, FROM_TEMPLATE));
    advance(l, at);
    return true;
}

static void check_bracket(struct lexer *l, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *opens = strchr(open, c), *closes = strchr(close, c);
    if (opens != NULL) {
        if (l->n_bracket == MAX_BRACKETS)
            jinja_fail(l->j, "nested too deeply");
        l->bracket[l->n_bracket++] = close[opens - open];
    } else if (closes != NULL) {
        if (l->n_bracket == 0)
            jinja_fail(l->j, "unexpected '%c'", c);
        const char want = l->bracket[--l->n_bracket];
        if (want != c)
            jinja_fail(l->j, "unexpected '%c', expected '%c'", c, want);
    }
}

static void lex_operator(struct lexer *l)
{
    static const char pairs[][3] = {"==", "!=", ">=", "<=", "//", "**"};
    const char c = l->s[l->at];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (looks_at(l, l->at, pairs[i])) {
            add_token(l, TOKEN_OPERATOR)->op = OPERATOR(pairs[i][0], pairs[i][1]);
            advance(l, l->at + 2);
            return;
        }
    }
    if (c == '\0' || strchr("+-/*%~[](){}><=.:|,;", c) == NULL)
        jinja_fail(l->j, "unexpected character '%.*s'", utf8_decode(&(uint32_t){0}, l->s + l->at, l->n - l->at), l->s + l->at);
    check_bracket(l, c);
    add_token(l, TOKEN_OPERATOR)->op = c;
    advance(l, l->at + 1);
}

/* The inside of a tag up to and with its end. */
static void lex_tag(struct lexer *l, const char *close, enum token_kind end)
{
    l->n_bracket = 0;
    while (l->at < l->n) {
        size_t next = skip_blanks(l, l->at);
        advance(l, next);
        if (l->at == l->n)
            break;
        if (l->n_bracket == 0 && tag_end(l, l->at, close, &next)) {
            add_token(l, end);
            advance(l, next);
            return;
        }
        const char c = l->s[l->at];
        if (is_digit(c))
            lex_number(l);
        else if (c == '\'' || c == '"')
            lex_string(l);
        else if (!lex_name(l))
            lex_operator(l);
    }
}

/* Line breaks become '\n', the last one goes. */
static void normalise(struct lexer *l, const char *source, size_t n)
{
    char *s = jinja_alloc(l->j, n + 1);
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n')
            i++;
        s[out++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (out > 0 && s[out - 1] == '\n')
        out--;
    s[out] = '\0';
    l->s = s;
    l->n = out;
}

struct token *jinja_lex(struct jinja *j, const char *source, size_t n)
{
    struct lexer l = {.j = j, .line = 1, .line_start = true};
    if (n > JINJA_MAX_SOURCE)
        jinja_fail(j, "the template is longer than %d bytes", JINJA_MAX_SOURCE);
    if (!utf8_is_valid(source, n))
        jinja_fail(j, "the template is not valid UTF-8");
    normalise(&l, source, n);
    j->line = 1;
    while (l.at < l.n) {
        const size_t from = l.at;
        size_t at = from;
        while (at < l.n && !(l.s[at] == '{' && at + 1 < l.n && strchr("{%#", l.s[at + 1]) != NULL && l.s[at + 1] != '\0'))
            at++;
        const char kind = at < l.n ? l.s[at + 1] : 0;
        const size_t to = kind == 0 ? at : trim_before(&l, from, at, sign_at(&l, at + 2), kind == '{');
        add_data(&l, from, to);
        advance(&l, at);
        if (kind == 0)
            break;
        const size_t raw = kind == '%' ? lone_word(&l, at, "raw", false) : 0;
        if (raw != 0) {
            lex_raw(&l, raw);
        } else if (kind == '#') {
            lex_comment(&l);
        } else {
            add_token(&l, kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN);
            advance(&l, at + 2 + (sign_at(&l, at + 2) != 0));
            lex_tag(&l, kind == '{' ? "}}" : "%}", kind == '{' ? TOKEN_PRINT_END : TOKEN_BLOCK_END);
        }
    }
    add_token(&l, TOKEN_END);
    return l.token;
}
