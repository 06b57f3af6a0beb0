/* chat_option.c: the chat template that --chat-template names. */
#include "cli/chat_option.h"

#include <stdio.h>
#include <string.h>

#include "cli/read_input.h"
#include "text/chat_template.h"

enum {
    NAMES_MAX = 256
};

/* The names of the built-in templates, with commas between. */
static void list_names(char names[NAMES_MAX])
{
    size_t n = 0;
    const char *name;
    names[0] = '\0';
    for (int i = 0; (name = chat_template_builtin_at(i)) != NULL && n + strlen(name) + 3 < NAMES_MAX; i++)
        n += (size_t)snprintf(names + n, NAMES_MAX - n, "%s%s", i > 0 ? ", " : "", name);
}

enum mr_status chat_option_read(struct string_buffer *out, const char *name, struct mr_error *err)
{
    char names[NAMES_MAX];
    struct mr_error cause;
    const char *builtin = chat_template_builtin(name);
    if (builtin != NULL) {
        string_buffer_puts(out, builtin);
        return out->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the chat template") : MR_OK;
    }
    const enum mr_status status = read_file(out, name, &cause);
    if (status == MR_OK)
        return MR_OK;
    list_names(names);
    return mr_fail(err, status, "--chat-template: '%.100s' is not built in (%s), and as a file: %s", name, names,
                   cause.message);
}

enum mr_status chat_option_missing(struct mr_error *err)
{
    char names[NAMES_MAX];
    list_names(names);
    return mr_fail(err, MR_NOT_FOUND, "the model has no chat template; give one with --chat-template: a file, or one of %s",
                   names);
}
