/* jinja_global.c: the functions that every template finds. */
#include <string.h>
#include <time.h>

#include "text/jinja_builtin.h"

enum {
    MAX_RANGE = 100000,
    MAX_TIME = 4096 /* bytes of a formatted time */
};

static struct value global_range(struct jinja *j, const struct call *c)
{
    struct range *r = jinja_alloc(j, sizeof *r);
    const bool one = c->arg[1].type == VALUE_MISSING;
    r->start = one ? 0 : call_int(j, c->arg[0], "range(): start", 0);
    r->stop = call_int(j, c->arg[one ? 0 : 1], "range(): stop", 0);
    r->step = call_int(j, c->arg[2], "range(): step", 1);
    if (r->step == 0)
        jinja_fail(j, "range(): the step is 0");
    const uint64_t distance = r->step > 0 ? (uint64_t)r->stop - (uint64_t)r->start : (uint64_t)r->start - (uint64_t)r->stop;
    const uint64_t step = r->step > 0 ? (uint64_t)r->step : 0 - (uint64_t)r->step;
    const bool empty = r->step > 0 ? r->stop <= r->start : r->stop >= r->start;
    r->n = empty ? 0 : (distance - 1) / step + 1;
    if (r->n > MAX_RANGE)
        jinja_fail(j, "range(): more than %d numbers", MAX_RANGE);
    return (struct value){.type = VALUE_RANGE, .range = r};
}

static void add_pairs(struct jinja *j, struct dict *d, struct value v)
{
    if (v.type == VALUE_DICT) {
        for (size_t i = 0; i < v.dict->n; i++)
            dict_set(j, d, v.dict->pair[i].key, v.dict->pair[i].value);
        return;
    }
    const struct list *pairs = value_items(j, v);
    for (size_t i = 0; i < pairs->n; i++) {
        const struct list *pair = value_items(j, pairs->item[i]);
        if (pair->n != 2)
            jinja_fail(j, "dict(): expected pairs");
        dict_set(j, d, pair->item[0], pair->item[1]);
    }
}

static struct dict *make_dict(struct jinja *j, const struct arguments *a)
{
    struct dict *d = dict_make(j);
    if (a->n > 1)
        jinja_fail(j, "dict() takes at most one positional argument");
    if (a->n == 1)
        add_pairs(j, d, a->positional[0]);
    for (size_t i = 0; i < a->n_keyword; i++)
        dict_set(j, d, value_text(a->keyword[i].name), a->keyword[i].value);
    return d;
}

static struct value global_dict(struct jinja *j, const struct call *c) { return value_dict(make_dict(j, c->arguments)); }

static struct value global_namespace(struct jinja *j, const struct call *c)
{
    struct dict *d = make_dict(j, c->arguments);
    for (size_t i = 0; i < d->n; i++) {
        if (d->pair[i].key.type == VALUE_TEXT && d->pair[i].key.text->n > 0 && d->pair[i].key.text->s[0] == '_')
            jinja_fail(j, "the attributes of a namespace cannot begin with '_'");
    }
    return (struct value){.type = VALUE_NAMESPACE, .dict = d};
}

static struct cycler *make_cycler(struct jinja *j, struct value *items, size_t n)
{
    struct cycler *cycler = jinja_alloc(j, sizeof *cycler);
    struct list *l = list_make(j, n);
    for (size_t i = 0; i < n; i++)
        list_add(j, l, items[i]);
    *cycler = (struct cycler){.items = l};
    return cycler;
}

static struct value global_cycler(struct jinja *j, const struct call *c)
{
    if (c->arguments->n == 0)
        jinja_fail(j, "cycler(): at least one item is needed");
    return (struct value){.type = VALUE_CYCLER, .cycler = make_cycler(j, c->arguments->positional, c->arguments->n)};
}

static struct value global_joiner(struct jinja *j, const struct call *c)
{
    struct value separator = c->arg[0].type == VALUE_MISSING ? value_literal(j, ", ") : c->arg[0];
    return (struct value){.type = VALUE_JOINER, .cycler = make_cycler(j, &separator, 1)};
}

static struct value global_raise_exception(struct jinja *j, const struct call *c)
{
    const struct text *message = value_str(j, c->arg[0]);
    jinja_raise(j, message->s, message->n);
}

/* The format for strftime(3): a time without a zone prints nothing for %z and %Z, and %f is its microseconds. */
static const struct text *plain_format(struct jinja *j, const struct text *t)
{
    struct text_buffer *b = text_begin(j);
    for (size_t i = 0; i < t->n; i++) {
        const bool percent = t->s[i] == '%' && i + 1 < t->n;
        const char letter = percent ? t->s[i + 1] : '\0';
        if (letter == 'f')
            text_puts(j, b, "000000");
        else if (letter != 'z' && letter != 'Z')
            text_add(j, b, t->s + i, percent ? 2 : 1, FROM_TEMPLATE);
        i += percent;
    }
    text_add(j, b, "", 1, FROM_TEMPLATE);
    return text_end(j, b);
}

static struct value global_strftime_now(struct jinja *j, const struct call *c)
{
    char *out = jinja_alloc(j, MAX_TIME);
    const struct text *t = call_text(j, c->arg[0], "strftime_now(): the format");
    const struct text *format = plain_format(j, t);
    const time_t now = (time_t)j->now;
    struct tm local;
    if (memchr(t->s, '\0', t->n) != NULL || localtime_r(&now, &local) == NULL)
        jinja_fail(j, "strftime_now(): the format holds a NUL, or the time is out of range");
    const size_t n = strftime(out, MAX_TIME, format->s, &local);
    if (n == 0 && format->n > MAX_TIME / 8)
        jinja_fail(j, "strftime_now(): the result is too long");
    return value_text(text_make(j, out, n, text_origin_all(t)));
}

static const struct builtin globals[] = {
    {"cycler", global_cycler, NULL},
    {"dict", global_dict, NULL},
    {"joiner", global_joiner, "sep?"},
    {"namespace", global_namespace, NULL},
    {"raise_exception", global_raise_exception, "message"},
    {"range", global_range, "_ _? _?"},
    {"strftime_now", global_strftime_now, "format"},
    {NULL, NULL, NULL},
};

const struct builtin *builtin_global(const struct text *name) { return builtin_find(globals, name); }
