/* constraint.c: from a source to an automaton. */
#include "sample/constraint.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "sample/call_grammar.h"
#include "sample/constraint_compile.h"
#include "sample/constraint_internal.h"

static enum mr_status choice_compile(struct grammar_builder *b, const struct constraint_source *source, uint32_t *root,
                                     struct mr_error *err)
{
    uint32_t *expr = mem_array(source->n_choice, sizeof *expr);
    if (expr == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu choices", source->n_choice);
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < source->n_choice && status == MR_OK; i++) {
        const struct constraint_text c = source->choice[i];
        if (c.n == 0 || !utf8_is_valid(c.s, c.n))
            status = mr_fail(err, MR_BAD_INPUT, "choice %zu is %s", i, c.n == 0 ? "empty" : "not UTF-8");
        expr[i] = expr_bytes(b, c.s, c.n);
    }
    if (source->n_choice == 0)
        status = mr_fail(err, MR_BAD_INPUT, "no choice is given");
    *root = grammar_rule(b, "choice", 6);
    grammar_define(b, *root, expr_choice(b, expr, source->n_choice));
    free(expr);
    return status;
}

static enum mr_status compile(struct grammar_builder *b, const struct constraint_source *source, uint32_t *root,
                              struct mr_error *err)
{
    static const char object[] = "{\"type\":\"object\"}";
    const struct constraint_text t = source->text;
    if (t.n > CONSTRAINT_TEXT_MAX)
        return mr_fail(err, MR_BAD_INPUT, "a constraint of %zu bytes; at most %d", t.n, CONSTRAINT_TEXT_MAX);
    switch (source->kind) {
    case CONSTRAINT_JSON_SCHEMA:
        return schema_compile(b, t.s, t.n, root, err);
    case CONSTRAINT_JSON_OBJECT:
        return schema_compile(b, object, sizeof object - 1, root, err);
    case CONSTRAINT_REGEX:
        return regex_compile(b, t.s, t.n, root, err);
    case CONSTRAINT_GRAMMAR:
        return gbnf_compile(b, t.s, t.n, root, err);
    case CONSTRAINT_CALLS:
        return calls_compile(b, t.s, t.n, root, err);
    case CONSTRAINT_CHOICE:
        return choice_compile(b, source, root, err);
    }
    return mr_fail(err, MR_BAD_INPUT, "unknown kind of constraint");
}

enum mr_status constraint_create(struct constraint **out, const struct constraint_source *source, struct mr_error *err)
{
    struct grammar_builder *b;
    uint32_t root = 0;
    *out = NULL;
    struct constraint *c = mem_zero_array(1, sizeof *c);
    if (c == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a constraint");
    enum mr_status status = grammar_builder_create(&b, err);
    if (status == MR_OK)
        status = compile(b, source, &root, err);
    if (status == MR_OK)
        status = grammar_finish(&c->grammar, b, root, err);
    grammar_builder_free(b);
    if (status != MR_OK)
        constraint_free(c);
    else
        *out = c;
    return status;
}

void constraint_free(struct constraint *c)
{
    if (c == NULL)
        return;
    grammar_free(c->grammar);
    free(c);
}
