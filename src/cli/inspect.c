/* inspect.c: `millrace inspect`: what is in a model file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/inspect.h"
#include "cli/output.h"

struct options {
    struct model_arguments model;
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

static int print_text(const struct inspection *in, const char *command)
{
    struct string_buffer text;
    string_buffer_init(&text);
    inspect_text(in, &text);
    const int result = output_text(command, &text);
    string_buffer_release(&text);
    return result;
}

static int inspect(const struct options *o, struct inspection *in, const char *command)
{
    struct gguf *g;
    struct mr_error err;
    if (gguf_open(&g, in->path, &err) != MR_OK)
        return output_fail(command, err.message);
    in->g = g;
    const enum mr_status status = inspect_needs_find(&in->needs, g, &o->model, &err);
    int result = status == MR_BAD_INPUT ? EXIT_USAGE_ERROR : EXIT_FAILURE;
    if (status != MR_OK)
        output_fail(command, err.message);
    else
        result = o->json ? output_json(command, inspect_json(in), JSON_INDENT(2) | JSON_REAL_PRECISION(17))
                         : print_text(in, command);
    inspect_needs_release(&in->needs);
    gguf_close(g);
    return result;
}

int command_inspect(int argc, char **argv)
{
    struct options o = {0};
    struct inspection in = {0};
    const struct argument_group groups[] = {{.rows = rows, .into = &o}, {"How it would run:", compute_argument, &o.model}};
    const struct command_line line = {.operands = "FILE",
                                      .summary = "Show what is in a model file: metadata, tensors, sizes; and what it would "
                                                 "take to run it: memory at a context, and which kernels.",
                                      .example = "  millrace inspect -c 4096 models/SmolLM2-135M-Instruct.Q4_1.gguf",
                                      .operand = &in.path,
                                      .min_operands = 1,
                                      .max_operands = 1,
                                      .group = groups,
                                      .n_groups = 2};
    const int status = arguments_parse(argc, argv, &line);
    return status == ARGUMENTS_GO_ON ? inspect(&o, &in, argv[0]) : status;
}
