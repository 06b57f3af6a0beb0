/* jinja_scope.c: where the names of a template live.
 * As in jinja2, a loop's body, a macro, and the body of call, filter, set, with and generation blocks are scopes of
 * their own; `if` is none. A scope that sets a name of an outer one starts with a copy of it. Whether a name that is not
 * set yet is looked up among the render's variables depends on what the scope does with it first: reading looks it up,
 * setting it (outside of an `if`) does not. */
#include <string.h>

#include "text/jinja_builtin.h"
#include "text/jinja_syntax.h"

struct place {
    struct frame *frame;
    int hops, slot;
};

static int find_own(const struct frame *f, const struct text *name)
{
    for (size_t i = 0; i < f->n; i++) {
        if (text_equal(f->slot[i].name, name))
            return (int)i;
    }
    return -1;
}

static bool find(struct frame *f, const struct text *name, struct place *p)
{
    for (int hops = 0; f != NULL; hops++, f = f->parent) {
        const int slot = find_own(f, name);
        if (slot >= 0) {
            *p = (struct place){f, hops, slot};
            return true;
        }
    }
    return false;
}

static struct slot *add_slot(struct jinja *j, struct frame *f, const struct text *name, enum slot_source source)
{
    jinja_work(j, 1);
    if (f->n == f->capacity) {
        f->capacity = 2 * f->capacity + 8;
        struct slot *slot = jinja_alloc_array(j, f->capacity, sizeof *slot);
        if (f->n > 0)
            memcpy(slot, f->slot, f->n * sizeof *slot);
        f->slot = slot;
    }
    struct slot *s = &f->slot[f->n++];
    *s = (struct slot){.name = name, .source = source};
    return s;
}

static void give(struct jinja *j, struct frame *f, const struct text *name)
{
    if (find_own(f, name) < 0)
        add_slot(j, f, name, SLOT_GIVEN);
}

static void load(struct jinja *j, struct frame *f, const struct text *name)
{
    struct place p;
    jinja_work(j, f->n / 8);
    if (!find(f, name, &p))
        add_slot(j, f, name, SLOT_CONTEXT);
}

static void store(struct jinja *j, struct frame *f, const struct text *name, bool conditional)
{
    struct place p;
    jinja_work(j, f->n / 8);
    if (find_own(f, name) >= 0)
        return;
    if (f->parent != NULL && find(f->parent, name, &p)) {
        struct slot *s = add_slot(j, f, name, SLOT_OUTER);
        s->outer_hops = p.hops + 1;
        s->outer_slot = p.slot;
        return;
    }
    add_slot(j, f, name, conditional ? SLOT_CONTEXT : SLOT_UNSET);
}

/* The names that a statement or expression uses in its own scope, in the order of jinja2's analysis. */
static void collect(struct jinja *j, struct frame *f, const struct node *n, bool conditional);

static void collect_list(struct jinja *j, struct frame *f, const struct node_list *list, bool conditional)
{
    for (size_t i = 0; i < list->n; i++)
        collect(j, f, list->item[i], conditional);
}

static void collect_target(struct jinja *j, struct frame *f, const struct node *n, bool conditional)
{
    if (n->kind == NODE_NAME)
        store(j, f, n->name, conditional);
    else if (n->kind == NODE_MEMBER)
        load(j, f, n->a->name);
    for (size_t i = 0; n->kind == NODE_TUPLE && i < n->list.n; i++)
        collect_target(j, f, n->list.item[i], conditional);
}

static void collect(struct jinja *j, struct frame *f, const struct node *n, bool conditional)
{
    if (n == NULL)
        return;
    switch (n->kind) {
    case NODE_NAME:
        load(j, f, n->name);
        break;
    case NODE_SET:
        collect(j, f, n->b, conditional);
        collect_target(j, f, n->a, conditional);
        break;
    case NODE_SET_BLOCK:
        collect_target(j, f, n->a, conditional);
        break;
    case NODE_FOR:
    case NODE_FILTER_BLOCK:
        collect(j, f, n->b, conditional);
        break;
    case NODE_MACRO:
        store(j, f, n->name, conditional);
        break;
    case NODE_CALL_BLOCK:
        collect(j, f, n->a, conditional);
        break;
    case NODE_WITH:
        for (size_t i = 1; i < n->other.n; i += 2)
            collect(j, f, n->other.item[i], conditional);
        break;
    case NODE_GENERATION:
        break;
    default:
        conditional = conditional || n->kind == NODE_IF;
        collect(j, f, n->a, conditional);
        collect(j, f, n->b, conditional);
        collect(j, f, n->c, conditional);
        collect_list(j, f, &n->list, conditional);
    }
}

struct resolver {
    struct jinja *j;
    struct frame *frame;
    bool soft; /* in an `if`: unknown filters fail when they are used */
};

static void resolve(const struct resolver *r, struct node *n);

static void resolve_list(const struct resolver *r, struct node_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        resolve(r, list->item[i]);
}

/* Note that a macro's body reads one of the names that are bound by themselves. */
static void note_special(struct frame *f, const struct text *name)
{
    f->uses_caller = f->uses_caller || text_is(name, "caller");
    f->uses_varargs = f->uses_varargs || text_is(name, "varargs");
    f->uses_kwargs = f->uses_kwargs || text_is(name, "kwargs");
}

static void place(const struct resolver *r, struct node *n)
{
    struct place p = {.frame = r->frame};
    load(r->j, r->frame, n->name);
    find(r->frame, n->name, &p);
    n->hops = p.hops;
    n->slot = p.slot;
    if (p.frame->slot[p.slot].source == SLOT_GIVEN)
        note_special(p.frame, n->name);
}

static void place_target(const struct resolver *r, struct node *n)
{
    if (n->kind == NODE_NAME) {
        n->hops = 0;
        n->slot = find_own(r->frame, n->name);
    } else if (n->kind == NODE_MEMBER) {
        place(r, n->a);
    }
    for (size_t i = 0; n->kind == NODE_TUPLE && i < n->list.n; i++)
        place_target(r, n->list.item[i]);
}

static void give_target(struct jinja *j, struct frame *f, const struct node *n)
{
    if (n->kind == NODE_NAME)
        give(j, f, n->name);
    for (size_t i = 0; n->kind == NODE_TUPLE && i < n->list.n; i++)
        give_target(j, f, n->list.item[i]);
}

static struct frame *inner_frame(const struct resolver *r)
{
    struct frame *f = jinja_alloc(r->j, sizeof *f);
    *f = (struct frame){.parent = r->frame};
    return f;
}

static struct frame *resolve_body(const struct resolver *r, struct frame *f, struct node_list *body)
{
    const struct resolver inner = {.j = r->j, .frame = f};
    collect_list(r->j, f, body, false);
    resolve_list(&inner, body);
    return f;
}

static void resolve_for(const struct resolver *r, struct node *n)
{
    resolve(r, n->b);
    if (n->c != NULL) {
        const struct resolver condition = {.j = r->j, .frame = inner_frame(r)};
        n->if_frame = condition.frame;
        give(r->j, n->if_frame, text_literal(r->j, "")); /* no name: the slots shall be those of the body */
        give_target(r->j, n->if_frame, n->a);
        resolve(&condition, n->c);
    }
    n->frame = inner_frame(r);
    give(r->j, n->frame, text_literal(r->j, "loop")); /* slot 0 */
    give_target(r->j, n->frame, n->a);
    const struct resolver body = {.j = r->j, .frame = n->frame};
    place_target(&body, n->a);
    resolve_body(r, n->frame, &n->list);
    n->else_frame = resolve_body(r, inner_frame(r), &n->other);
}

static void resolve_macro(const struct resolver *r, struct node *n)
{
    static const char *const special[] = {"caller", "varargs", "kwargs"};
    struct frame *f = n->frame = inner_frame(r);
    const struct resolver inner = {.j = r->j, .frame = f};
    for (size_t i = 0; i < n->other.n; i++) {
        if (find_own(f, n->other.item[i]->name) >= 0)
            jinja_fail(r->j, "a macro has two parameters of one name");
        give(r->j, f, n->other.item[i]->name);
    }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        give(r->j, f, text_literal(r->j, special[i]));
    for (size_t i = 0; i < n->other.n; i++) {
        if (n->other.item[i]->a != NULL)
            resolve(&inner, n->other.item[i]->a);
    }
    resolve_body(r, f, &n->list);
}

static void resolve_with(const struct resolver *r, struct node *n)
{
    n->frame = inner_frame(r);
    const struct resolver inner = {.j = r->j, .frame = n->frame};
    for (size_t i = 0; i < n->other.n; i += 2) {
        resolve(r, n->other.item[i + 1]);
        give_target(r->j, n->frame, n->other.item[i]);
    }
    for (size_t i = 0; i < n->other.n; i += 2)
        place_target(&inner, n->other.item[i]);
    resolve_body(r, n->frame, &n->list);
}

static void resolve_block(const struct resolver *r, struct node *n)
{
    n->frame = resolve_body(r, inner_frame(r), &n->list);
    if (n->b != NULL) {
        const struct resolver inner = {.j = r->j, .frame = n->frame};
        resolve(&inner, n->b);
    }
    if (n->a != NULL)
        place_target(r, n->a);
}

static void resolve_builtin(const struct resolver *r, struct node *n)
{
    n->builtin = n->kind == NODE_FILTER ? builtin_filter(n->name) : builtin_test(n->name);
    n->flag = n->builtin == NULL;
    if (n->builtin == NULL && !r->soft) {
        r->j->line = n->line;
        jinja_fail(r->j, "no %s named '%.*s'", n->kind == NODE_FILTER ? "filter" : "test",
                   (int)(n->name->n < 80 ? n->name->n : 80), n->name->s);
    }
}

static void resolve_children(const struct resolver *r, struct node *n)
{
    struct resolver children = *r;
    children.soft = r->soft || n->kind == NODE_IF || n->kind == NODE_CONDITION;
    resolve(&children, n->a);
    resolve(&children, n->b);
    resolve(&children, n->c);
    resolve_list(&children, &n->list);
}

static void resolve(const struct resolver *r, struct node *n)
{
    if (n == NULL)
        return;
    r->j->line = n->line;
    switch (n->kind) {
    case NODE_NAME:
        place(r, n);
        break;
    case NODE_SET:
        resolve(r, n->b);
        place_target(r, n->a);
        break;
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
    case NODE_GENERATION:
        resolve_block(r, n);
        break;
    case NODE_FOR:
        resolve_for(r, n);
        break;
    case NODE_MACRO:
        resolve_macro(r, n);
        n->slot = find_own(r->frame, n->name);
        break;
    case NODE_CALL_BLOCK:
        resolve(r, n->a);
        resolve_macro(r, n->b);
        break;
    case NODE_WITH:
        resolve_with(r, n);
        break;
    case NODE_FILTER:
    case NODE_TEST:
        resolve_builtin(r, n);
        resolve_children(r, n);
        break;
    default:
        resolve_children(r, n);
    }
}

void jinja_resolve(struct jinja *j, struct program *p)
{
    struct resolver r = {.j = j};
    p->frame = inner_frame(&r);
    r.frame = p->frame;
    resolve_body(&r, p->frame, &p->body);
}
