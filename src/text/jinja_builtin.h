/* jinja_builtin.h: functions that templates call: filters, tests, global functions, methods of values; and macros. */
#ifndef TEXT_JINJA_BUILTIN_H
#define TEXT_JINJA_BUILTIN_H

#include "text/jinja_value.h"

struct keyword {
    const struct text *name;
    struct value value;
};

struct arguments {
    struct value *positional;
    size_t n;
    struct keyword *keyword;
    size_t n_keyword;
};

enum {
    MAX_PARAMETERS = 6
};

struct call {
    struct value self;                 /* what is filtered, tested, or the method's object */
    struct value arg[MAX_PARAMETERS];  /* by the parameters' order; VALUE_MISSING: not given */
    const struct arguments *arguments; /* as they were written */
};

/* params: names with a blank between them, '?' behind one that may be left out; "_": it has no name; NULL: the function
 * reads call->arguments itself. */
struct builtin {
    const char *name;
    struct value (*run)(struct jinja *j, const struct call *c);
    const char *params;
};

struct value builtin_call(struct jinja *j, const struct builtin *b, struct value self, const struct arguments *arguments);

/* Call a value of any type; what cannot be called fails. */
struct value jinja_call(struct jinja *j, struct value callee, const struct arguments *arguments);
struct value macro_call(struct jinja *j, const struct macro *m, const struct arguments *arguments);
const struct text *macro_name(struct jinja *j, const struct macro *m);
struct value macro_attribute(struct jinja *j, const struct macro *m, const struct text *name);
struct value loop_call(struct jinja *j, struct loop *l, const struct arguments *arguments);
struct value loop_attribute(struct jinja *j, struct loop *l, const struct text *name);
const struct text *loop_repr(struct jinja *j, const struct loop *l);

/* NULL: none of that name. */
const struct builtin *builtin_filter(const struct text *name);
const struct builtin *builtin_test(const struct text *name);
const struct builtin *builtin_global(const struct text *name);
const struct builtin *builtin_method(struct value self, const struct text *name);         /* jinja_method.c */
const struct builtin *builtin_find(const struct builtin *table, const struct text *name); /* ends with a NULL name */

/* value.name and value[index], as the sandbox of jinja2 sees them; never fails but on undefined values. */
struct value jinja_attribute(struct jinja *j, struct value v, const struct text *name);
struct value jinja_element(struct jinja *j, struct value v, struct value index);

/* The operators. op: enum operation. */
struct value jinja_binary(struct jinja *j, int op, struct value a, struct value b);
bool jinja_compare(struct jinja *j, int op, struct value a, struct value b);
struct value jinja_negate(struct jinja *j, struct value v);
const struct text *jinja_percent_format(struct jinja *j, const struct text *format, struct value args);
const struct text *jinja_str_format(struct jinja *j, const struct text *format, const struct arguments *args);

/* Escape & < > ' and " of HTML. */
const struct text *text_escape(struct jinja *j, const struct text *t);
/* a + b, where markup escapes what is none. */
const struct text *text_add_markup(struct jinja *j, const struct text *a, const struct text *b);

/* Arguments of builtins; `what` names the parameter in messages. */
int64_t call_int(struct jinja *j, struct value v, const char *what, int64_t otherwise);
const struct text *call_text(struct jinja *j, struct value v, const char *what);
/* As call_text, where a missing value or None gives NULL. */
const struct text *call_text_or_none(struct jinja *j, struct value v, const char *what);

#endif
