/* jinja_parser.c: the parser of statements. */
#include "text/jinja_parser.h"

#include <stdio.h>
#include <string.h>

struct node *parser_node(struct parser *p, enum node_kind kind)
{
    struct node *n = jinja_alloc(p->j, sizeof *n);
    *n = (struct node){.kind = kind, .line = p->at->line};
    p->j->line = p->at->line;
    return n;
}

void parser_append(struct parser *p, struct node_list *list, struct node *item)
{
    if (list->n == list->capacity) {
        const size_t capacity = 2 * list->capacity + 4;
        struct node **items = jinja_alloc_array(p->j, capacity, sizeof *items);
        if (list->n > 0)
            memcpy(items, list->item, list->n * sizeof *items);
        list->item = items;
        list->capacity = capacity;
    }
    list->item[list->n++] = item;
}

static int list_height(const struct node_list *list)
{
    int height = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->item[i]->height > height)
            height = list->item[i]->height;
    }
    return height;
}

struct node *parser_done(struct parser *p, struct node *n)
{
    const struct node *child[] = {n->a, n->b, n->c};
    int height = list_height(&n->list);
    const int other = list_height(&n->other);
    height = other > height ? other : height;
    for (size_t i = 0; i < sizeof child / sizeof *child; i++) {
        if (child[i] != NULL && child[i]->height > height)
            height = child[i]->height;
    }
    n->height = height + 1;
    if (n->height > JINJA_MAX_NESTING)
        jinja_fail(p->j, "nested too deeply");
    return n;
}

struct node *parser_pair(struct parser *p, enum node_kind kind, struct node *a, struct node *b)
{
    struct node *n = parser_node(p, kind);
    n->a = a;
    n->b = b;
    return parser_done(p, n);
}

void parser_enter(struct parser *p)
{
    if (++p->depth > JINJA_MAX_NESTING)
        jinja_fail(p->j, "nested too deeply");
}

void parser_leave(struct parser *p) { p->depth--; }

bool parser_at_name(const struct parser *p, const char *name)
{
    return p->at->kind == TOKEN_NAME && text_is(p->at->value.text, name);
}

bool parser_at_operator(const struct parser *p, int op) { return p->at->kind == TOKEN_OPERATOR && p->at->op == op; }

bool parser_skip_name(struct parser *p, const char *name)
{
    const bool there = parser_at_name(p, name);
    p->at += there;
    return there;
}

bool parser_skip_operator(struct parser *p, int op)
{
    const bool there = parser_at_operator(p, op);
    p->at += there;
    return there;
}

void parser_fail_unexpected(struct parser *p, const char *wanted)
{
    static const char *const kinds[] = {
        [TOKEN_END] = "the end of the template",
        [TOKEN_DATA] = "text",
        [TOKEN_PRINT_BEGIN] = "'{{'",
        [TOKEN_PRINT_END] = "'}}'",
        [TOKEN_BLOCK_BEGIN] = "'{%'",
        [TOKEN_BLOCK_END] = "'%}'",
        [TOKEN_STRING] = "a string",
        [TOKEN_NUMBER] = "a number",
    };
    const struct token *t = p->at;
    p->j->line = t->line;
    if (t->kind == TOKEN_NAME)
        jinja_fail(p->j, "expected %s, found '%.*s'", wanted, (int)(t->value.text->n < 80 ? t->value.text->n : 80),
                   t->value.text->s);
    if (t->kind == TOKEN_OPERATOR)
        jinja_fail(p->j, "expected %s, found '%c%.1s'", wanted, (char)t->op, (const char[]){(char)(t->op >> 8), '\0'});
    jinja_fail(p->j, "expected %s, found %s", wanted, kinds[t->kind]);
}

void parser_expect_operator(struct parser *p, int op)
{
    char wanted[8];
    if (parser_skip_operator(p, op))
        return;
    snprintf(wanted, sizeof wanted, "'%c'", (char)op);
    parser_fail_unexpected(p, wanted);
}

void parser_expect(struct parser *p, enum token_kind kind, const char *what)
{
    if (p->at->kind != kind)
        parser_fail_unexpected(p, what);
    if (kind != TOKEN_END)
        p->at++;
}

const struct text *parser_name(struct parser *p, const char *what)
{
    if (p->at->kind != TOKEN_NAME)
        parser_fail_unexpected(p, what);
    return (p->at++)->value.text;
}

static void parse_body(struct parser *p, struct node_list *body, const char *const *ends);

/* The body of a block, from its first tag's end to the last tag's: ends with one of the names, which is returned. */
static const char *parse_block(struct parser *p, struct node_list *body, const char *const *ends)
{
    parser_expect(p, TOKEN_BLOCK_END, "'%}'");
    parse_body(p, body, ends);
    for (; *ends != NULL; ends++) {
        if (parser_skip_name(p, *ends))
            return *ends;
    }
    parser_fail_unexpected(p, "the end of a block");
}

static struct node *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    struct node *n = parser_node(p, NODE_IF);
    const char *end = "if";
    while (strcmp(end, "endif") != 0) {
        const bool is_else = strcmp(end, "else") == 0;
        struct node *branch = parser_node(p, NODE_CASE);
        branch->a = is_else ? NULL : parse_tuple(p, false);
        end = parse_block(p, &branch->list, is_else ? last : ends);
        parser_append(p, &n->list, parser_done(p, branch));
    }
    return parser_done(p, n);
}

static void refuse_loop_target(struct parser *p, const struct node *target)
{
    if (target->kind == NODE_NAME && text_is(target->name, "loop"))
        jinja_fail(p->j, "cannot assign to the special variable 'loop' in a for loop");
    for (size_t i = 0; i < target->list.n; i++)
        refuse_loop_target(p, target->list.item[i]);
}

static struct node *parse_for(struct parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    struct node *n = parser_node(p, NODE_FOR);
    n->a = parse_target(p, false);
    refuse_loop_target(p, n->a);
    if (!parser_skip_name(p, "in"))
        parser_fail_unexpected(p, "'in'");
    p->in_for = true;
    n->b = parse_tuple(p, false);
    p->in_for = false;
    if (parser_skip_name(p, "if"))
        n->c = parse_expression(p);
    n->flag = parser_skip_name(p, "recursive");
    p->n_loop++;
    const char *end = parse_block(p, &n->list, ends);
    p->n_loop--;
    if (strcmp(end, "else") == 0)
        parse_block(p, &n->other, last);
    return parser_done(p, n);
}

static struct node *parse_set(struct parser *p)
{
    static const char *const ends[] = {"endset", NULL};
    struct node *n = parser_node(p, NODE_SET);
    n->a = parse_target(p, true);
    if (parser_skip_operator(p, '=')) {
        n->b = parse_tuple(p, true);
        return parser_done(p, n);
    }
    n->kind = NODE_SET_BLOCK;
    n->b = parse_filters(p, NULL, true);
    parse_block(p, &n->list, ends);
    return parser_done(p, n);
}

static void parse_parameters(struct parser *p, struct node *macro)
{
    parser_expect_operator(p, '(');
    bool had_default = false;
    while (!parser_at_operator(p, ')')) {
        if (macro->other.n > 0)
            parser_expect_operator(p, ',');
        struct node *parameter = parser_node(p, NODE_NAME);
        parameter->name = parser_name(p, "the name of a parameter");
        if (parser_skip_operator(p, '=')) {
            parameter->a = parse_expression(p);
            had_default = true;
        } else if (had_default) {
            jinja_fail(p->j, "a parameter without a default follows one that has a default");
        }
        parser_append(p, &macro->other, parser_done(p, parameter));
    }
    parser_expect_operator(p, ')');
}

static void parse_macro_body(struct parser *p, struct node *macro, const char *end)
{
    const char *const ends[] = {end, NULL};
    const int n_loop = p->n_loop;
    p->n_loop = 0;
    parse_block(p, &macro->list, ends);
    p->n_loop = n_loop;
}

static struct node *parse_macro(struct parser *p)
{
    struct node *n = parser_node(p, NODE_MACRO);
    n->name = parser_name(p, "the name of a macro");
    parse_parameters(p, n);
    parse_macro_body(p, n, "endmacro");
    return parser_done(p, n);
}

static struct node *parse_call_block(struct parser *p)
{
    struct node *n = parser_node(p, NODE_CALL_BLOCK);
    struct node *caller = parser_node(p, NODE_MACRO);
    caller->name = text_literal(p->j, "caller");
    if (parser_at_operator(p, '('))
        parse_parameters(p, caller);
    n->a = parse_expression(p);
    if (n->a->kind != NODE_CALL)
        jinja_fail(p->j, "expected a call");
    parse_macro_body(p, caller, "endcall");
    n->b = parser_done(p, caller);
    return parser_done(p, n);
}

static struct node *parse_generation(struct parser *p)
{
    struct node *n = parser_node(p, NODE_GENERATION);
    parse_macro_body(p, n, "endgeneration");
    return parser_done(p, n);
}

static struct node *parse_filter_block(struct parser *p)
{
    static const char *const ends[] = {"endfilter", NULL};
    struct node *n = parser_node(p, NODE_FILTER_BLOCK);
    n->b = parse_filters(p, NULL, false);
    parse_block(p, &n->list, ends);
    return parser_done(p, n);
}

static struct node *parse_with(struct parser *p)
{
    static const char *const ends[] = {"endwith", NULL};
    struct node *n = parser_node(p, NODE_WITH);
    while (p->at->kind != TOKEN_BLOCK_END) {
        if (n->other.n > 0)
            parser_expect_operator(p, ',');
        parser_append(p, &n->other, parse_target(p, false));
        parser_expect_operator(p, '=');
        parser_append(p, &n->other, parse_expression(p));
    }
    parse_block(p, &n->list, ends);
    return parser_done(p, n);
}

static struct node *parse_output(struct parser *p)
{
    struct node *n = parser_node(p, NODE_PRINT);
    parser_append(p, &n->list, parse_tuple(p, true));
    return parser_done(p, n);
}

static struct node *parse_print(struct parser *p)
{
    struct node *n = parser_node(p, NODE_PRINT);
    while (p->at->kind != TOKEN_BLOCK_END) {
        if (n->list.n > 0)
            parser_expect_operator(p, ',');
        parser_append(p, &n->list, parse_expression(p));
    }
    return parser_done(p, n);
}

static struct node *parse_jump(struct parser *p, enum node_kind kind, const char *name)
{
    if (p->n_loop == 0)
        jinja_fail(p->j, "'%s' outside of a loop", name);
    return parser_done(p, parser_node(p, kind));
}

static struct node *parse_break(struct parser *p) { return parse_jump(p, NODE_BREAK, "break"); }

static struct node *parse_continue(struct parser *p) { return parse_jump(p, NODE_CONTINUE, "continue"); }

static struct node *parse_unsupported(struct parser *p)
{
    jinja_fail(p->j, "a chat template is one file: include, import, extends, block and autoescape are not supported");
}

static const struct {
    const char *name;
    struct node *(*parse)(struct parser *p);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"print", parse_print},
    {"break", parse_break},
    {"continue", parse_continue},
    {"generation", parse_generation},
    {"include", parse_unsupported},
    {"import", parse_unsupported},
    {"from", parse_unsupported},
    {"extends", parse_unsupported},
    {"block", parse_unsupported},
    {"autoescape", parse_unsupported},
};

static struct node *parse_statement(struct parser *p)
{
    p->j->line = p->at->line;
    const struct text *name = parser_name(p, "the name of a statement");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (text_is(name, statements[i].name))
            return statements[i].parse(p);
    }
    jinja_fail(p->j, "unknown statement '%.*s'", (int)(name->n < 80 ? name->n : 80), name->s);
}

static bool at_end_of_body(const struct parser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++) {
        if (parser_at_name(p, *ends))
            return true;
    }
    return false;
}

static struct node *parse_data(struct parser *p)
{
    struct node *n = parser_node(p, NODE_DATA);
    n->value = (p->at++)->value;
    return parser_done(p, n);
}

/* Statements up to a tag that begins with one of the names (its '{%' is read), or to the end of the template. */
static void parse_body(struct parser *p, struct node_list *body, const char *const *ends)
{
    parser_enter(p);
    while (p->at->kind != TOKEN_END) {
        if (p->at->kind == TOKEN_DATA) {
            parser_append(p, body, parse_data(p));
        } else if (p->at->kind == TOKEN_PRINT_BEGIN) {
            p->at++;
            parser_append(p, body, parse_output(p));
            parser_expect(p, TOKEN_PRINT_END, "'}}'");
        } else {
            parser_expect(p, TOKEN_BLOCK_BEGIN, "'{%'");
            if (at_end_of_body(p, ends))
                break;
            parser_append(p, body, parse_statement(p));
            parser_expect(p, TOKEN_BLOCK_END, "'%}'");
        }
    }
    parser_leave(p);
}

struct program *jinja_parse(struct jinja *j, const char *source, size_t n)
{
    struct parser p = {.j = j, .at = jinja_lex(j, source, n)};
    struct program *program = jinja_alloc(j, sizeof *program);
    *program = (struct program){0};
    parse_body(&p, &program->body, NULL);
    parser_expect(&p, TOKEN_END, "a statement");
    return program;
}
