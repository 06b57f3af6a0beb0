/* constraint_fields.c: what an answer must obey, by the names of four APIs. */
#include <stdlib.h>
#include <string.h>

#include "server/api/json_text.h"
#include "server/api/sampling_fields.h"

/* A copy in the arena; releases b. */
static void keep(const struct json_fields *f, struct string_buffer *b, struct arena *arena, const char **out)
{
    char *s = b->failed ? NULL : arena_alloc(arena, b->n + 1);
    if (s != NULL) {
        memcpy(s, b->s, b->n + 1);
        *out = s;
    } else {
        api_error_at(f->error, 503, "", "no memory for the request");
    }
    string_buffer_release(b);
}

void constraint_set_schema(const struct json_fields *f, const char *name, const json_t *schema, struct arena *arena,
                           struct mr_request *r)
{
    struct string_buffer b;
    if (schema == NULL) {
        json_fields_fail(f, name, "is missing");
    } else if (!json_is_object(schema) && !json_is_boolean(schema)) {
        json_fields_fail(f, name, "must be a JSON schema");
    } else {
        string_buffer_init(&b);
        json_text_value(&b, json_incref((json_t *)(uintptr_t)schema));
        keep(f, &b, arena, &r->constraint_text);
        r->constraint = MR_CONSTRAINT_JSON_SCHEMA;
    }
}

/* {"type": "json_schema", "json_schema": {"schema": ...}}; llama-server has {"type": "json_object", "schema": ...}. */
static void read_response_format(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r)
{
    struct json_fields format, inner;
    const char *type = NULL;
    if (!json_fields_object(f, name, name, &format))
        return;
    if (!json_fields_string(&format, "type", &type)) {
        json_fields_fail(&format, "type", "is missing");
    } else if (strcmp(type, "json_schema") == 0) {
        if (json_fields_object(&format, "json_schema", "response_format.json_schema", &inner))
            constraint_set_schema(&inner, "schema", json_object_get(inner.object, "schema"), arena, r);
        else
            json_fields_fail(&format, "json_schema", "is missing; the schema stands in json_schema.schema");
    } else if (strcmp(type, "json_object") == 0) {
        const json_t *schema = json_object_get(format.object, "schema");
        r->constraint = MR_CONSTRAINT_JSON_OBJECT;
        if (schema != NULL && !json_is_null(schema))
            constraint_set_schema(&format, "schema", schema, arena, r);
    } else if (strcmp(type, "text") != 0) {
        json_fields_fail(&format, "type", "must be 'text', 'json_object' or 'json_schema'");
    }
}

static void read_text(const struct json_fields *f, const char *name, enum mr_constraint kind, struct mr_request *r)
{
    if (json_fields_string(f, name, &r->constraint_text))
        r->constraint = kind;
}

static void read_regex(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r)
{
    (void)arena;
    read_text(f, name, MR_CONSTRAINT_REGEX, r);
}

static void read_grammar(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r)
{
    const char *text = NULL;
    (void)arena;
    if (json_fields_string(f, name, &text) && *text == '\0')
        return; /* llama-server's word for none */
    read_text(f, name, MR_CONSTRAINT_GRAMMAR, r);
}

/* A schema, or its text. */
static void read_schema(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r)
{
    const json_t *v = json_object_get(f->object, name);
    if (json_is_string(v))
        read_text(f, name, MR_CONSTRAINT_JSON_SCHEMA, r);
    else
        constraint_set_schema(f, name, v, arena, r);
}

static void read_object(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r)
{
    bool wanted = false;
    (void)arena;
    if (json_fields_bool(f, name, &wanted) && wanted)
        r->constraint = MR_CONSTRAINT_JSON_OBJECT;
}

/* A literal of GBNF. */
static void add_literal(struct string_buffer *b, const char *s, size_t n)
{
    string_buffer_puts(b, "\"");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            string_buffer_printf(b, "\\x%02x", c);
        else
            string_buffer_add(b, s + i, 1);
    }
    string_buffer_puts(b, "\"");
}

/* A list of texts: a grammar that has each. */
static void read_choice(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r)
{
    const json_t *list;
    struct string_buffer b;
    if (!json_fields_array(f, name, &list))
        return;
    string_buffer_init(&b);
    string_buffer_puts(&b, "root ::= ");
    if (json_array_size(list) == 0)
        json_fields_fail(f, name, "must have at least one choice");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        if (!json_is_string(text) || json_string_length(text) == 0)
            json_fields_fail(f, name, "[%zu] must be a string that is not empty", i);
        else
            add_literal(&b, json_string_value(text), json_string_length(text));
        string_buffer_puts(&b, i + 1 < json_array_size(list) ? " | " : "\n");
    }
    r->constraint = MR_CONSTRAINT_GRAMMAR;
    keep(f, &b, arena, &r->constraint_text);
}

typedef void read_fn(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r);

struct row {
    const char *name;
    read_fn *read;
};

/* Read the one row whose member is there. Its name, or NULL. */
static const char *read_one(const struct json_fields *f, const struct row *row, size_t n, struct arena *arena,
                            struct mr_request *r)
{
    const char *found = NULL;
    for (size_t i = 0; i < n && !json_fields_failed(f); i++) {
        if (json_fields_get(f, row[i].name) == NULL)
            continue;
        const enum mr_constraint before = r->constraint;
        r->constraint = MR_CONSTRAINT_NONE;
        row[i].read(f, row[i].name, arena, r);
        if (r->constraint == MR_CONSTRAINT_NONE)
            r->constraint = before;
        else if (found != NULL)
            json_fields_fail(f, row[i].name, "and %s exclude each other: an answer obeys one of them", found);
        else
            found = row[i].name;
    }
    return found;
}

static void read_structured(const struct json_fields *f, const char *name, struct arena *arena, struct mr_request *r)
{
    static const struct row rows[] = {{"json", read_schema},
                                      {"regex", read_regex},
                                      {"choice", read_choice},
                                      {"grammar", read_grammar},
                                      {"json_object", read_object}};
    struct json_fields inner;
    if (!json_fields_object(f, name, name, &inner))
        return;
    if (read_one(&inner, rows, sizeof rows / sizeof *rows, arena, r) == NULL)
        json_fields_fail(f, name, "must have one of json, regex, choice, grammar and json_object");
}

void constraint_fields_read(const struct json_fields *f, struct arena *arena, struct mr_request *r, const char **name)
{
    static const struct row rows[] = {{"response_format", read_response_format},
                                      {"structured_outputs", read_structured},
                                      {"guided_json", read_schema},
                                      {"guided_regex", read_regex},
                                      {"guided_choice", read_choice},
                                      {"guided_grammar", read_grammar},
                                      {"grammar", read_grammar},
                                      {"json_schema", read_schema}};
    *name = read_one(f, rows, sizeof rows / sizeof *rows, arena, r);
}
