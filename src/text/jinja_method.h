/* jinja_method.h: methods that filters share. */
#ifndef TEXT_JINJA_METHOD_H
#define TEXT_JINJA_METHOD_H

#include "text/jinja_builtin.h"

extern const struct builtin text_methods[]; /* jinja_method_text.c */
extern const struct builtin text_tests[];   /* isalpha and its kin, jinja_method_is.c */

/* dict.keys() 'k', values() 'v', items() 'i'. */
struct value dict_view(struct jinja *j, const struct dict *d, char kind);

/* At most `limit` replacements from the left; below 0: all. */
const struct text *text_replace(struct jinja *j, const struct text *t, const struct text *old, const struct text *with,
                                int64_t limit);
/* Lines without their ends (keep: with them), as str.splitlines. */
struct list *text_lines(struct jinja *j, const struct text *t, bool keep);
/* Within width characters, fill on the left, on the right or on both sides ('<', '>', '^'). */
const struct text *text_pad(struct jinja *j, const struct text *t, int64_t width, const struct text *fill, char align);
/* The strings of the items, with separators between. */
const struct text *text_join(struct jinja *j, const struct text *separator, const struct list *items);

#endif
