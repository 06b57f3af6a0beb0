/* call_parser.c: an automaton over bytes. What may still become a marker or the head of a call is held back; once it cannot,
 * its first byte is content and the rest is read again. */
#include "text/call_parser.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    HELD_MAX = 256, /* bytes held back: a name has 64 at most */
    CALLS_MAX = 1 << 20
};

enum parse_state {
    IN_TEXT,
    IN_REASONING,
    IN_HEAD,      /* from a call's first byte to its arguments */
    IN_ARGUMENTS, /* the value, which is an object */
    IN_TAIL,      /* to the brace that closes the call's object */
    BETWEEN       /* behind a call */
};

struct call_parser {
    struct call_parser_options options;
    call_piece_fn *emit;
    void *context;
    enum parse_state state;
    char held[HELD_MAX];
    size_t n_held;
    bool has_content; /* something else than blanks has been content */
    bool skip_blanks; /* behind a marker */
    bool may_reason;  /* nothing has come yet */
    int n_begun, n_complete;
    int depth;
    bool in_string, is_escaped;
    struct string_buffer arguments;
};

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static void put(struct call_parser *p, enum call_piece_kind kind, const char *text, size_t n)
{
    const struct call_piece piece = {kind, p->n_begun - 1, text, n};
    if (n > 0 || kind == CALL_PIECE_END)
        p->emit(p->context, &piece);
}

enum match {
    MATCH_NO,
    MATCH_PART,
    MATCH_WHOLE
};

static enum match match_marker(const char *s, size_t n, const char *marker)
{
    size_t n_marker;
    marker = call_marker_trimmed(marker, &n_marker);
    if (n_marker == 0 || n == 0 || memcmp(s, marker, n < n_marker ? n : n_marker) != 0)
        return MATCH_NO;
    return n < n_marker ? MATCH_PART : n == n_marker ? MATCH_WHOLE : MATCH_NO;
}

/* Skips what is expected there; false: the text ends before, *no: or is something else. */
struct scan {
    const char *s;
    size_t at, n;
    bool no;
};

static bool scan_blanks(struct scan *c)
{
    while (c->at < c->n && is_blank(c->s[c->at]))
        c->at++;
    return c->at < c->n;
}

static bool scan_word(struct scan *c, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++, c->at++) {
        if (c->at == c->n)
            return false;
        if (c->s[c->at] != word[i]) {
            c->no = true;
            return false;
        }
    }
    return true;
}

static bool scan_text(struct scan *c, const char *word) { return scan_blanks(c) && scan_word(c, word, strlen(word)); }

/* "NAME" without escapes. */
static bool scan_name(struct scan *c, size_t *from, size_t *n)
{
    if (!scan_text(c, "\""))
        return false;
    for (*from = c->at; c->at < c->n && c->s[c->at] != '"'; c->at++)
        c->no |= c->s[c->at] == '\\' || (unsigned char)c->s[c->at] < ' ';
    *n = c->at - *from;
    return !c->no && scan_text(c, "\"");
}

static bool is_known(const struct call_parser *p, const char *name, size_t n)
{
    bool found = p->options.n_name == 0;
    for (size_t i = 0; i < p->options.n_name && !found; i++)
        found = strlen(p->options.name[i]) == n && memcmp(p->options.name[i], name, n) == 0;
    return found && n > 0;
}

/* {"name": "NAME", "arguments": in front of the value. */
static enum match match_object_head(const struct call_format *f, struct scan *c, size_t *from, size_t *n)
{
    char key[64];
    const size_t n_key = strlen(f->key);
    key[0] = key[n_key + 1] = '"';
    memcpy(key + 1, f->key, n_key);
    key[n_key + 2] = '\0';
    const bool done = scan_text(c, "{") && scan_text(c, "\"name\"") && scan_text(c, ":") && scan_name(c, from, n) &&
                      scan_text(c, ",") && scan_text(c, key) && scan_text(c, ":") && scan_text(c, "{");
    return done ? MATCH_WHOLE : c->no ? MATCH_NO : MATCH_PART;
}

/* NAME and the marker behind it, then the brace of the arguments. */
static enum match match_named_head(const struct call_format *f, struct scan *c, size_t *from, size_t *n)
{
    size_t n_close;
    const char *close = call_marker_trimmed(f->name_close, &n_close);
    scan_blanks(c);
    *from = c->at;
    const char *found = memmem(c->s + c->at, c->n - c->at, close, n_close);
    if (found == NULL)
        return MATCH_PART;
    for (*n = (size_t)(found - c->s) - c->at; *n > 0 && is_blank(c->s[*from + *n - 1]);)
        --*n;
    c->at = (size_t)(found - c->s) + n_close;
    return scan_text(c, "{") ? MATCH_WHOLE : c->no ? MATCH_NO : MATCH_PART;
}

static void begin_arguments(struct call_parser *p, const char *name, size_t n)
{
    p->n_begun++;
    put(p, CALL_PIECE_NAME, name, n);
    p->n_held = 0;
    p->state = IN_ARGUMENTS;
    p->depth = 1;
    p->in_string = p->is_escaped = false;
    string_buffer_clear(&p->arguments);
    string_buffer_add(&p->arguments, "{", 1);
    put(p, CALL_PIECE_ARGUMENTS, "{", 1);
}

static void feed_byte(struct call_parser *p, char c);

/* What is held is no call: its first byte is content for good, the rest is read again as text. */
static void give_up(struct call_parser *p)
{
    char held[HELD_MAX];
    const size_t n = p->n_held;
    memcpy(held, p->held, n);
    p->n_held = 0;
    p->state = IN_TEXT;
    p->skip_blanks = p->may_reason = false;
    p->has_content = true;
    put(p, CALL_PIECE_CONTENT, held, n > 0);
    for (size_t i = 1; i < n; i++)
        feed_byte(p, held[i]);
}

static void feed_head(struct call_parser *p)
{
    const struct call_format *f = p->options.format;
    struct scan c = {p->held, 0, p->n_held, false};
    size_t from = 0, n = 0;
    const char *open = call_format_is_bare(f) ? f->prefix : call_format_open(f);
    size_t n_open;
    open = call_marker_trimmed(open, &n_open);
    if (n_open > 0 && p->n_held >= n_open && memcmp(p->held, open, n_open) == 0)
        c.at = n_open;
    if (*f->section_open && *f->call_open) {
        size_t n_call;
        const char *call = call_marker_trimmed(f->call_open, &n_call);
        scan_blanks(&c);
        if (!scan_word(&c, call, n_call)) {
            if (c.no || p->n_held == HELD_MAX)
                give_up(p);
            return;
        }
    }
    const enum match m = f->key != NULL ? match_object_head(f, &c, &from, &n) : match_named_head(f, &c, &from, &n);
    if (m == MATCH_WHOLE && is_known(p, p->held + from, n))
        begin_arguments(p, p->held + from, n);
    else if (m != MATCH_PART || p->n_held == HELD_MAX)
        give_up(p);
}

static void begin_head(struct call_parser *p)
{
    p->state = IN_HEAD;
    p->may_reason = p->skip_blanks = false;
    feed_head(p);
}

static void end_call(struct call_parser *p)
{
    json_error_t why;
    p->n_held = 0;
    p->state = BETWEEN;
    json_t *value = p->arguments.failed ? NULL : json_loadb(p->arguments.s, p->arguments.n, JSON_ALLOW_NUL, &why);
    if (value == NULL)
        return;
    json_decref(value);
    p->n_complete++;
    put(p, CALL_PIECE_END, NULL, 0);
}

static void feed_arguments(struct call_parser *p, char c)
{
    string_buffer_add(&p->arguments, &c, 1);
    put(p, CALL_PIECE_ARGUMENTS, &c, 1);
    if (p->in_string) {
        p->in_string = p->is_escaped || c != '"';
        p->is_escaped = !p->is_escaped && c == '\\';
        return;
    }
    p->in_string = c == '"';
    p->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (p->depth > 0)
        return;
    p->n_held = 0;
    p->depth = 1;
    p->state = IN_TAIL;
    if (p->options.format->key == NULL)
        end_call(p);
}

/* Further members of the call's object, up to its brace. */
static void feed_tail(struct call_parser *p, char c)
{
    if (p->in_string) {
        p->in_string = p->is_escaped || c != '"';
        p->is_escaped = !p->is_escaped && c == '\\';
        return;
    }
    p->in_string = c == '"';
    p->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (p->depth == 0)
        end_call(p);
}

/* A marker may follow, or another call. */
static void feed_between(struct call_parser *p)
{
    const struct call_format *f = p->options.format;
    const char *const over[] = {f->call_close, f->separator, f->section_close};
    size_t from = 0;
    bool is_part = false;
    while (from < p->n_held && is_blank(p->held[from]))
        from++;
    const char *s = p->held + from;
    const size_t n = p->n_held - from;
    for (size_t i = 0; i < sizeof over / sizeof *over; i++) {
        const enum match m = match_marker(s, n, over[i]);
        if (m == MATCH_WHOLE) {
            p->n_held = 0;
            return;
        }
        is_part |= m == MATCH_PART;
    }
    const char *open = *f->call_open ? f->call_open : "{";
    const enum match m = p->n_begun < CALLS_MAX ? match_marker(s, n, open) : MATCH_NO;
    if (m == MATCH_WHOLE) {
        memmove(p->held, s, n);
        p->n_held = n;
        if (*f->section_open && *f->call_open) { /* as after the section's marker, which comes once */
            size_t n_open;
            const char *section = call_marker_trimmed(f->section_open, &n_open);
            memmove(p->held + n_open, p->held, n);
            memcpy(p->held, section, n_open);
            p->n_held += n_open;
        }
        begin_head(p);
    } else if ((m == MATCH_NO && !is_part && n > 0) || p->n_held == HELD_MAX) {
        give_up(p);
    }
}

/* Content for good: the first byte that is held. */
static void shift(struct call_parser *p)
{
    p->has_content |= !is_blank(p->held[0]);
    p->may_reason &= !p->has_content;
    put(p, CALL_PIECE_CONTENT, p->held, 1);
    memmove(p->held, p->held + 1, --p->n_held);
}

/* Whether what is held from `from` on may become a marker; acts where it is one. */
static enum match look(struct call_parser *p, size_t from)
{
    const struct call_format *f = p->options.format;
    const char *s = p->held + from;
    const size_t n = p->n_held - from;
    enum match m = MATCH_NO;
    if (p->may_reason && p->options.reasoning != NULL)
        m = match_marker(s, n, p->options.reasoning->open);
    if (m == MATCH_WHOLE) {
        p->n_held = 0;
        p->may_reason = false;
        p->skip_blanks = true;
        p->state = IN_REASONING;
        return m;
    }
    if (f == NULL)
        return m;
    const bool is_bare = call_format_is_bare(f);
    const enum match open =
        is_bare && p->has_content ? MATCH_NO : match_marker(s, n, is_bare ? f->prefix : call_format_open(f));
    const enum match brace = is_bare && !p->has_content ? match_marker(s, n, "{") : MATCH_NO;
    if (open == MATCH_WHOLE || brace == MATCH_WHOLE) {
        memmove(p->held, s, n);
        p->n_held = n;
        begin_head(p);
        return MATCH_WHOLE;
    }
    return open == MATCH_PART ? open : m;
}

static void feed_text(struct call_parser *p)
{
    while (p->n_held > 0 && p->state == IN_TEXT) {
        size_t from = 0;
        while (!p->has_content && from < p->n_held && is_blank(p->held[from]))
            from++; /* blanks in front of everything may stand before a marker */
        if (p->skip_blanks && from > 0) {
            memmove(p->held, p->held + from, p->n_held -= from);
            continue;
        }
        if (from < p->n_held && look(p, from) == MATCH_WHOLE)
            return;
        if (p->n_held < HELD_MAX && (from == p->n_held || look(p, from) == MATCH_PART))
            return;
        shift(p);
    }
}

static void feed_reasoning(struct call_parser *p)
{
    while (p->n_held > 0) {
        const enum match m = match_marker(p->held, p->n_held, p->options.reasoning->close);
        if (m == MATCH_PART)
            return;
        if (m == MATCH_WHOLE) {
            p->n_held = 0;
            p->state = IN_TEXT;
            p->skip_blanks = true;
            return;
        }
        if (!p->skip_blanks || !is_blank(p->held[0])) {
            p->skip_blanks = false;
            put(p, CALL_PIECE_REASONING, p->held, 1);
        }
        memmove(p->held, p->held + 1, --p->n_held);
    }
}

static void feed_byte(struct call_parser *p, char c)
{
    if (p->state == IN_ARGUMENTS) {
        feed_arguments(p, c);
        return;
    }
    if (p->state == IN_TAIL) {
        feed_tail(p, c);
        return;
    }
    p->held[p->n_held++] = c;
    if (p->state == IN_TEXT)
        feed_text(p);
    else if (p->state == IN_REASONING)
        feed_reasoning(p);
    else if (p->state == IN_HEAD)
        feed_head(p);
    else
        feed_between(p);
}

enum mr_status call_parser_create(struct call_parser **out, const struct call_parser_options *options, call_piece_fn *emit,
                                  void *context, struct mr_error *err)
{
    struct call_parser *p = *out = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a parser of calls");
    p->options = *options;
    p->emit = emit;
    p->context = context;
    p->state = options->reasoning != NULL && options->has_begun ? IN_REASONING : IN_TEXT;
    p->may_reason = true;
    p->skip_blanks = p->state == IN_REASONING;
    string_buffer_init(&p->arguments);
    return MR_OK;
}

void call_parser_free(struct call_parser *p)
{
    if (p == NULL)
        return;
    string_buffer_release(&p->arguments);
    free(p);
}

static enum mr_status status_of(const struct call_parser *p, struct mr_error *err)
{
    return p->arguments.failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the arguments of a call") : MR_OK;
}

enum mr_status call_parser_feed(struct call_parser *p, const char *text, size_t n, struct mr_error *err)
{
    for (size_t i = 0; i < n; i++)
        feed_byte(p, text[i]);
    return status_of(p, err);
}

/* Text that is held because a marker might have followed. */
static void end_text(struct call_parser *p)
{
    if (p->state == IN_REASONING)
        put(p, CALL_PIECE_REASONING, p->held, p->n_held);
    else if (p->state == IN_TEXT && (p->has_content || !p->options.must_call))
        put(p, CALL_PIECE_CONTENT, p->held, p->n_held);
    p->n_held = 0;
}

enum mr_status call_parser_end(struct call_parser *p, int *n_complete, int *n_open, struct mr_error *err)
{
    const bool in_head = p->state == IN_HEAD;
    end_text(p);
    if (n_complete != NULL)
        *n_complete = p->n_complete;
    if (n_open != NULL)
        *n_open = p->n_begun - p->n_complete + in_head;
    return status_of(p, err);
}
