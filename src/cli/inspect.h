/* inspect.h: what `millrace inspect` says, as text and as JSON. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <jansson.h>

#include "base/string_buffer.h"
#include "cli/model_arguments.h"
#include "model/model.h"

/* What it takes to run the file with the options given. */
struct inspect_needs {
    const char *isa; /* the instruction set that would compute */
    int n_ctx;       /* tokens that the estimate is for */
    bool is_model;   /* there is an estimate; else reason says what stands against it */
    struct model_memory memory;
    struct mr_error reason;
    const char **kernel; /* [n_tensors], "" where none multiplies with it */
    struct thread_pool *pool;
    struct device *device;
};

struct inspection {
    const char *path;
    const struct gguf *g;
    struct inspect_needs needs;
};

/* Fails only where the machine's part fails (memory, MILLRACE_CPU); a file that is no model we can run is no failure. */
enum mr_status inspect_needs_find(struct inspect_needs *needs, const struct gguf *g, const struct model_arguments *a,
                                  struct mr_error *err);
void inspect_needs_release(struct inspect_needs *needs);

/* Append what is in the file. */
void inspect_text(const struct inspection *in, struct string_buffer *out);

/* The same with every element of every array; NULL: no memory. The caller owns it. */
json_t *inspect_json(const struct inspection *in);

/* Weights in a tensor, and in all. */
int64_t inspect_n_weights(const struct gguf_tensor *t);

/* Append the n bytes at s for people (terminal: control characters as \n, \t, \xNN) or for JSON (as they are); what is
 * not UTF-8 becomes U+FFFD. */
void inspect_clean(struct string_buffer *out, struct gguf_string s, bool terminal);

#endif
