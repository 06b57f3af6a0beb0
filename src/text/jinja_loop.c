/* jinja_loop.c: for loops, and the variable `loop` in them. */
#include <inttypes.h>

#include "text/jinja_eval.h"

struct loop {
    const struct node *node;
    struct scope *scope; /* around the loop */
    const struct list *items;
    size_t next;                               /* the item to look at next */
    int64_t index0;                            /* of the current item */
    int64_t length;                            /* -1: with a condition, not known yet */
    struct value previous, current, following; /* VALUE_MISSING: none, not looked at */
    int depth;
    struct value changed;
};

/* The next item that meets the loop's condition, VALUE_MISSING: none. The condition is evaluated when the item's turn
 * comes, not before: it may depend on what the body did. */
static struct value pull(struct jinja *j, struct loop *l)
{
    while (l->next < l->items->n) {
        const struct value v = l->items->item[l->next++];
        if (l->node->c == NULL)
            return v;
        struct scope *s = scope_enter(j, l->node->if_frame, l->scope);
        jinja_assign(j, l->node->a, v, s);
        if (value_is_true(jinja_eval(j, l->node->c, s)))
            return v;
    }
    return NO_VALUE;
}

static struct value peek(struct jinja *j, struct loop *l)
{
    if (l->following.type == VALUE_MISSING)
        l->following = pull(j, l);
    return l->following;
}

static bool advance(struct jinja *j, struct loop *l)
{
    const struct value v = peek(j, l);
    l->following = NO_VALUE;
    if (v.type == VALUE_MISSING)
        return false;
    l->previous = l->current;
    l->current = v;
    l->index0++;
    return true;
}

bool loop_run(struct jinja *j, const struct node *n, struct value iterable, struct scope *s, int depth)
{
    struct loop *l = jinja_alloc(j, sizeof *l);
    *l = (struct loop){.node = n, .scope = s, .items = value_items(j, iterable), .index0 = -1, .depth = depth};
    l->length = n->c == NULL ? (int64_t)l->items->n : -1;
    while (advance(j, l)) {
        struct scope *body = scope_enter(j, n->frame, s);
        body->slot[0] = (struct value){.type = VALUE_LOOP, .loop = l};
        jinja_assign(j, n->a, l->current, body);
        if (jinja_exec(j, &n->list, body) == FLOW_BREAK)
            break;
    }
    return l->index0 >= 0;
}

struct value loop_call(struct jinja *j, struct loop *l, const struct arguments *arguments)
{
    if (!l->node->flag)
        jinja_fail(j, "the loop is called, but not marked 'recursive'");
    if (arguments->n != 1 || arguments->n_keyword != 0)
        jinja_fail(j, "loop() takes one argument");
    struct text_buffer *before = j->out;
    j->out = text_begin(j);
    jinja_enter(j);
    if (!loop_run(j, l->node, arguments->positional[0], l->scope, l->depth + 1))
        jinja_exec(j, &l->node->other, scope_enter(j, l->node->else_frame, l->scope));
    jinja_leave(j);
    const struct text *t = text_end(j, j->out);
    j->out = before;
    return value_text(t);
}

/* With a condition, the number of items is known only once all of them were looked at. */
static int64_t length(struct jinja *j, struct loop *l)
{
    if (l->length >= 0)
        return l->length;
    struct list *rest = list_make(j, 0);
    struct value v;
    while ((v = peek(j, l)).type != VALUE_MISSING) {
        list_add(j, rest, v);
        l->following = NO_VALUE;
    }
    l->length = l->index0 + 1 + (int64_t)rest->n;
    struct node *unconditional = jinja_alloc(j, sizeof *unconditional);
    *unconditional = *l->node;
    unconditional->c = NULL;
    l->node = unconditional;
    l->items = rest;
    l->next = 0;
    return l->length;
}

const struct text *loop_repr(struct jinja *j, const struct loop *l)
{
    return text_printf(j, "<LoopContext %" PRId64 "/%" PRId64 ">", l->index0 + 1, l->length);
}

static struct value loop_cycle(struct jinja *j, const struct call *c)
{
    if (c->arguments->n == 0)
        jinja_fail(j, "no items for cycling given");
    return c->arguments->positional[(uint64_t)c->self.loop->index0 % c->arguments->n];
}

static struct value loop_changed(struct jinja *j, const struct call *c)
{
    struct list *l = list_make(j, c->arguments->n);
    for (size_t i = 0; i < c->arguments->n; i++)
        list_add(j, l, c->arguments->positional[i]);
    const struct value now = value_list(VALUE_TUPLE, l);
    if (c->self.loop->changed.type != VALUE_MISSING && value_equal(j, now, c->self.loop->changed))
        return value_bool(false);
    c->self.loop->changed = now;
    return value_bool(true);
}

static const struct builtin loop_methods[] = {
    {"cycle", loop_cycle, NULL},
    {"changed", loop_changed, NULL},
    {NULL, NULL, NULL},
};

static struct value index_of(struct jinja *j, struct loop *l) { return (void)j, value_int(l->index0 + 1); }
static struct value index0_of(struct jinja *j, struct loop *l) { return (void)j, value_int(l->index0); }
static struct value revindex_of(struct jinja *j, struct loop *l) { return value_int(length(j, l) - l->index0); }
static struct value revindex0_of(struct jinja *j, struct loop *l) { return value_int(length(j, l) - l->index0 - 1); }
static struct value first_of(struct jinja *j, struct loop *l) { return (void)j, value_bool(l->index0 == 0); }
static struct value last_of(struct jinja *j, struct loop *l) { return value_bool(peek(j, l).type == VALUE_MISSING); }
static struct value length_of(struct jinja *j, struct loop *l) { return value_int(length(j, l)); }
static struct value depth_of(struct jinja *j, struct loop *l) { return (void)j, value_int(l->depth); }
static struct value depth0_of(struct jinja *j, struct loop *l) { return (void)j, value_int(l->depth - 1); }

static struct value item_of(struct jinja *j, struct value v, const char *what)
{
    return v.type == VALUE_MISSING ? value_undefined(UNDEFINED_ELEMENT, text_literal(j, what)) : v;
}
static struct value previtem_of(struct jinja *j, struct loop *l) { return item_of(j, l->previous, "previous item"); }
static struct value nextitem_of(struct jinja *j, struct loop *l) { return item_of(j, peek(j, l), "next item"); }

static const struct {
    const char *name;
    struct value (*get)(struct jinja *j, struct loop *l);
} loop_attributes[] = {
    {"index", index_of},   {"index0", index0_of},     {"revindex", revindex_of}, {"revindex0", revindex0_of},
    {"first", first_of},   {"last", last_of},         {"length", length_of},     {"depth", depth_of},
    {"depth0", depth0_of}, {"previtem", previtem_of}, {"nextitem", nextitem_of},
};

struct value loop_attribute(struct jinja *j, struct loop *l, const struct text *name)
{
    for (size_t i = 0; i < sizeof loop_attributes / sizeof *loop_attributes; i++) {
        if (text_is(name, loop_attributes[i].name))
            return loop_attributes[i].get(j, l);
    }
    const struct builtin *b = builtin_find(loop_methods, name);
    if (b == NULL)
        return value_undefined(UNDEFINED_ATTRIBUTE, name);
    struct function *f = jinja_alloc(j, sizeof *f);
    *f = (struct function){.builtin = b, .self = {.type = VALUE_LOOP, .loop = l}};
    return (struct value){.type = VALUE_FUNCTION, .function = f};
}
