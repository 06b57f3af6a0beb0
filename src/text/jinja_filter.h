/* jinja_filter.h: the filters, by what they work on; each table ends with a NULL name. */
#ifndef TEXT_JINJA_FILTER_H
#define TEXT_JINJA_FILTER_H

#include "text/jinja_builtin.h"

extern const struct builtin text_filters[];     /* jinja_filter_text.c */
extern const struct builtin number_filters[];   /* jinja_filter_number.c */
extern const struct builtin sequence_filters[]; /* jinja_filter_sequence.c */
extern const struct builtin select_filters[];   /* jinja_filter_select.c */
extern const struct builtin value_filters[];    /* jinja_filter_value.c */

/* What a filter's attribute argument asks of an item: a name, a number, several with dots between; missing or None: the
 * item itself. What is undefined becomes `otherwise`, if there is one. */
struct value filter_attribute(struct jinja *j, struct value item, struct value attribute, struct value otherwise);
/* The value to compare by: a string lowered where case does not count. */
struct value filter_key(struct jinja *j, struct value v, bool case_sensitive);
struct value filter_iterator(struct list *l);

#endif
