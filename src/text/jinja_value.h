/* jinja_value.h: the values of a template: Python's, as far as chat templates use them. Integers have 64 bits; what does
 * not fit is an error. All that a value points to lies in the render's arena and, lists and dicts under construction
 * aside, never changes. */
#ifndef TEXT_JINJA_VALUE_H
#define TEXT_JINJA_VALUE_H

#include <jansson.h>

#include "text/jinja_text.h"

enum value_type {
    VALUE_MISSING, /* no value: an argument that was not given, a variable that was not set */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_VIEW,     /* what dict.items(), keys() and values() return: list, as of now */
    VALUE_ITERATOR, /* what many filters return: read once, no length, always true */
    VALUE_RANGE,
    VALUE_NAMESPACE, /* dict */
    VALUE_SLICE,     /* only as an index: a tuple of three */
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION,
    VALUE_CYCLER,
    VALUE_JOINER
};

/* Why a value is undefined. */
enum undefined_reason {
    UNDEFINED_NAME,      /* no variable of that name */
    UNDEFINED_ATTRIBUTE, /* an object has no such attribute or key */
    UNDEFINED_UNSAFE,    /* an attribute that templates may not touch */
    UNDEFINED_ELEMENT,   /* an element that is not there */
    UNDEFINED_ARGUMENT   /* a macro's parameter without an argument */
};

enum {
    VALUE_GROUP = 'g' /* a pair that groupby made: its members have the names grouper and list, too */
};

struct value {
    unsigned char type;  /* enum value_type */
    unsigned char extra; /* VALUE_UNDEFINED: the reason; VALUE_VIEW: 'k', 'v' or 'i'; VALUE_TUPLE: VALUE_GROUP or 0 */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const struct text *text; /* VALUE_UNDEFINED: the name */
        struct list *list;
        struct dict *dict;
        struct range *range;
        struct loop *loop;
        const struct macro *macro;
        const struct function *function;
        struct cycler *cycler;
    };
};

struct list {
    struct value *item;
    size_t n, capacity;
    size_t next; /* VALUE_ITERATOR: the first item not yet read */
};

struct pair {
    struct value key, value;
};

/* Insertion order; an index once it is large. */
struct dict {
    struct pair *pair;
    size_t n, capacity;
    uint32_t *slot; /* NULL, or n_slot (a power of two) entries: 1 + index of a pair, 0: empty */
    size_t n_slot;
};

struct range {
    int64_t start, stop, step;
    size_t n;
};

struct cycler { /* VALUE_JOINER: item[0] is the separator, at: whether it was called */
    struct list *items;
    size_t at;
};

/* A function of ours, or a method bound to self. */
struct function {
    const struct builtin *builtin;
    struct value self;
};

#define NO_VALUE ((struct value){.type = VALUE_MISSING})

static inline struct value value_none(void) { return (struct value){.type = VALUE_NONE}; }
static inline struct value value_bool(bool b) { return (struct value){.type = VALUE_BOOL, .boolean = b}; }
static inline struct value value_int(int64_t i) { return (struct value){.type = VALUE_INT, .integer = i}; }
static inline struct value value_float(double d) { return (struct value){.type = VALUE_FLOAT, .real = d}; }
static inline struct value value_text(const struct text *t) { return (struct value){.type = VALUE_TEXT, .text = t}; }
static inline struct value value_list(enum value_type type, struct list *l)
{
    return (struct value){.type = (unsigned char)type, .list = l};
}
static inline struct value value_dict(struct dict *d) { return (struct value){.type = VALUE_DICT, .dict = d}; }
static inline struct value value_undefined(enum undefined_reason reason, const struct text *name)
{
    return (struct value){.type = VALUE_UNDEFINED, .extra = (unsigned char)reason, .text = name};
}
static inline struct value value_literal(struct jinja *j, const char *s) { return value_text(text_literal(j, s)); }

struct list *list_make(struct jinja *j, size_t capacity);
void list_add(struct jinja *j, struct list *l, struct value v);

/* Sort in place, stable; order gives below, equal or above 0. */
typedef int value_order_fn(struct jinja *j, const void *context, struct value a, struct value b);
void list_sort(struct jinja *j, struct list *l, value_order_fn *order, const void *context, bool reverse);
struct value value_pair(struct jinja *j, struct value a, struct value b); /* a tuple of two */

struct dict *dict_make(struct jinja *j);
/* Add the pair, or replace the value of an equal key. An unhashable key is an error. */
void dict_set(struct jinja *j, struct dict *d, struct value key, struct value v);
/* NULL: not there. */
const struct value *dict_get(struct jinja *j, const struct dict *d, struct value key);
const struct value *dict_get_text(struct jinja *j, const struct dict *d, const struct text *key);
bool value_is_hashable(struct value v);

/* The elements over which `for` goes: keys of a dict, characters of a string. value_items fails for what is no
 * sequence; value_try_items returns NULL. The list is borrowed: not to be changed. Reads an iterator to its end. */
struct list *value_items(struct jinja *j, struct value v);
struct list *value_try_items(struct jinja *j, struct value v);
/* len(): -1 where the value has no length. */
int64_t value_length(struct jinja *j, struct value v);

bool value_is_true(struct value v);
bool value_is_number(struct value v);   /* bool, int, float */
bool value_is_integral(struct value v); /* bool, int: their value is value_integer(v) */
int64_t value_integer(struct value v);
double value_real(struct value v); /* of a number */
const char *value_type_name(struct value v);
_Noreturn void value_fail_undefined(struct jinja *j, struct value v);

bool value_equal(struct jinja *j, struct value a, struct value b);
/* Below, equal or above 0; fails where Python has no order between the two. */
int value_compare(struct jinja *j, struct value a, struct value b);
bool value_contains(struct jinja *j, struct value container, struct value v);

/* str() and repr(), as Python prints. */
const struct text *value_str(struct jinja *j, struct value v);
const struct text *value_repr(struct jinja *j, struct value v);
const char *real_repr(char s[32], double d);

/* A value of the caller's or the template's JSON; borrows its strings. */
struct value value_from_json(struct jinja *j, const json_t *json, enum origin from);

/* json.dumps. indent: of one level, NULL: one line. The text is the caller's as soon as one string in it is. */
struct json_style {
    const struct text *indent, *item_separator, *key_separator;
    bool ascii, sort_keys;
};
const struct text *value_to_json(struct jinja *j, struct value v, const struct json_style *style);

#endif
