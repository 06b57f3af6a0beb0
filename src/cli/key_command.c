/* key_command.c: millrace key: makes a line of the keys file of `millrace serve`. */
#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "server/key_file.h"

struct key_arguments {
    int requests_per_minute, tokens_per_minute, concurrency;
    const char *models;
    bool read_token;
};

#define AT(member) offsetof(struct key_arguments, member)

static const struct argument key_argument[] = {
    {"requests-per-minute", 0, "N", "limit of requests", argument_int, AT(requests_per_minute), 1, INT32_MAX, NULL},
    {"tokens-per-minute", 0, "N", "limit of model tokens, prompts and answers", argument_int, AT(tokens_per_minute), 1,
     INT32_MAX, NULL},
    {"concurrency", 0, "N", "requests at a time", argument_int, AT(concurrency), 1, INT32_MAX, NULL},
    {"models", 0, "A,B", "the models that it may ask, by their names in the API", argument_string, AT(models), 0, 0, NULL},
    {"stdin", 0, NULL, "take the key from the first line of standard input instead of making one", argument_flag,
     AT(read_token), 0, 0, NULL},
    {0},
};

static enum mr_status read_token(char *token, size_t size, struct mr_error *err)
{
    if (fgets(token, (int)size, stdin) == NULL)
        return mr_fail(err, MR_BAD_INPUT, "--stdin: there is no line");
    token[strcspn(token, "\r\n")] = '\0';
    const size_t n = strlen(token);
    return n == 0 || n > KEY_TOKEN_MAX ? mr_fail(err, MR_BAD_INPUT, "--stdin: an API key has 1 to %d bytes", KEY_TOKEN_MAX)
                                       : MR_OK;
}

static enum mr_status make_line(struct key_line *line, char *token, size_t size, const struct key_arguments *a,
                                const char *name, struct mr_error *err)
{
    if (!key_name_is_valid(name))
        return mr_fail(err, MR_BAD_INPUT, "NAME has 1 to %d letters, digits, '.', '_' or '-'", KEY_NAME_MAX);
    if (a->models != NULL && (strlen(a->models) > KEY_MODELS_MAX || strpbrk(a->models, " \t\r\n") != NULL))
        return mr_fail(err, MR_BAD_INPUT, "--models has at most %d bytes and no blanks", KEY_MODELS_MAX);
    snprintf(line->name, sizeof line->name, "%s", name);
    snprintf(line->models, sizeof line->models, "%s", a->models != NULL ? a->models : "");
    line->limits = (struct key_limits){a->requests_per_minute, a->tokens_per_minute, a->concurrency};
    if (a->read_token)
        MR_TRY(read_token(token, size, err));
    if ((!a->read_token && !key_make_token(token)) || !key_line_hash(line, token))
        return mr_fail(err, MR_IO, "the system gives no random bytes");
    return MR_OK;
}

int command_key(int argc, char **argv)
{
    struct key_arguments a = {0};
    const char *name = NULL;
    const struct argument_group group = {"Limits:", key_argument, &a};
    const struct command_line line = {
        .operands = "NAME",
        .summary = "Make an API key. Its line for the keys file goes to standard output: it holds a hash, not the key. The key "
                   "itself goes to standard error, once.",
        .example = "  millrace key alice --requests-per-minute 600 >>keys.txt\n  millrace serve -m model.gguf --api-keys-file "
                   "keys.txt\n",
        .operand = &name,
        .min_operands = 1,
        .max_operands = 1,
        .group = &group,
        .n_groups = 1,
    };
    const int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    struct key_line key = {0};
    struct mr_error err;
    char token[KEY_TOKEN_MAX + 3];
    const enum mr_status made = make_line(&key, token, sizeof token, &a, name, &err);
    if (made != MR_OK)
        return made == MR_BAD_INPUT ? arguments_fail(argv[0], "%s", err.message) : output_fail_status(argv[0], made, &err);
    struct string_buffer text;
    string_buffer_init(&text);
    key_line_write(&text, &key);
    const int printed = output_text(argv[0], &text);
    string_buffer_release(&text);
    if (printed == 0 && !a.read_token)
        fprintf(stderr, "%s\n", token);
    return printed;
}
