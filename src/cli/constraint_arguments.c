/* constraint_arguments.c: the options that say what an answer obeys. */
#include "cli/constraint_arguments.h"

#include <string.h>

#include "cli/read_input.h"
#include "sample/constraint.h"

#define FIELD(name) offsetof(struct constraint_arguments, name)
const struct argument constraint_argument[] = {
    {.name = "json-schema",
     .letter = 'j',
     .value = "SCHEMA",
     .help = "The answer is JSON that obeys this schema; {} for any JSON",
     .parse = argument_string,
     .offset = FIELD(schema)},
    {.name = "json-schema-file",
     .value = "FILE",
     .help = "The same from a file",
     .parse = argument_string,
     .offset = FIELD(schema_file)},
    {.name = "json-object", .help = "The answer is any JSON object", .parse = argument_flag, .offset = FIELD(json_object)},
    {.name = "regex",
     .value = "PATTERN",
     .help = "The whole answer matches this regular expression (ECMA-262)",
     .parse = argument_string,
     .offset = FIELD(regex)},
    {.name = "grammar",
     .value = "GBNF",
     .help = "The answer is a text of this grammar's rule 'root'",
     .parse = argument_string,
     .offset = FIELD(grammar)},
    {.name = "grammar-file",
     .value = "FILE",
     .help = "The same from a file",
     .parse = argument_string,
     .offset = FIELD(grammar_file)},
    {0}};

/* One of the options, by what it means. */
struct choice {
    const char *option, *text, *file;
    enum mr_constraint kind;
    enum constraint_kind compiled;
    bool given;
};

static int check(const struct constraint_arguments *a, const struct choice *c, const char *command)
{
    const size_t n = a->file.s != NULL ? a->file.n : strlen(a->text);
    const struct constraint_source source = {.kind = c->compiled, .text = {a->text, n}};
    struct constraint *compiled;
    struct mr_error err;
    if (strlen(a->text) != n)
        return arguments_fail(command, "--%s: '%s' holds a NUL byte", c->option, c->file);
    if (constraint_create(&compiled, &source, &err) != MR_OK)
        return arguments_fail(command, "--%s: %s", c->option, err.message);
    constraint_free(compiled);
    return ARGUMENTS_GO_ON;
}

int constraint_arguments_read(struct constraint_arguments *a, const char *command)
{
    const struct choice choices[] = {
        {"json-schema", a->schema, NULL, MR_CONSTRAINT_JSON_SCHEMA, CONSTRAINT_JSON_SCHEMA, a->schema != NULL},
        {"json-schema-file", NULL, a->schema_file, MR_CONSTRAINT_JSON_SCHEMA, CONSTRAINT_JSON_SCHEMA, a->schema_file != NULL},
        {"json-object", NULL, NULL, MR_CONSTRAINT_JSON_OBJECT, CONSTRAINT_JSON_OBJECT, a->json_object},
        {"regex", a->regex, NULL, MR_CONSTRAINT_REGEX, CONSTRAINT_REGEX, a->regex != NULL},
        {"grammar", a->grammar, NULL, MR_CONSTRAINT_GRAMMAR, CONSTRAINT_GRAMMAR, a->grammar != NULL},
        {"grammar-file", NULL, a->grammar_file, MR_CONSTRAINT_GRAMMAR, CONSTRAINT_GRAMMAR, a->grammar_file != NULL},
    };
    const struct choice *chosen = NULL;
    struct mr_error err;
    string_buffer_init(&a->file);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (!choices[i].given)
            continue;
        if (chosen != NULL)
            return arguments_fail(command, "--%s and --%s exclude each other", chosen->option, choices[i].option);
        chosen = &choices[i];
    }
    if (chosen == NULL)
        return ARGUMENTS_GO_ON;
    a->kind = chosen->kind;
    a->text = chosen->text;
    if (chosen->file != NULL && read_file(&a->file, chosen->file, &err) != MR_OK)
        return arguments_fail(command, "--%s: %s", chosen->option, err.message);
    if (chosen->file != NULL)
        a->text = a->file.s != NULL ? a->file.s : "";
    return a->text != NULL ? check(a, chosen, command) : ARGUMENTS_GO_ON;
}

void constraint_arguments_release(struct constraint_arguments *a) { string_buffer_release(&a->file); }
