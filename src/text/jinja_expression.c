/* jinja_expression.c: the parser of expressions. By rising strength: if-else, or, and, not, comparisons, + -, ~, * / // %,
 * **, signs, then attributes, elements, calls, filters and tests. */
#include "text/jinja_parser.h"

struct node *parse_expression(struct parser *p)
{
    parser_enter(p);
    struct node *value = parse_or(p);
    while (parser_skip_name(p, "if")) {
        struct node *n = parser_node(p, NODE_CONDITION);
        n->b = value;
        n->a = parse_or(p);
        if (parser_skip_name(p, "else"))
            n->c = parse_expression(p);
        value = parser_done(p, n);
    }
    parser_leave(p);
    return value;
}

static struct node *parse_compare(struct parser *p);

static struct node *parse_not(struct parser *p)
{
    if (!parser_skip_name(p, "not"))
        return parse_compare(p);
    parser_enter(p);
    struct node *n = parser_pair(p, NODE_NOT, parse_not(p), NULL);
    parser_leave(p);
    return n;
}

static struct node *parse_and(struct parser *p)
{
    struct node *left = parse_not(p);
    while (parser_skip_name(p, "and"))
        left = parser_pair(p, NODE_AND, left, parse_not(p));
    return left;
}

struct node *parse_or(struct parser *p)
{
    struct node *left = parse_and(p);
    while (parser_skip_name(p, "or"))
        left = parser_pair(p, NODE_OR, left, parse_and(p));
    return left;
}

static struct node *binary(struct parser *p, struct node *a, int op, struct node *b)
{
    struct node *n = parser_pair(p, NODE_BINARY, a, b);
    n->op = op;
    return n;
}

/* Skip one of the operators (0 ends the list); 0: none is there. */
static int skip_one_of(struct parser *p, const int *op)
{
    for (; *op != 0; op++) {
        if (parser_skip_operator(p, *op))
            return *op;
    }
    return 0;
}

static struct node *parse_sign(struct parser *p, bool with_filters)
{
    parser_enter(p);
    struct node *n;
    if (parser_skip_operator(p, OP_SUB))
        n = parser_pair(p, NODE_MINUS, parse_sign(p, false), NULL);
    else if (parser_skip_operator(p, OP_ADD))
        n = parser_pair(p, NODE_PLUS, parse_sign(p, false), NULL);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    if (with_filters)
        n = parse_filters_and_tests(p, n);
    parser_leave(p);
    return n;
}

static struct node *parse_power(struct parser *p)
{
    struct node *left = parse_sign(p, true);
    while (parser_skip_operator(p, OP_POW))
        left = binary(p, left, OP_POW, parse_sign(p, true));
    return left;
}

static struct node *parse_product(struct parser *p)
{
    static const int ops[] = {OP_MUL, OP_DIV, OP_FLOOR, OP_MOD, 0};
    struct node *left = parse_power(p);
    for (int op; (op = skip_one_of(p, ops)) != 0;)
        left = binary(p, left, op, parse_power(p));
    return left;
}

static struct node *parse_concat(struct parser *p)
{
    struct node *first = parse_product(p);
    if (!parser_at_operator(p, '~'))
        return first;
    struct node *n = parser_node(p, NODE_CONCAT);
    parser_append(p, &n->list, first);
    while (parser_skip_operator(p, '~'))
        parser_append(p, &n->list, parse_product(p));
    return parser_done(p, n);
}

static struct node *parse_sum(struct parser *p)
{
    static const int ops[] = {OP_ADD, OP_SUB, 0};
    struct node *left = parse_concat(p);
    for (int op; (op = skip_one_of(p, ops)) != 0;)
        left = binary(p, left, op, parse_concat(p));
    return left;
}

static int skip_comparison(struct parser *p)
{
    static const int ops[] = {OP_EQ, OP_NE, OP_LE, OP_LT, OP_GE, OP_GT, 0};
    const int op = skip_one_of(p, ops);
    if (op != 0)
        return op;
    if (parser_skip_name(p, "in"))
        return OP_IN;
    const struct token *next = p->at + (p->at->kind != TOKEN_END);
    if (!parser_at_name(p, "not") || next->kind != TOKEN_NAME || !text_is(next->value.text, "in"))
        return 0;
    p->at += 2;
    return OP_NOT_IN;
}

static struct node *parse_compare(struct parser *p)
{
    struct node *first = parse_sum(p);
    struct node *n = NULL;
    for (int op; (op = skip_comparison(p)) != 0;) {
        if (n == NULL) {
            n = parser_node(p, NODE_COMPARE);
            n->a = first;
        }
        struct node *operand = parser_node(p, NODE_OPERAND);
        operand->op = op;
        operand->a = parse_sum(p);
        parser_append(p, &n->list, parser_done(p, operand));
    }
    return n == NULL ? first : parser_done(p, n);
}
