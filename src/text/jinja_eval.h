/* jinja_eval.h: running a template's tree. */
#ifndef TEXT_JINJA_EVAL_H
#define TEXT_JINJA_EVAL_H

#include "text/jinja_builtin.h"
#include "text/jinja_syntax.h"

struct scope {
    struct scope *parent;
    struct value slot[]; /* as the frame says */
};

/* A scope at its start: copies of outer variables, those of the render, nothing. */
struct scope *scope_enter(struct jinja *j, const struct frame *f, struct scope *parent);

struct value jinja_eval(struct jinja *j, const struct node *n, struct scope *s);
void jinja_eval_arguments(struct jinja *j, const struct node_list *list, struct scope *s, struct arguments *out);
/* Apply the filters of a block (n; NULL: none) to what it holds. */
struct value jinja_eval_filters(struct jinja *j, const struct node *n, struct value held, struct scope *s);
void jinja_assign(struct jinja *j, const struct node *target, struct value v, struct scope *s);

/* What the statements print, as one string. */
const struct text *jinja_capture(struct jinja *j, const struct node_list *body, struct scope *s);

/* Render the program into the state's output; context, now and out are set. */
void jinja_run(struct jinja *j, const struct program *p);

/* A macro made at n in scope s: the caller of a call block, or what `macro` defines. */
struct value macro_make(struct jinja *j, const struct node *n, struct scope *s);

/* Go over the items in a for loop; depth: 1 for the outermost. Returns whether the body ran. */
bool loop_run(struct jinja *j, const struct node *n, struct value iterable, struct scope *s, int depth);

enum flow {
    FLOW_ON,
    FLOW_BREAK,
    FLOW_CONTINUE
};
enum flow jinja_exec(struct jinja *j, const struct node_list *body, struct scope *s);

#endif
