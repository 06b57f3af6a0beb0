/* jinja_syntax.h: the syntax tree of a template. */
#ifndef TEXT_JINJA_SYNTAX_H
#define TEXT_JINJA_SYNTAX_H

#include "text/jinja_value.h"

enum node_kind {
    /* Expressions; what a, b, c, list and name hold. */
    NODE_CONSTANT,  /* value */
    NODE_NAME,      /* name; hops, slot: where it lives */
    NODE_TUPLE,     /* list */
    NODE_LIST,      /* list */
    NODE_DICT,      /* list: key, value, key, value ... */
    NODE_CONDITION, /* b if a else c (NULL) */
    NODE_AND,       /* a, b */
    NODE_OR,        /* a, b */
    NODE_NOT,       /* a */
    NODE_COMPARE,   /* a, list of NODE_OPERAND: op, a */
    NODE_OPERAND,
    NODE_BINARY,    /* a op b */
    NODE_MINUS,     /* a */
    NODE_PLUS,      /* a */
    NODE_CONCAT,    /* list */
    NODE_ATTRIBUTE, /* a.name */
    NODE_ELEMENT,   /* a[b] */
    NODE_SLICE,     /* a:b:c, each may be NULL; only as the b of an element */
    NODE_CALL,      /* a(list of arguments) */
    NODE_FILTER,    /* a | name(list); a NULL: what a filter or set block holds */
    NODE_TEST,      /* a is name(list) */
    NODE_ARGUMENT,  /* a; name: a keyword; op: '*' or 'x' (for **) or 0 */
    /* Statements. */
    NODE_DATA,  /* value */
    NODE_PRINT, /* list */
    NODE_IF,    /* list of NODE_CASE: a (NULL: else), list */
    NODE_CASE,
    NODE_FOR,          /* a: target, b: iterable, c: condition, list: body, other: else; frames of body, else, condition */
    NODE_SET,          /* a: target, b */
    NODE_SET_BLOCK,    /* a: target, b: filter or NULL, list */
    NODE_MEMBER,       /* a target only: a (a namespace) . name */
    NODE_MACRO,        /* name, other: parameters (NODE_NAME with default a), list: body */
    NODE_CALL_BLOCK,   /* a: the call, b: NODE_MACRO that is its caller */
    NODE_FILTER_BLOCK, /* b: filter, list */
    NODE_WITH,         /* other: target, value, target, value ...; list */
    NODE_GENERATION,   /* list, in a frame of its own */
    NODE_BREAK,
    NODE_CONTINUE
};

struct node_list {
    struct node **item;
    size_t n, capacity;
};

struct node {
    enum node_kind kind;
    int line;
    int height; /* 1 + that of the highest child: bounds every recursion over the tree */
    int op;     /* enum operation */
    bool flag;  /* NODE_FOR: recursive; NODE_FILTER, NODE_TEST: unknown names fail when they are used, not before */
    struct node *a, *b, *c;
    struct node_list list, other;
    const struct text *name;
    struct value value;
    int hops, slot;
    const struct builtin *builtin; /* of a filter or test */
    struct frame *frame, *else_frame, *if_frame;
};

/* Two characters of an operator in one number. */
#define OPERATOR(a, b) ((a) | (b) << 8)
enum operation {
    OP_EQ = OPERATOR('=', '='),
    OP_NE = OPERATOR('!', '='),
    OP_LT = '<',
    OP_LE = OPERATOR('<', '='),
    OP_GT = '>',
    OP_GE = OPERATOR('>', '='),
    OP_IN = 'i',
    OP_NOT_IN = 'n',
    OP_ADD = '+',
    OP_SUB = '-',
    OP_MUL = '*',
    OP_DIV = '/',
    OP_FLOOR = OPERATOR('/', '/'),
    OP_MOD = '%',
    OP_POW = OPERATOR('*', '*')
};

/* The variables of one scope: a template, a loop's body, a macro ... */
enum slot_source {
    SLOT_UNSET,   /* set before it is read */
    SLOT_CONTEXT, /* the render's variables and the built-in functions */
    SLOT_OUTER,   /* a copy of an outer scope's */
    SLOT_GIVEN    /* an argument, a loop's target */
};
struct slot {
    const struct text *name;
    enum slot_source source;
    bool stored;
    int outer_hops, outer_slot;
};
struct frame {
    struct frame *parent;
    struct slot *slot;
    size_t n, capacity;
    bool uses_caller, uses_varargs, uses_kwargs; /* of a macro's body */
};

struct program {
    struct node_list body;
    struct frame *frame;
};

/* Compile into the state's arena. Failures unwind. source need not outlive the call. */
struct program *jinja_parse(struct jinja *j, const char *source, size_t n);

/* Give every name its place, every filter and test its function (jinja_scope.c). */
void jinja_resolve(struct jinja *j, struct program *p);

#endif
