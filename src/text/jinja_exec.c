/* jinja_exec.c: the statements of a template. */
#include "text/jinja_eval.h"

static struct text_buffer *begin_capture(struct jinja *j)
{
    struct text_buffer *before = j->out;
    j->out = text_begin(j);
    return before;
}

static const struct text *end_capture(struct jinja *j, struct text_buffer *before)
{
    const struct text *t = text_end(j, j->out);
    j->out = before;
    return t;
}

const struct text *jinja_capture(struct jinja *j, const struct node_list *body, struct scope *s)
{
    struct text_buffer *before = begin_capture(j);
    jinja_exec(j, body, s);
    return end_capture(j, before);
}

static enum flow exec_if(struct jinja *j, const struct node *n, struct scope *s)
{
    for (size_t i = 0; i < n->list.n; i++) {
        const struct node *branch = n->list.item[i];
        if (branch->a == NULL || value_is_true(jinja_eval(j, branch->a, s)))
            return jinja_exec(j, &branch->list, s);
    }
    return FLOW_ON;
}

static enum flow exec_for(struct jinja *j, const struct node *n, struct scope *s)
{
    if (loop_run(j, n, jinja_eval(j, n->b, s), s, 1) || n->other.n == 0)
        return FLOW_ON;
    return jinja_exec(j, &n->other, scope_enter(j, n->else_frame, s));
}

/* The body of a set or filter block is captured; a break in it still breaks. */
static enum flow exec_captured(struct jinja *j, const struct node *n, struct scope *s)
{
    struct scope *inner = scope_enter(j, n->frame, s);
    struct text_buffer *before = begin_capture(j);
    const enum flow flow = jinja_exec(j, &n->list, inner);
    const struct text *held = end_capture(j, before);
    if (flow != FLOW_ON)
        return flow;
    const struct value v = jinja_eval_filters(j, n->b, value_text(held), inner);
    if (n->kind == NODE_SET_BLOCK)
        jinja_assign(j, n->a, v, s);
    else
        text_add_text(j, j->out, value_str(j, v));
    return FLOW_ON;
}

static void exec_call_block(struct jinja *j, const struct node *n, struct scope *s)
{
    struct arguments arguments;
    const struct value callee = jinja_eval(j, n->a->a, s);
    jinja_eval_arguments(j, &n->a->list, s, &arguments);
    struct keyword *keyword = jinja_alloc_array(j, arguments.n_keyword + 1, sizeof *keyword);
    for (size_t i = 0; i < arguments.n_keyword; i++)
        keyword[i] = arguments.keyword[i];
    keyword[arguments.n_keyword++] = (struct keyword){text_literal(j, "caller"), macro_make(j, n->b, s)};
    arguments.keyword = keyword;
    j->line = n->line;
    text_add_text(j, j->out, value_str(j, jinja_call(j, callee, &arguments)));
}

static enum flow exec_with(struct jinja *j, const struct node *n, struct scope *s)
{
    struct list *values = list_make(j, n->other.n / 2);
    for (size_t i = 1; i < n->other.n; i += 2)
        list_add(j, values, jinja_eval(j, n->other.item[i], s));
    struct scope *inner = scope_enter(j, n->frame, s);
    for (size_t i = 0; i < values->n; i++)
        jinja_assign(j, n->other.item[2 * i], values->item[i], inner);
    return jinja_exec(j, &n->list, inner);
}

static enum flow exec_node(struct jinja *j, const struct node *n, struct scope *s)
{
    switch (n->kind) {
    case NODE_DATA:
        text_add_text(j, j->out, n->value.text);
        return FLOW_ON;
    case NODE_PRINT:
        for (size_t i = 0; i < n->list.n; i++)
            text_add_text(j, j->out, value_str(j, jinja_eval(j, n->list.item[i], s)));
        return FLOW_ON;
    case NODE_IF:
        return exec_if(j, n, s);
    case NODE_FOR:
        return exec_for(j, n, s);
    case NODE_SET:
        jinja_assign(j, n->a, jinja_eval(j, n->b, s), s);
        return FLOW_ON;
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return exec_captured(j, n, s);
    case NODE_MACRO:
        s->slot[n->slot] = macro_make(j, n, s);
        return FLOW_ON;
    case NODE_CALL_BLOCK:
        exec_call_block(j, n, s);
        return FLOW_ON;
    case NODE_WITH:
        return exec_with(j, n, s);
    case NODE_GENERATION:
        return jinja_exec(j, &n->list, scope_enter(j, n->frame, s));
    case NODE_BREAK:
        return FLOW_BREAK;
    default:
        return FLOW_CONTINUE;
    }
}

enum flow jinja_exec(struct jinja *j, const struct node_list *body, struct scope *s)
{
    enum flow flow = FLOW_ON;
    jinja_enter(j);
    for (size_t i = 0; i < body->n && flow == FLOW_ON; i++) {
        jinja_work(j, 1);
        j->line = body->item[i]->line;
        flow = exec_node(j, body->item[i], s);
    }
    jinja_leave(j);
    return flow;
}

void jinja_run(struct jinja *j, const struct program *p) { jinja_exec(j, &p->body, scope_enter(j, p->frame, NULL)); }
