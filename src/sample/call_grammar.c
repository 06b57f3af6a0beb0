/* call_grammar.c: calls of functions to rules. */
#include "sample/call_grammar.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "sample/regex.h"
#include "text/call_format.h"

enum {
    TOOLS_MAX = 1024,
    NAME_MAX_BYTES = 64
};

struct calls {
    struct grammar_builder *b;
    const struct call_format *format;
    const json_t *tools;
    const char *only; /* this function alone; NULL: all */
    bool parallel, may_answer;
    const struct reasoning_format *reasoning;
    bool begun;
    struct mr_error *err;
};

static bool is_name(const char *s)
{
    const size_t n = s != NULL ? strlen(s) : 0;
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') ||
              strchr("_-.", s[i]) != NULL))
            return false;
    return n >= 1 && n <= NAME_MAX_BYTES;
}

static const json_t *function_of(const json_t *tools, size_t i)
{
    return json_object_get(json_array_get(tools, i), "function");
}

static const char *name_of(const json_t *tools, size_t i)
{
    return json_string_value(json_object_get(function_of(tools, i), "name"));
}

static enum mr_status check_tool(const json_t *tools, size_t i, struct mr_error *err)
{
    const char *type = json_string_value(json_object_get(json_array_get(tools, i), "type")), *name = name_of(tools, i);
    const json_t *parameters = json_object_get(function_of(tools, i), "parameters");
    const json_t *kind = json_object_get(parameters, "type");
    if (type == NULL || strcmp(type, "function") != 0)
        return mr_fail(err, MR_BAD_INPUT, "tools[%zu].type: must be 'function'", i);
    if (!is_name(name))
        return mr_fail(err, MR_BAD_INPUT, "tools[%zu].function.name: must be 1 to %d letters, digits, '_', '-' or '.'", i,
                       NAME_MAX_BYTES);
    for (size_t k = 0; k < i; k++)
        if (strcmp(name_of(tools, k), name) == 0)
            return mr_fail(err, MR_BAD_INPUT, "tools[%zu].function.name: '%s' is there twice", i, name);
    if (parameters != NULL && !json_is_null(parameters) && !json_is_object(parameters))
        return mr_fail(err, MR_BAD_INPUT, "tools[%zu].function.parameters: must be a schema", i);
    if (kind != NULL && (!json_is_string(kind) || strcmp(json_string_value(kind), "object") != 0))
        return mr_fail(err, MR_BAD_INPUT, "tools[%zu].function.parameters.type: must be 'object'", i);
    return MR_OK;
}

static enum mr_status check_list(const json_t *tools, struct mr_error *err)
{
    if (!json_is_array(tools) || json_array_size(tools) == 0 || json_array_size(tools) > TOOLS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "tools: must be a list of 1 to %d functions", TOOLS_MAX);
    for (size_t i = 0; i < json_array_size(tools); i++)
        MR_TRY(check_tool(tools, i, err));
    return MR_OK;
}

enum mr_status calls_check_tools(const char *text, size_t n, struct mr_error *err)
{
    json_error_t why;
    json_t *tools = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (tools == NULL)
        return mr_fail(err, MR_BAD_INPUT, "tools, line %d, column %d: %s", why.line, why.column, why.text);
    const enum mr_status status = check_list(tools, err);
    json_decref(tools);
    return status;
}

/* The rule of one function's arguments. */
static enum mr_status arguments_rule(const struct calls *c, size_t i, uint32_t *rule)
{
    static const char nothing[] = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}";
    json_t *parameters = json_object_get(function_of(c->tools, i), "parameters");
    if (parameters == NULL || json_is_null(parameters) || json_object_size(parameters) == 0)
        return schema_compile(c->b, nothing, sizeof nothing - 1, rule, c->err);
    json_t *schema = json_copy(parameters);
    if (schema != NULL && json_object_get(schema, "type") == NULL)
        json_object_set_new(schema, "type", json_string("object"));
    char *text = schema != NULL ? json_dumps(schema, JSON_COMPACT) : NULL;
    json_decref(schema);
    if (text == NULL)
        return mr_fail(c->err, MR_NO_MEMORY, "no memory for a schema");
    const enum mr_status status = schema_compile(c->b, text, strlen(text), rule, c->err);
    free(text);
    return status == MR_OK ? MR_OK : mr_fail_in(c->err, status, "tools[%zu].function.parameters", i);
}

static uint32_t literal(const struct calls *c, const char *s) { return expr_bytes(c->b, s, strlen(s)); }

/* The body of a call of function i. */
static enum mr_status body(const struct calls *c, size_t i, uint32_t *expr)
{
    const struct call_format *f = c->format;
    struct string_buffer head;
    uint32_t rule = 0;
    MR_TRY(arguments_rule(c, i, &rule));
    string_buffer_init(&head);
    if (f->key != NULL)
        string_buffer_printf(&head, "{\"name\": \"%s\", \"%s\": ", name_of(c->tools, i), f->key);
    else
        string_buffer_printf(&head, "%s%s", name_of(c->tools, i), f->name_close);
    const uint32_t parts[] = {expr_bytes(c->b, head.s != NULL ? head.s : "", head.n), expr_call(c->b, rule),
                              literal(c, f->key != NULL ? "}" : "")};
    const bool failed = head.failed;
    string_buffer_release(&head);
    *expr = expr_sequence(c->b, parts, sizeof parts / sizeof *parts);
    return failed ? mr_fail(c->err, MR_NO_MEMORY, "no memory for the head of a call") : MR_OK;
}

/* The rule of one call, of any function that may be called. */
static enum mr_status call_rule(const struct calls *c, uint32_t *rule)
{
    const size_t n = json_array_size(c->tools);
    uint32_t *choice = mem_array(n, sizeof *choice);
    enum mr_status status = choice != NULL ? MR_OK : mr_fail(c->err, MR_NO_MEMORY, "no memory for %zu functions", n);
    size_t n_choice = 0;
    for (size_t i = 0; i < n && status == MR_OK; i++)
        if (c->only == NULL || strcmp(name_of(c->tools, i), c->only) == 0)
            status = body(c, i, &choice[n_choice++]);
    if (status == MR_OK && n_choice == 0)
        status = mr_fail(c->err, MR_BAD_INPUT, "tool_choice: there is no function '%.80s'", c->only);
    if (status == MR_OK) {
        const uint32_t parts[] = {literal(c, c->format->call_open), expr_choice(c->b, choice, n_choice),
                                  literal(c, c->format->call_close)};
        *rule = grammar_rule(c->b, "call", 4);
        grammar_define(c->b, *rule, expr_sequence(c->b, parts, sizeof parts / sizeof *parts));
    }
    free(choice);
    return status;
}

/* All calls. */
static enum mr_status calls_expr(const struct calls *c, uint32_t *expr)
{
    const struct call_format *f = c->format;
    uint32_t rule = 0;
    MR_TRY(call_rule(c, &rule));
    const uint32_t call = expr_call(c->b, rule), further[] = {literal(c, f->separator), call};
    const uint32_t more =
        c->parallel ? expr_repeat(c->b, expr_sequence(c->b, further, 2), 0, REPEAT_NO_MAX) : (uint32_t)EXPR_EMPTY;
    const uint32_t prefix = f->prefix != NULL ? expr_repeat(c->b, literal(c, f->prefix), 0, 1) : (uint32_t)EXPR_EMPTY;
    const uint32_t parts[] = {prefix, literal(c, f->section_open), call, more, literal(c, f->section_close)};
    *expr = expr_sequence(c->b, parts, sizeof parts / sizeof *parts);
    return MR_OK;
}

/* A pattern: `before`, the marker itself without the blanks around it, `after`. */
static enum mr_status text_dfa(const struct calls *c, const char *before, const char *text, const char *after, struct dfa *out)
{
    struct string_buffer p;
    string_buffer_init(&p);
    string_buffer_puts(&p, before);
    size_t n;
    text = call_marker_trimmed(text, &n);
    for (size_t i = 0; i < n; i++) {
        if (strchr("^$\\.*+?()[]{}|/", text[i]) != NULL)
            string_buffer_add(&p, "\\", 1);
        string_buffer_add(&p, text + i, 1);
    }
    string_buffer_puts(&p, after);
    const enum mr_status status =
        p.failed ? mr_fail(c->err, MR_NO_MEMORY, "no memory for a marker") : regex_to_dfa(out, p.s, p.n, REGEX_FULL, c->err);
    string_buffer_release(&p);
    return status;
}

/* The texts of a that are none of b. Both are released. */
static enum mr_status minus(const struct calls *c, struct dfa *a, struct dfa *b, uint32_t *expr)
{
    struct dfa d = {0};
    enum mr_status status = dfa_combine(&d, a, b, DFA_MINUS, c->err);
    if (status == MR_OK)
        status = dfa_minimize(&d, NULL, c->err);
    if (status == MR_OK)
        *expr = expr_dfa(c->b, &d, false);
    else
        dfa_release(&d);
    dfa_release(a);
    dfa_release(b);
    return status;
}

#define ANY "[\\s\\S]*"

/* Text up to the first marker, which it ends with. */
static enum mr_status until(const struct calls *c, const char *marker, uint32_t *expr)
{
    struct dfa ends = {0}, earlier = {0};
    MR_TRY(text_dfa(c, ANY, marker, "", &ends));
    const enum mr_status status = text_dfa(c, ANY, marker, "[\\s\\S]+", &earlier);
    if (status == MR_OK)
        return minus(c, &ends, &earlier, expr);
    dfa_release(&ends);
    return status;
}

/* Text without the marker; of a bare format (first) without a brace in front of it. */
static enum mr_status without(const struct calls *c, const char *marker, bool is_bare, uint32_t *expr)
{
    struct dfa all = {0}, with = {0};
    MR_TRY(text_dfa(c, is_bare ? "(?:[^\\s{]" ANY ")?" : ANY, "", "", &all));
    const enum mr_status status =
        marker != NULL ? text_dfa(c, ANY, marker, ANY, &with) : text_dfa(c, "[^\\s\\S]", "", "", &with);
    if (status == MR_OK)
        return minus(c, &all, &with, expr);
    dfa_release(&all);
    return status;
}

/* Free text, calls, or one behind the other. */
static enum mr_status answer_expr(const struct calls *c, uint32_t calls, uint32_t *expr)
{
    const struct call_format *f = c->format;
    uint32_t text = EXPR_NOTHING;
    if (call_format_is_bare(f)) {
        MR_TRY(without(c, f->prefix, true, &text));
        *expr = expr_choice(c->b, (const uint32_t[]){text, calls}, 2);
        return MR_OK;
    }
    MR_TRY(without(c, call_format_open(f), false, &text));
    const uint32_t mixed[] = {expr_boxed(c->b, text), calls};
    *expr = expr_choice(c->b, (const uint32_t[]){text, expr_sequence(c->b, mixed, 2)}, 2);
    return MR_OK;
}

/* In front of the answer: reasoning, which may be or must go on. */
static enum mr_status with_reasoning(const struct calls *c, uint32_t *expr)
{
    static const struct code_range blank[] = {{'\n', '\n'}, {' ', ' '}};
    uint32_t inside;
    if (c->reasoning == NULL)
        return MR_OK;
    MR_TRY(until(c, c->reasoning->close, &inside));
    const uint32_t parts[] = {c->begun ? (uint32_t)EXPR_EMPTY : literal(c, c->reasoning->open), inside,
                              expr_repeat(c->b, expr_chars(c->b, blank, 2), 0, 4), *expr};
    const uint32_t whole = expr_sequence(c->b, parts, sizeof parts / sizeof *parts);
    *expr = c->begun ? whole : expr_choice(c->b, (const uint32_t[]){whole, *expr}, 2);
    return MR_OK;
}

static enum mr_status read_source(struct calls *c, const json_t *source)
{
    const json_t *choice = json_object_get(source, "choice"), *reasoning = json_object_get(source, "reasoning");
    const char *format = json_string_value(json_object_get(source, "format")), *word = json_string_value(choice);
    c->tools = json_object_get(source, "tools");
    c->format = format != NULL ? call_format_find(format) : NULL;
    if (c->format == NULL)
        return mr_fail(c->err, MR_BAD_INPUT, "format: '%.40s' is no format of calls", format != NULL ? format : "");
    MR_TRY(check_list(c->tools, c->err));
    c->parallel = json_is_true(json_object_get(source, "parallel"));
    c->begun = json_is_true(json_object_get(source, "begun"));
    c->only = json_string_value(json_object_get(choice, "name"));
    c->may_answer = word != NULL && strcmp(word, "auto") == 0;
    if (c->only == NULL && !c->may_answer && (word == NULL || strcmp(word, "required") != 0))
        return mr_fail(c->err, MR_BAD_INPUT, "tool_choice: must be 'auto', 'required' or a function");
    c->reasoning = json_is_string(reasoning) ? reasoning_format_find(json_string_value(reasoning)) : NULL;
    return MR_OK;
}

static enum mr_status compile(struct calls *c, const json_t *source, uint32_t *root)
{
    uint32_t calls, expr;
    MR_TRY(read_source(c, source));
    MR_TRY(calls_expr(c, &calls));
    expr = calls;
    if (c->may_answer)
        MR_TRY(answer_expr(c, expr_boxed(c->b, calls), &expr));
    MR_TRY(with_reasoning(c, &expr));
    *root = grammar_rule(c->b, "answer", 6);
    grammar_define(c->b, *root, expr);
    return MR_OK;
}

enum mr_status calls_compile(struct grammar_builder *b, const char *text, size_t n, uint32_t *root, struct mr_error *err)
{
    json_error_t why;
    struct calls c = {.b = b, .err = err};
    json_t *source = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (source == NULL)
        return mr_fail(err, MR_BAD_INPUT, "calls, line %d, column %d: %s", why.line, why.column, why.text);
    const enum mr_status status = compile(&c, source, root);
    json_decref(source);
    return status;
}
