/* jinja_parser.h: what the parser of statements and that of expressions share. */
#ifndef TEXT_JINJA_PARSER_H
#define TEXT_JINJA_PARSER_H

#include "text/jinja_lexer.h"
#include "text/jinja_syntax.h"

struct parser {
    struct jinja *j;
    const struct token *at;
    int depth;   /* of open calls of the parser, against endless nesting */
    int n_loop;  /* loops around, up to the next macro */
    bool in_for; /* between 'in' and the end of a for tag, where 'recursive' is no name */
};

struct node *parser_node(struct parser *p, enum node_kind kind);
void parser_append(struct parser *p, struct node_list *list, struct node *item);
/* After the children are in place: note the height, which is bounded. */
struct node *parser_done(struct parser *p, struct node *n);

/* A node of two children (b may be NULL). */
struct node *parser_pair(struct parser *p, enum node_kind kind, struct node *a, struct node *b);
/* One call of the parser deeper, until parser_leave; fails when it is too deep. */
void parser_enter(struct parser *p);
void parser_leave(struct parser *p);

bool parser_at_name(const struct parser *p, const char *name);
bool parser_at_operator(const struct parser *p, int op);
bool parser_skip_name(struct parser *p, const char *name);
bool parser_skip_operator(struct parser *p, int op);
void parser_expect_operator(struct parser *p, int op);
void parser_expect(struct parser *p, enum token_kind kind, const char *what);
const struct text *parser_name(struct parser *p, const char *what);
_Noreturn void parser_fail_unexpected(struct parser *p, const char *wanted);

struct node *parse_expression(struct parser *p);
struct node *parse_or(struct parser *p); /* an expression that is no `a if b else c` */
/* jinja_primary.c: a literal, a name or what stands in brackets; then .name, [index] and (arguments) behind it; then
 * filters and tests. */
struct node *parse_primary(struct parser *p);
struct node *parse_postfix(struct parser *p, struct node *a);
struct node *parse_filters_and_tests(struct parser *p, struct node *a);
/* One expression, or several with commas between: a tuple. with_condition: may be `a if b else c`. */
struct node *parse_tuple(struct parser *p, bool with_condition);
/* What `set` and `for` assign to: names, tuples of them, and where `members`, ns.name. */
struct node *parse_target(struct parser *p, bool members);
/* name(args) | name(args) ... applied to a, which may be NULL. `first`: a '|' stands before the first. */
struct node *parse_filters(struct parser *p, struct node *a, bool first);
void parse_arguments(struct parser *p, struct node_list *list);

#endif
