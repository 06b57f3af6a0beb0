/* schema_document.c: JSON pointers: where a schema stands, and what a reference means. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "sample/schema.h"

enum {
    POINTER_MAX = 240 /* bytes shown of a JSON pointer */
};

/* A value of the document, what it stands in, and under which name. */
struct schema_place {
    json_t *value, *parent;
    const char *key; /* NULL: index */
    size_t index;
};

static size_t place_slot(const struct schema *s, json_t *value)
{
    size_t i = (size_t)(((uintptr_t)value >> 4) * 0x9e3779b97f4a7c15u >> 20) & (s->n_place_slot - 1);
    while (s->place[i].value != NULL && s->place[i].value != value)
        i = (i + 1) & (s->n_place_slot - 1);
    return i;
}

static bool add_place(struct schema *s, struct schema_place place)
{
    if (2 * s->n_place >= s->n_place_slot) {
        struct schema_place *old = s->place;
        const size_t n_old = s->n_place_slot;
        s->n_place_slot = n_old > 0 ? 2 * n_old : 64;
        s->place = mem_zero_array(s->n_place_slot, sizeof *s->place);
        for (size_t i = 0; s->place != NULL && i < n_old; i++)
            if (old[i].value != NULL)
                s->place[place_slot(s, old[i].value)] = old[i];
        free(old);
        if (s->place == NULL)
            return false;
    }
    const size_t i = place_slot(s, place.value);
    s->n_place += s->place[i].value == NULL;
    s->place[i] = place;
    return true;
}

/* jansson bounds the depth of what it reads (2048), and with it this recursion. */
static bool index_value(struct schema *s, json_t *value)
{
    const char *key;
    json_t *child;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach(value, key, child) if ((json_is_object(child) || json_is_array(child)) &&
                                                   (!add_place(s, (struct schema_place){child, value, key, 0}) ||
                                                    !index_value(s, child))) return false;
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, child) if ((json_is_object(child) || json_is_array(child)) &&
                                                (!add_place(s, (struct schema_place){child, value, NULL, i}) ||
                                                 !index_value(s, child))) return false;
    }
    return true;
}

enum mr_status schema_index(struct schema *s)
{
    return add_place(s, (struct schema_place){.value = s->root}) && index_value(s, s->root) ? MR_OK : schema_no_memory(s);
}

void schema_index_release(struct schema *s) { free(s->place); }

enum mr_status schema_no_memory(const struct schema *s) { return mr_fail(s->err, MR_NO_MEMORY, "no memory for a JSON schema"); }

/* Put text in front of what is in buffer[*at ..]; what does not fit is left out. */
static void put_before(char *buffer, size_t *at, const char *text, size_t n)
{
    while (n > 0 && *at > 0)
        buffer[--*at] = text[--n];
}

void schema_pointer(const struct schema *s, json_t *schema, char *buffer, size_t size)
{
    char text[POINTER_MAX];
    size_t at = sizeof text;
    while (schema != s->root) {
        const struct schema_place *place = &s->place[place_slot(s, schema)];
        if (place->value == NULL)
            break;
        char index[24];
        const char *name = place->key != NULL ? place->key : index;
        snprintf(index, sizeof index, "%zu", place->index);
        for (size_t n = strlen(name); n-- > 0;) {
            const char *escaped = name[n] == '~' ? "~0" : name[n] == '/' ? "~1" : NULL;
            put_before(text, &at, escaped != NULL ? escaped : name + n, escaped != NULL ? 2 : 1);
        }
        put_before(text, &at, "/", 1);
        schema = place->parent;
    }
    snprintf(buffer, size, "#%.*s", (int)(sizeof text - at), text + at);
}

enum mr_status schema_fail(const struct schema *s, enum mr_status status, json_t *schema, const char *keyword, const char *fmt,
                           ...)
{
    char pointer[POINTER_MAX + 2], problem[MR_ERROR_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(problem, sizeof problem, fmt, args);
    va_end(args);
    schema_pointer(s, schema, pointer, sizeof pointer);
    if (keyword == NULL)
        return mr_fail(s->err, status, "schema %s: %s", pointer, problem);
    return mr_fail(s->err, status, "schema %s: keyword '%.80s': %s", pointer, keyword, problem);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One step of the pointer at *at, decoded (RFC 6901, sections 3 and 6). */
static bool read_step(const char **at, struct string_buffer *step)
{
    string_buffer_clear(step);
    for (const char *p = *at;; p++) {
        char c = *p;
        if (c == '\0' || c == '/') {
            *at = p;
            return !step->failed;
        }
        if (c == '%') {
            if (hex_value(p[1]) < 0 || hex_value(p[2]) < 0)
                return false;
            c = (char)(hex_value(p[1]) << 4 | hex_value(p[2]));
            p += 2;
        }
        if (c == '~') {
            if (p[1] != '0' && p[1] != '1')
                return false;
            c = *++p == '0' ? '~' : '/';
        }
        string_buffer_add(step, &c, 1);
    }
}

static json_t *step_into(json_t *value, const struct string_buffer *step)
{
    if (json_is_object(value))
        return json_object_getn(value, step->s != NULL ? step->s : "", step->n);
    char *end;
    if (!json_is_array(value) || step->n == 0 || step->n > 9 || step->s[0] < '0' || step->s[0] > '9')
        return NULL;
    const unsigned long index = strtoul(step->s, &end, 10);
    return *end == '\0' ? json_array_get(value, index) : NULL;
}

enum mr_status schema_resolve(const struct schema *s, json_t *schema, const char *reference, json_t **target)
{
    *target = s->root;
    if (reference[0] != '#')
        return schema_fail(s, MR_NO_SUPPORT, schema, "$ref", "'%.100s' is outside of this document", reference);
    if (reference[1] != '\0' && reference[1] != '/')
        return schema_fail(s, MR_NO_SUPPORT, schema, "$ref", "'%.100s' is not a JSON pointer", reference);
    struct string_buffer step;
    string_buffer_init(&step);
    bool ok = true;
    for (const char *at = reference + 1; ok && *at == '/';) {
        at++;
        ok = read_step(&at, &step) && (*target = step_into(*target, &step)) != NULL;
    }
    const bool failed = step.failed;
    string_buffer_release(&step);
    if (failed)
        return schema_no_memory(s);
    return ok ? MR_OK : schema_fail(s, MR_BAD_INPUT, schema, "$ref", "'%.100s' leads nowhere", reference);
}
