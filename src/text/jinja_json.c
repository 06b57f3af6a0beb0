/* jinja_json.c: values from JSON, and to JSON as Python's json.dumps writes it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_builtin.h"
#include "text/jinja_value.h"

static struct value from_object(struct jinja *j, const json_t *json, enum origin from)
{
    struct dict *d = dict_make(j);
    const char *key;
    size_t n;
    json_t *v;
    /* The iterator takes no const object, and changes nothing. */
    json_object_keylen_foreach((json_t *)(uintptr_t)json, key, n, v)
    {
        dict_set(j, d, value_text(text_make(j, key, n, from)), value_from_json(j, v, from));
    }
    return value_dict(d);
}

static struct value from_array(struct jinja *j, const json_t *json, enum origin from)
{
    const size_t n = json_array_size(json);
    struct list *l = list_make(j, n);
    for (size_t i = 0; i < n; i++)
        list_add(j, l, value_from_json(j, json_array_get(json, i), from));
    return value_list(VALUE_LIST, l);
}

struct value value_from_json(struct jinja *j, const json_t *json, enum origin from)
{
    struct value v = value_none();
    jinja_enter(j);
    jinja_work(j, 1);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        v = from_object(j, json, from);
        break;
    case JSON_ARRAY:
        v = from_array(j, json, from);
        break;
    case JSON_STRING:
        v = value_text(text_make(j, json_string_value(json), json_string_length(json), from));
        break;
    case JSON_INTEGER:
        v = value_int(json_integer_value(json));
        break;
    case JSON_REAL:
        v = value_float(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        v = value_bool(json_is_true(json));
        break;
    case JSON_NULL:
        break;
    }
    jinja_leave(j);
    return v;
}

struct writer {
    struct jinja *j;
    struct text_buffer *b;
    const struct json_style *style;
    int level;
};

static void write_escape(const struct writer *w, uint32_t code)
{
    static const char letter[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
    char s[16];
    if (code < sizeof letter && letter[code] != 0)
        snprintf(s, sizeof s, "\\%c", letter[code]);
    else if (code < 0x10000)
        snprintf(s, sizeof s, "\\u%04x", (unsigned)code);
    else
        snprintf(s, sizeof s, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                 (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
    text_puts(w->j, w->b, s);
}

static void write_text(const struct writer *w, const struct text *t)
{
    text_puts(w->j, w->b, "\"");
    size_t done = 0;
    for (size_t at = 0, n; at < t->n; at += n) {
        const uint32_t code = text_code(t, at, &n);
        if (code >= 0x20 && code != '"' && code != '\\' && (code < 0x7f || !w->style->ascii))
            continue;
        text_add_text(w->j, w->b, text_slice(w->j, t, done, at));
        write_escape(w, code);
        done = at + n;
    }
    text_add_text(w->j, w->b, text_slice(w->j, t, done, t->n));
    text_puts(w->j, w->b, "\"");
}

static void write_real(const struct writer *w, double d)
{
    char s[32];
    text_puts(w->j, w->b, isnan(d) ? "NaN" : isinf(d) ? (d > 0 ? "Infinity" : "-Infinity") : real_repr(s, d));
}

static void write_line_start(const struct writer *w)
{
    if (w->style->indent == NULL)
        return;
    text_puts(w->j, w->b, "\n");
    text_add_repeated(w->j, w->b, w->style->indent, (size_t)w->level);
}

static void write_value(struct writer *w, struct value v);

static void write_list(struct writer *w, const struct list *l)
{
    text_puts(w->j, w->b, "[");
    w->level++;
    for (size_t i = 0; i < l->n; i++) {
        if (i > 0)
            text_add_text(w->j, w->b, w->style->item_separator);
        write_line_start(w);
        write_value(w, l->item[i]);
    }
    w->level--;
    if (l->n > 0)
        write_line_start(w);
    text_puts(w->j, w->b, "]");
}

static void write_key(struct writer *w, struct value key)
{
    if (key.type == VALUE_TEXT) {
        write_text(w, key.text);
        return;
    }
    if (!value_is_number(key) && key.type != VALUE_NONE)
        jinja_fail(w->j, "tojson: the key of a dict is a %s", value_type_name(key));
    text_puts(w->j, w->b, "\"");
    write_value(w, key);
    text_puts(w->j, w->b, "\"");
}

static int by_key(struct jinja *j, const void *context, struct value a, struct value b)
{
    (void)context;
    return value_compare(j, a.list->item[0], b.list->item[0]);
}

static const struct dict *sorted_dict(struct jinja *j, const struct dict *d)
{
    struct list *items = list_make(j, d->n);
    for (size_t i = 0; i < d->n; i++)
        list_add(j, items, value_pair(j, d->pair[i].key, d->pair[i].value));
    list_sort(j, items, by_key, NULL, false);
    struct dict *sorted = dict_make(j);
    for (size_t i = 0; i < d->n; i++)
        dict_set(j, sorted, items->item[i].list->item[0], items->item[i].list->item[1]);
    return sorted;
}

static void write_dict(struct writer *w, const struct dict *unsorted)
{
    const struct dict *d = w->style->sort_keys ? sorted_dict(w->j, unsorted) : unsorted;
    text_puts(w->j, w->b, "{");
    w->level++;
    for (size_t i = 0; i < d->n; i++) {
        if (i > 0)
            text_add_text(w->j, w->b, w->style->item_separator);
        write_line_start(w);
        write_key(w, d->pair[i].key);
        text_add_text(w->j, w->b, w->style->key_separator);
        write_value(w, d->pair[i].value);
    }
    w->level--;
    if (d->n > 0)
        write_line_start(w);
    text_puts(w->j, w->b, "}");
}

static void write_value(struct writer *w, struct value v)
{
    jinja_enter(w->j);
    jinja_work(w->j, 1);
    switch (v.type) {
    case VALUE_NONE:
        text_puts(w->j, w->b, "null");
        break;
    case VALUE_BOOL:
        text_puts(w->j, w->b, v.boolean ? "true" : "false");
        break;
    case VALUE_INT:
        text_add_text(w->j, w->b, value_str(w->j, v));
        break;
    case VALUE_FLOAT:
        write_real(w, v.real);
        break;
    case VALUE_TEXT:
        write_text(w, v.text);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        write_list(w, v.list);
        break;
    case VALUE_DICT:
        write_dict(w, v.dict);
        break;
    default:
        jinja_fail(w->j, "tojson: a %s has no JSON", value_type_name(v));
    }
    jinja_leave(w->j);
}

const struct text *value_to_json(struct jinja *j, struct value v, const struct json_style *style)
{
    struct writer w = {.j = j, .b = text_begin(j), .style = style};
    write_value(&w, v);
    const struct text *t = text_end(j, w.b);
    return text_make(j, t->s, t->n, text_origin_all(t));
}
