/* call_format.h: how models write calls of functions, and where they think aloud: one row for each format.
 * An answer is, in this order: reasoning, free text, calls; each may be absent. Calls are
 *   section_open  call_open BODY call_close  separator  call_open BODY call_close ...  section_close
 * where BODY is an object {"name": NAME, KEY: ARGUMENTS}, or NAME name_close ARGUMENTS. A format that opens neither a section
 * nor a call is bare: an answer that begins with a brace is a call. docs/tool-calls.md lists the formats and where they come
 * from. */
#ifndef TEXT_CALL_FORMAT_H
#define TEXT_CALL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

struct call_format {
    const char *name;
    const char *sign, *also; /* both are in the chat templates of its models; NULL: anything */
    const char *unlike;      /* and this is not; NULL: nothing */
    const char *prefix;      /* of a bare format: may stand in front */
    const char *section_open, *call_open, *call_close, *separator, *section_close;
    const char *key;        /* of the arguments; NULL: the body is no object */
    const char *name_close; /* between name and arguments where it is none */
};

struct reasoning_format {
    const char *open, *close;
};

/* NULL: no such name, or past the end. The last one, "json", is for templates that know no tools. */
const struct call_format *call_format_find(const char *name);
const struct call_format *call_format_at(int i);

/* The format of the models whose chat template this is. */
const struct call_format *call_format_detect(const char *chat_template, size_t n);
/* NULL: it has no reasoning. */
const struct reasoning_format *reasoning_format_detect(const char *chat_template, size_t n);
/* By the opening marker; NULL: no such. */
const struct reasoning_format *reasoning_format_find(const char *open);

static inline bool call_format_is_bare(const struct call_format *f) { return !*f->section_open && !*f->call_open; }

/* What opens the calls of an answer; "": nothing, the format is bare. */
static inline const char *call_format_open(const struct call_format *f)
{
    return *f->section_open ? f->section_open : f->call_open;
}

/* The marker without the blanks around it, *n bytes; NULL counts as "". */
const char *call_marker_trimmed(const char *marker, size_t *n);

/* The piece of a vocabulary stands in a marker of some format: a control token that a model writes to call or to think. */
bool call_format_has_piece(const char *s, size_t n);

#endif
