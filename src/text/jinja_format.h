/* jinja_format.h: numbers and strings within a width, as Python's format() and '%' lay them out. */
#ifndef TEXT_JINJA_FORMAT_H
#define TEXT_JINJA_FORMAT_H

#include "text/jinja_builtin.h"

struct layout {
    const struct text *fill; /* one character; NULL: a blank */
    char align;              /* '<' '>' '^' '=', 0: as the type has it */
    char sign;               /* '+' ' ' '-' */
    char group;              /* ',' '_', 0: none */
    char type;               /* 0: none given */
    bool alternate;
    int64_t width, precision; /* precision -1: none given */
};

const struct text *layout_text(struct jinja *j, const struct layout *l, const struct text *t);
const struct text *layout_integer(struct jinja *j, const struct layout *l, int64_t value);
const struct text *layout_real(struct jinja *j, const struct layout *l, double value);

#endif
