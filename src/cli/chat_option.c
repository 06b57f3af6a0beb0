/* chat_option.c: the chat template that a command uses. */
#include "cli/chat_option.h"

#include <string.h>

#include "cli/read_input.h"

/* The names of the built-in templates, with commas between. */
static void list_names(char *out, size_t size)
{
    size_t n = 0;
    const char *name;
    for (int i = 0; (name = chat_template_builtin_at(i)) != NULL && n + strlen(name) + 3 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? ", " : "", name);
}

static enum mr_status open_file(struct chat_prompt **out, const char *path, const struct tokenizer *t, struct mr_error *err)
{
    char names[256] = "";
    struct string_buffer source;
    string_buffer_init(&source);
    enum mr_status status = read_file(&source, path, err);
    if (status == MR_NOT_FOUND) {
        list_names(names, sizeof names);
        mr_fail(err, status, "--chat-template: '%.100s' is neither a file nor a built-in template (%s)", path, names);
    } else if (status == MR_OK) {
        status = chat_prompt_create(out, source.s != NULL ? source.s : "", source.n, t, err);
        if (status != MR_OK)
            mr_fail_in(err, status, "--chat-template: %.100s", path);
    }
    string_buffer_release(&source);
    return status;
}

enum mr_status chat_option_open(struct chat_prompt **out, const char *option, const struct tokenizer *t, struct mr_error *err)
{
    char names[256] = "";
    *out = NULL;
    if (option != NULL) {
        const char *source = chat_template_builtin(option);
        return source != NULL ? chat_prompt_create(out, source, strlen(source), t, err) : open_file(out, option, t, err);
    }
    const struct gguf_string own = t != NULL ? tokenizer_chat_template(t) : (struct gguf_string){NULL, 0};
    if (own.n == 0) {
        list_names(names, sizeof names);
        return mr_fail(err, MR_NOT_FOUND, "the model has no chat template; give one with --chat-template: a file or one of %s",
                       names);
    }
    const enum mr_status status = chat_prompt_create(out, own.s, own.n, t, err);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "the model's chat template");
}
