/* inspect.c: `millrace inspect`: what is in a model file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/inspect.h"

struct options {
    bool json;
};

static const struct argument rows[] = {{.name = "json",
                                        .help = "Print JSON, with every element of every array",
                                        .parse = argument_flag,
                                        .offset = offsetof(struct options, json)},
                                       {0}};

int64_t inspect_n_weights(const struct gguf_tensor *t)
{
    int64_t n = 1; /* the reader has checked that the product fits */
    for (int i = 0; i < GGUF_MAX_DIMS; i++)
        n *= t->dims[i];
    return n;
}

static void add_printable(struct string_buffer *out, const char *s, size_t n, uint32_t code)
{
    if (code == '\n' || code == '\t')
        string_buffer_puts(out, code == '\n' ? "\\n" : "\\t");
    else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        string_buffer_printf(out, "\\x%02x", (unsigned)code);
    else
        string_buffer_add(out, s, n);
}

void inspect_clean(struct string_buffer *out, struct gguf_string s, bool terminal)
{
    for (size_t i = 0; i < s.n;) {
        uint32_t code;
        const int len = utf8_decode(&code, s.s + i, s.n - i);
        if (len < 0)
            string_buffer_puts(out, "\xef\xbf\xbd");
        else if (terminal)
            add_printable(out, s.s + i, (size_t)len, code);
        else
            string_buffer_add(out, s.s + i, (size_t)len);
        i += (size_t)(len < 0 ? -len : len);
    }
}

static int fail(const char *command, const char *message)
{
    fprintf(stderr, "%s: %s\n", command, message);
    return EXIT_FAILURE;
}

static int print_json(const struct inspection *in, const char *command)
{
    json_t *root = inspect_json(in);
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    if (text == NULL)
        return fail(command, "out of memory");
    const bool written = puts(text) >= 0 && fflush(stdout) == 0;
    free(text);
    return written ? EXIT_SUCCESS : fail(command, "cannot write the output");
}

static int print_text(const struct inspection *in, const char *command)
{
    struct string_buffer text;
    string_buffer_init(&text);
    inspect_text(in, &text);
    const bool failed = text.failed;
    const bool written = !failed && fwrite(text.s, 1, text.n, stdout) == text.n && fflush(stdout) == 0;
    string_buffer_release(&text);
    if (failed)
        return fail(command, "out of memory");
    return written ? EXIT_SUCCESS : fail(command, "cannot write the output");
}

int command_inspect(int argc, char **argv)
{
    struct options o = {0};
    struct inspection in = {0};
    struct gguf *g;
    struct mr_error err;
    const struct argument_group group = {.rows = rows, .into = &o};
    const struct command_line line = {.operands = "FILE",
                                      .summary = "Show what is in a model file: metadata, tensors, sizes.",
                                      .example = "  millrace inspect models/SmolLM2-135M-Instruct.Q4_1.gguf",
                                      .operand = &in.path,
                                      .min_operands = 1,
                                      .max_operands = 1,
                                      .group = &group,
                                      .n_groups = 1};
    const int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (gguf_open(&g, in.path, &err) != MR_OK)
        return fail(argv[0], err.message);
    in.g = g;
    const int result = o.json ? print_json(&in, argv[0]) : print_text(&in, argv[0]);
    gguf_close(g);
    return result;
}
