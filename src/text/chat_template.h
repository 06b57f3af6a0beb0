/* chat_template.h: chat templates in the part of Jinja that they use, rendered as transformers renders them
 * (trim_blocks, lstrip_blocks, loop controls, generation blocks, tojson without escaping). Work, depth and output are
 * bounded: a hostile template ends in an error.
 * Threads: a compiled template is immutable; renders may run at once. A render needs up to 512 KB of stack. */
#ifndef TEXT_CHAT_TEMPLATE_H
#define TEXT_CHAT_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/string_buffer.h"
#include "text/tokenizer.h"

struct chat_template; /* opaque */

/* Compile. BAD_INPUT: the message gives the line and what is wrong. */
enum mr_status chat_template_create(struct chat_template **out, const char *source, size_t n, struct mr_error *err);
void chat_template_free(struct chat_template *t); /* takes NULL */

/* A built-in template by name (chatml, llama3, gemma, ...); NULL: none of that name. chat_template_builtin_at(i) lists
 * the names, NULL past the end. */
const char *chat_template_builtin(const char *name);
const char *chat_template_builtin_at(int i);

/* The rendered text, and for each run of its bytes whether the template or the caller wrote it. */
struct rendered {
    struct string_buffer text;
    struct text_run *run; /* s points into text; match_control is true for the template's own bytes */
    size_t n_run, run_capacity;
};
void rendered_release(struct rendered *r);

/* Render with the given variables: an object that holds messages and may hold tools, documents,
 * add_generation_prompt, bos_token, eos_token and what else the caller passes. now: seconds since the epoch, local time,
 * for strftime_now. Every string in the variables counts as the caller's, but for two kinds that no caller words: the
 * special tokens (variables named ..._token) and a message's role where it is one of the API's (system, user, assistant,
 * tool ...), since templates build control tokens of it. What is made of both keeps the origin of each byte; tojson and
 * printed lists and dicts are the caller's as a whole as soon as one string in them is.
 * BAD_INPUT: the template raised an exception (the message is its own text) or failed (line and reason). */
enum mr_status chat_template_render(const struct chat_template *t, const json_t *variables, int64_t now, struct rendered *out,
                                    struct mr_error *err);

#endif
