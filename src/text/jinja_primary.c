/* jinja_primary.c: the parser of literals, names, and what follows them: attributes, elements, calls, filters, tests; and of
 * what is assigned to. */
#include "text/jinja_parser.h"

static struct node *constant(struct parser *p, struct value v)
{
    struct node *n = parser_node(p, NODE_CONSTANT);
    n->value = v;
    p->at++;
    return parser_done(p, n);
}

static struct node *parse_name(struct parser *p)
{
    static const struct {
        const char *name;
        struct value value;
    } constants[] = {
        {"true", {.type = VALUE_BOOL, .boolean = true}},
        {"True", {.type = VALUE_BOOL, .boolean = true}},
        {"false", {.type = VALUE_BOOL, .boolean = false}},
        {"False", {.type = VALUE_BOOL, .boolean = false}},
        {"none", {.type = VALUE_NONE}},
        {"None", {.type = VALUE_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (parser_at_name(p, constants[i].name))
            return constant(p, constants[i].value);
    }
    struct node *n = parser_node(p, NODE_NAME);
    n->name = parser_name(p, "a name");
    return parser_done(p, n);
}

/* Strings side by side are one. */
static struct node *parse_string(struct parser *p)
{
    struct node *n = parser_node(p, NODE_CONSTANT);
    const struct text *t = p->at->value.text;
    while ((++p->at)->kind == TOKEN_STRING)
        t = text_concat(p->j, t, p->at->value.text);
    n->value = value_text(t);
    return parser_done(p, n);
}

static struct node *parse_list(struct parser *p)
{
    struct node *n = parser_node(p, NODE_LIST);
    parser_expect_operator(p, '[');
    while (!parser_at_operator(p, ']')) {
        if (n->list.n > 0)
            parser_expect_operator(p, ',');
        if (parser_at_operator(p, ']'))
            break;
        parser_append(p, &n->list, parse_expression(p));
    }
    parser_expect_operator(p, ']');
    return parser_done(p, n);
}

static struct node *parse_dict(struct parser *p)
{
    struct node *n = parser_node(p, NODE_DICT);
    parser_expect_operator(p, '{');
    while (!parser_at_operator(p, '}')) {
        if (n->list.n > 0)
            parser_expect_operator(p, ',');
        if (parser_at_operator(p, '}'))
            break;
        parser_append(p, &n->list, parse_expression(p));
        parser_expect_operator(p, ':');
        parser_append(p, &n->list, parse_expression(p));
    }
    parser_expect_operator(p, '}');
    return parser_done(p, n);
}

static bool at_tuple_end(const struct parser *p, bool parentheses)
{
    return p->at->kind == TOKEN_PRINT_END || p->at->kind == TOKEN_BLOCK_END || parser_at_operator(p, ')') ||
           (p->in_for && !parentheses && parser_at_name(p, "recursive"));
}

/* The rest of a tuple whose first item may be NULL (there is none); one item without a comma is itself. */
static struct node *parse_items(struct parser *p, bool with_condition, bool parentheses)
{
    struct node *n = parser_node(p, NODE_TUPLE);
    bool comma = false;
    while (!at_tuple_end(p, parentheses)) {
        if (n->list.n > 0 && !parser_skip_operator(p, ','))
            break;
        comma = comma || n->list.n > 0;
        if (at_tuple_end(p, parentheses))
            break;
        parser_append(p, &n->list, with_condition ? parse_expression(p) : parse_or(p));
    }
    if (!comma && n->list.n == 1)
        return n->list.item[0];
    if (n->list.n == 0 && !parentheses)
        parser_fail_unexpected(p, "an expression");
    return parser_done(p, n);
}

struct node *parse_tuple(struct parser *p, bool with_condition) { return parse_items(p, with_condition, false); }

struct node *parse_primary(struct parser *p)
{
    if (p->at->kind == TOKEN_NAME)
        return parse_name(p);
    if (p->at->kind == TOKEN_STRING)
        return parse_string(p);
    if (p->at->kind == TOKEN_NUMBER)
        return constant(p, p->at->value);
    if (parser_at_operator(p, '['))
        return parse_list(p);
    if (parser_at_operator(p, '{'))
        return parse_dict(p);
    if (!parser_skip_operator(p, '('))
        parser_fail_unexpected(p, "an expression");
    struct node *n = parse_items(p, true, true);
    parser_expect_operator(p, ')');
    return n;
}

static struct node *parse_slice_part(struct parser *p)
{
    const bool none = parser_at_operator(p, ':') || parser_at_operator(p, ']') || parser_at_operator(p, ',');
    return none ? NULL : parse_expression(p);
}

/* One index within brackets: an expression, or a:b:c. */
static struct node *parse_index(struct parser *p)
{
    struct node *first = parse_slice_part(p);
    if (!parser_at_operator(p, ':')) {
        if (first == NULL)
            parser_fail_unexpected(p, "an index");
        return first;
    }
    struct node *n = parser_node(p, NODE_SLICE);
    n->a = first;
    parser_expect_operator(p, ':');
    n->b = parse_slice_part(p);
    if (parser_skip_operator(p, ':'))
        n->c = parse_slice_part(p);
    return parser_done(p, n);
}

static struct node *parse_element(struct parser *p, struct node *a)
{
    struct node *index = parse_index(p);
    if (parser_at_operator(p, ',')) {
        struct node *tuple = parser_node(p, NODE_TUPLE);
        parser_append(p, &tuple->list, index);
        while (parser_skip_operator(p, ','))
            parser_append(p, &tuple->list, parse_expression(p));
        if (tuple->list.item[0]->kind == NODE_SLICE)
            parser_fail_unexpected(p, "one slice");
        index = parser_done(p, tuple);
    }
    parser_expect_operator(p, ']');
    return parser_pair(p, NODE_ELEMENT, a, index);
}

static struct node *parse_attribute(struct parser *p, struct node *a)
{
    if (p->at->kind == TOKEN_NUMBER && p->at->value.type == VALUE_INT)
        return parser_pair(p, NODE_ELEMENT, a, constant(p, p->at->value));
    struct node *n = parser_node(p, NODE_ATTRIBUTE);
    n->a = a;
    n->name = parser_name(p, "a name or a number");
    return parser_done(p, n);
}

static struct node *parse_argument(struct parser *p)
{
    struct node *n = parser_node(p, NODE_ARGUMENT);
    if (parser_skip_operator(p, OP_MUL)) {
        n->op = '*';
    } else if (parser_skip_operator(p, OP_POW)) {
        n->op = 'x';
    } else if (p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_OPERATOR && p->at[1].op == '=') {
        n->name = p->at->value.text;
        p->at += 2;
    }
    n->a = parse_expression(p);
    return parser_done(p, n);
}

/* Positional before keyword arguments, one *list, one **dict. */
static void check_order(struct parser *p, const struct node_list *list, const struct node *next)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct node *n = list->item[i];
        const bool both_starred = n->op != 0 && n->op == next->op;
        const bool late = n->op == 'x' || (next->op == 0 && next->name == NULL && (n->name != NULL || n->op == '*'));
        if (both_starred || late || (next->op == '*' && n->op == 'x'))
            jinja_fail(p->j, "invalid syntax for function call expression");
    }
}

void parse_arguments(struct parser *p, struct node_list *list)
{
    parser_expect_operator(p, '(');
    while (!parser_at_operator(p, ')')) {
        if (list->n > 0)
            parser_expect_operator(p, ',');
        if (parser_at_operator(p, ')'))
            break;
        struct node *n = parse_argument(p);
        check_order(p, list, n);
        parser_append(p, list, n);
    }
    parser_expect_operator(p, ')');
}

static struct node *parse_call(struct parser *p, struct node *a)
{
    struct node *n = parser_node(p, NODE_CALL);
    n->a = a;
    parse_arguments(p, &n->list);
    return parser_done(p, n);
}

/* Names with dots between them. */
static const struct text *parse_dotted(struct parser *p, const char *what)
{
    const struct text *name = parser_name(p, what);
    while (parser_skip_operator(p, '.')) {
        name = text_concat(p->j, name, text_literal(p->j, "."));
        name = text_concat(p->j, name, parser_name(p, what));
    }
    return name;
}

struct node *parse_filters(struct parser *p, struct node *a, bool first)
{
    while (!first || parser_skip_operator(p, '|')) {
        struct node *n = parser_node(p, NODE_FILTER);
        n->a = a;
        n->name = parse_dotted(p, "the name of a filter");
        if (parser_at_operator(p, '('))
            parse_arguments(p, &n->list);
        a = parser_done(p, n);
        first = true;
    }
    return a;
}

struct node *parse_postfix(struct parser *p, struct node *a)
{
    for (;;) {
        if (parser_skip_operator(p, '.'))
            a = parse_attribute(p, a);
        else if (parser_skip_operator(p, '['))
            a = parse_element(p, a);
        else if (parser_at_operator(p, '('))
            a = parse_call(p, a);
        else
            return a;
    }
}

static bool at_bare_argument(const struct parser *p)
{
    if (p->at->kind == TOKEN_NAME)
        return !parser_at_name(p, "else") && !parser_at_name(p, "or") && !parser_at_name(p, "and") && !parser_at_name(p, "is");
    return p->at->kind == TOKEN_STRING || p->at->kind == TOKEN_NUMBER || parser_at_operator(p, '[') ||
           parser_at_operator(p, '{');
}

/* a is [not] name, name(args) or name arg */
static struct node *parse_test(struct parser *p, struct node *a)
{
    const bool negated = parser_skip_name(p, "not");
    struct node *n = parser_node(p, NODE_TEST);
    n->a = a;
    n->name = parse_dotted(p, "the name of a test");
    if (parser_at_operator(p, '(')) {
        parse_arguments(p, &n->list);
    } else if (at_bare_argument(p)) {
        struct node *argument = parser_node(p, NODE_ARGUMENT);
        argument->a = parse_postfix(p, parse_primary(p));
        parser_append(p, &n->list, parser_done(p, argument));
    } else if (parser_at_name(p, "is")) {
        jinja_fail(p->j, "you cannot chain multiple tests with is");
    }
    n = parser_done(p, n);
    return negated ? parser_pair(p, NODE_NOT, n, NULL) : n;
}

struct node *parse_filters_and_tests(struct parser *p, struct node *a)
{
    for (;;) {
        if (parser_at_operator(p, '|'))
            a = parse_filters(p, a, true);
        else if (parser_skip_name(p, "is"))
            a = parse_test(p, a);
        else if (parser_at_operator(p, '('))
            a = parse_call(p, a);
        else
            return a;
    }
}

static struct node *parse_target_name(struct parser *p, bool members)
{
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    struct node *n = parser_node(p, NODE_NAME);
    n->name = parser_name(p, "a name to assign to");
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (text_is(n->name, reserved[i]))
            jinja_fail(p->j, "cannot assign to '%s'", reserved[i]);
    }
    if (!members || !parser_skip_operator(p, '.'))
        return parser_done(p, n);
    struct node *member = parser_node(p, NODE_MEMBER);
    member->a = parser_done(p, n);
    member->name = parser_name(p, "a name to assign to");
    return parser_done(p, member);
}

struct node *parse_target(struct parser *p, bool members)
{
    struct node *n = parser_node(p, NODE_TUPLE);
    bool comma = false;
    parser_enter(p);
    do {
        if (parser_skip_operator(p, '(')) {
            parser_append(p, &n->list, parse_target(p, members));
            parser_expect_operator(p, ')');
        } else if (n->list.n > 0 && p->at->kind != TOKEN_NAME) {
            break;
        } else {
            parser_append(p, &n->list, parse_target_name(p, members));
        }
        comma = comma || parser_at_operator(p, ',');
    } while (parser_skip_operator(p, ','));
    parser_leave(p);
    return comma ? parser_done(p, n) : n->list.item[0];
}
