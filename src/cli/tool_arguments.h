/* tool_arguments.h: the options about functions that an answer may call. */
#ifndef CLI_TOOL_ARGUMENTS_H
#define CLI_TOOL_ARGUMENTS_H

#include <jansson.h>

#include "cli/arguments.h"
#include "cli/generation.h"

struct tool_arguments {
    const char *file, *choice, *format;
    bool single;
    /* found by tool_arguments_read */
    json_t *list; /* NULL: no file was given */
    char *text;
};

extern const struct argument tool_argument[]; /* --tools, --tool-choice, --tool-format, --no-parallel-tool-calls */

/* Read the file and check all of it that needs no model. */
enum mr_status tool_arguments_read(struct tool_arguments *a, struct mr_error *err);
void tool_arguments_release(struct tool_arguments *a);

enum mr_status tool_arguments_calls(struct mr_calls **out, const struct tool_arguments *a, const char *chat_template,
                                    bool reasoning_begun, struct mr_error *err);

/* generation_json with "content", "reasoning_content" and "tool_calls" as OpenAI's API has them; "finish_reason" is
 * "tool_calls" only where calls were made and all are complete. */
enum mr_status tool_arguments_split(json_t **out, const struct mr_calls *calls, const struct generation *g,
                                    struct mr_error *err);

/* The content, then a line of JSON for each complete call. */
void tool_arguments_print(const json_t *message, FILE *out);

#endif
