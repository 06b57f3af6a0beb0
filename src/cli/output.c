/* output.c: what a command prints at its end. */
#include "cli/output.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/interrupt.h"

int output_fail(const char *command, const char *message)
{
    fprintf(stderr, "%s: %s\n", command, message);
    return EXIT_FAILURE;
}

int output_fail_status(const char *command, enum mr_status status, const struct mr_error *err)
{
    output_fail(command, err->message);
    return status == MR_CANCELLED ? EXIT_INTERRUPTED : EXIT_FAILURE;
}

int output_text(const char *command, const struct string_buffer *text)
{
    if (text->failed)
        return output_fail(command, "out of memory");
    const bool written = (text->n == 0 || fwrite(text->s, 1, text->n, stdout) == text->n) && fflush(stdout) == 0;
    return written ? EXIT_SUCCESS : output_fail(command, "cannot write the output");
}

int output_json(const char *command, json_t *root, size_t flags)
{
    char *text = root != NULL ? json_dumps(root, flags) : NULL;
    json_decref(root);
    if (text == NULL)
        return output_fail(command, "out of memory");
    const bool written = puts(text) >= 0 && fflush(stdout) == 0;
    free(text);
    return written ? EXIT_SUCCESS : output_fail(command, "cannot write the output");
}
