/* regex_tree.h: a parsed regular expression. */
#ifndef SAMPLE_REGEX_TREE_H
#define SAMPLE_REGEX_TREE_H

#include "sample/grammar_builder.h"

enum regex_kind {
    REGEX_SEQUENCE, /* of the children */
    REGEX_CHOICE,
    REGEX_CHARS,  /* one character of range[first .. first + n - 1] */
    REGEX_REPEAT, /* the child, min to max times */
    REGEX_START,  /* ^ */
    REGEX_END     /* $ */
};
#define REGEX_NONE UINT32_MAX

struct regex_node {
    enum regex_kind kind;
    uint32_t child, next; /* first child, next sibling; REGEX_NONE: none */
    uint32_t first, n;
    uint32_t min, max;
};

struct regex_tree {
    struct regex_node *node;
    size_t n_node, node_capacity;
    struct code_range *range;
    size_t n_range, range_capacity;
    uint32_t root;
};

void regex_tree_release(struct regex_tree *t);
enum mr_status regex_parse(struct regex_tree *t, const char *pattern, size_t n, struct mr_error *err);

/* Replace range[0 .. *n - 1] by what is in none of them. The array has room for one more. */
void code_ranges_negate(struct code_range *range, size_t *n);

#endif
