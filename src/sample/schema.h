/* schema.h: what the files that compile JSON Schemas (draft 2020-12) share.
 * A rule of the grammar stands for a set of schemas that a value must obey all at once: what allOf, $ref with siblings,
 * properties beside patternProperties, and anyOf beside other keywords come down to. Rules are made from a work list, so that
 * neither nesting nor recursion of schemas is recursion here. */
#ifndef SAMPLE_SCHEMA_H
#define SAMPLE_SCHEMA_H

#include <jansson.h>

#include "sample/constraint_compile.h"

enum {
    SCHEMA_SET_MAX = 256,      /* schemas that one value must obey at once */
    SCHEMA_RULE_MAX = 1 << 15, /* different sets */
    SCHEMA_ANY_OF_MAX = 2048,
    SCHEMA_ONE_OF_MAX = 128,     /* each pair is compared */
    SCHEMA_PATTERN_MAX = 4,      /* patternProperties of one object */
    SCHEMA_LENGTH_MAX = 20000,   /* minLength, maxLength beside pattern or format */
    SCHEMA_MULTIPLE_MAX = 10000, /* multipleOf */
    SCHEMA_INTEGER_DIGITS = 18,  /* so that integers fit in 64 bits */
    SCHEMA_FRACTION_DIGITS = 20,
    SCHEMA_INDENT_MAX = 20 /* blanks after a line end */
};

/* Which part of a schema object an element of a set stands for. */
enum schema_part {
    SCHEMA_ALL,    /* everything */
    SCHEMA_OWN,    /* all but $ref, allOf, anyOf, oneOf */
    SCHEMA_ANY_OF, /* anyOf alone */
    SCHEMA_ONE_OF
};

struct schema_element {
    json_t *schema; /* an object; `false` for what nothing obeys */
    enum schema_part part;
};

struct schema_set {
    struct schema_element element[SCHEMA_SET_MAX];
    size_t n;
};

struct schema_place;
struct schema_work;
struct schema_leaf;

struct schema {
    struct grammar_builder *b;
    json_t *root;
    struct mr_error *err;
    struct schema_place *place; /* where each schema stands: hash table */
    size_t n_place, n_place_slot;
    struct schema_work *work; /* rules by their sets */
    size_t n_work, work_capacity;
    uint32_t *work_slot; /* hash table: 1 + index in work */
    size_t n_work_slot;
    struct schema_leaf *leaf; /* rules of strings and numbers by what they demand */
    size_t n_leaf, leaf_capacity;
    uint32_t blanks;        /* rule: between JSON tokens */
    uint32_t member_blanks; /* rule: behind a colon */
};

enum schema_type {
    TYPE_NULL = 1 << 0,
    TYPE_BOOLEAN = 1 << 1,
    TYPE_INTEGER = 1 << 2, /* numbers without a fraction */
    TYPE_NUMBER = 1 << 3,  /* the other numbers */
    TYPE_STRING = 1 << 4,
    TYPE_ARRAY = 1 << 5,
    TYPE_OBJECT = 1 << 6,
    TYPE_EVERY = (1 << 7) - 1
};

/* schema_document.c */
enum mr_status schema_index(struct schema *s);
void schema_index_release(struct schema *s);
/* "POINTER: keyword 'KEYWORD': ..." */
enum mr_status schema_fail(const struct schema *s, enum mr_status status, json_t *schema, const char *keyword, const char *fmt,
                           ...) MR_PRINTF(5, 6);
enum mr_status schema_no_memory(const struct schema *s);
/* Writes the JSON pointer of a schema; "#" for the root. */
void schema_pointer(const struct schema *s, json_t *schema, char *buffer, size_t size);
enum mr_status schema_resolve(const struct schema *s, json_t *schema, const char *reference, json_t **target);

/* schema_keywords.c: BAD_INPUT, NO_SUPPORT: a keyword is unknown or its value has the wrong type. */
enum mr_status schema_check_keywords(const struct schema *s, json_t *schema);
bool schema_has_constraints(json_t *schema); /* beyond annotations and what SCHEMA_OWN leaves out */
/* A count such as minItems; *value stays where the keyword is absent. */
enum mr_status schema_count(const struct schema *s, json_t *schema, const char *keyword, uint32_t *value);

/* schema_set.c */
enum mr_status schema_set_add(const struct schema *s, struct schema_set *set, json_t *schema, enum schema_part part);
/* Resolve references and allOf, so that SCHEMA_ALL no longer occurs; *nothing: no value obeys the set. */
enum mr_status schema_flatten(const struct schema *s, struct schema_set *out, const struct schema_set *set, bool *nothing);
/* The rule of the values that obey the set; it is defined later. */
enum mr_status schema_rule(struct schema *s, const struct schema_set *set, uint32_t *rule);
enum mr_status schema_leaf_find(struct schema *s, const char *key, uint32_t *rule, bool *is_new);

/* schema_value.c: flat sets without anyOf and oneOf. */
enum mr_status schema_value(struct schema *s, const struct schema_set *set, uint32_t *expr);
/* The types that type and not leave. */
enum mr_status schema_types(const struct schema *s, const struct schema_set *set, unsigned *types);
unsigned schema_type_of(json_t *value);

/* schema_enum.c */
struct schema_values {
    json_t **value; /* borrowed; NULL where the set has neither enum nor const */
    size_t n, capacity;
};
enum mr_status schema_enum(struct schema *s, const struct schema_set *set, unsigned types, struct schema_values *out);
bool schema_equal(json_t *a, json_t *b); /* numbers by their value */
enum mr_status schema_literal(struct schema *s, json_t *value, uint32_t *expr);

/* schema_string.c */
struct schema_string {
    uint32_t min, max;
    bool has_dfa;   /* pattern, format or not demand an automaton */
    struct dfa dfa; /* of the decoded strings, lengths included */
};
enum mr_status schema_string_read(struct schema *s, const struct schema_set *set, struct schema_string *out);
enum mr_status schema_string_expr(struct schema *s, const struct schema_set *set, uint32_t *expr);
uint32_t schema_quoted(struct schema *s, uint32_t body);
const char *schema_format_pattern(const char *format); /* NULL: unknown */

/* schema_number.c */
enum mr_status schema_number_expr(struct schema *s, const struct schema_set *set, unsigned types, uint32_t *expr);
enum mr_status schema_number_obeys(struct schema *s, const struct schema_set *set, json_t *value, bool *obeys);

/* number_dfa.c: decimal numbers as digits. */
struct decimal {
    bool negative;
    bool huge; /* more than SCHEMA_INTEGER_DIGITS digits before the point */
    char digits[64];
    int n_integer, n_fraction; /* no leading zeros but one before the point, no trailing ones behind it */
};
bool decimal_read(struct decimal *d, json_t *number); /* false: more digits than we compare */
bool decimal_is_zero(const struct decimal *d);
/* Write the shortest decimal text that reads as x again. */
void number_text(char *buffer, size_t size, double x);

struct number_bounds {
    bool has_low, has_high;
    bool low_excluded, high_excluded;
    struct decimal low, high;
    bool integer;
    int max_fraction;
    uint32_t *multiple; /* of all of them */
    size_t n_multiple;
};
enum mr_status number_dfa(struct dfa *out, const struct number_bounds *b, struct mr_error *err);

/* schema_array.c, schema_object.c */
enum mr_status schema_array_expr(struct schema *s, const struct schema_set *set, uint32_t *expr);
enum mr_status schema_object_expr(struct schema *s, const struct schema_set *set, uint32_t *expr);

/* schema_disjoint.c: whether surely no value obeys both. */
enum mr_status schema_disjoint(struct schema *s, const struct schema_set *a, const struct schema_set *b, int depth,
                               bool *disjoint);

#endif
