/* tokenize.c: `millrace tokenize`: a text as the model's tokens, or tokens as text. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/model_arguments.h"
#include "cli/output.h"
#include "cli/read_input.h"
#include "text/detokenizer.h"

struct options {
    const char *prompt, *file, *ids;
    bool special, no_bos, json;
};

static const struct argument rows[] = {
    {.name = "prompt",
     .letter = 'p',
     .value = "TEXT",
     .help = "Text to tokenize (default: standard input)",
     .parse = argument_string,
     .offset = offsetof(struct options, prompt)},
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "Tokenize the text of a file",
     .parse = argument_string,
     .offset = offsetof(struct options, file)},
    {.name = "detokenize",
     .value = "IDS",
     .help = "The other way: print the text of token ids, as in 1,2,3",
     .parse = argument_string,
     .offset = offsetof(struct options, ids)},
    {.name = "special",
     .help = "Control tokens written in the text, such as <|im_end|>, become their ids; with --detokenize: show them",
     .parse = argument_flag,
     .offset = offsetof(struct options, special)},
    {.name = "no-bos",
     .help = "Leave out the BOS and EOS that the model asks for",
     .parse = argument_flag,
     .offset = offsetof(struct options, no_bos)},
    {.name = "json",
     .help = "Print {\"tokens\": [ids]}, or {\"text\": ...} with --detokenize",
     .parse = argument_flag,
     .offset = offsetof(struct options, json)},
    {0}};

static json_t *json_of_tokens(const struct token_list *list)
{
    json_t *ids = json_array();
    bool ok = ids != NULL;
    for (size_t i = 0; ok && i < list->n; i++)
        ok = json_array_append_new(ids, json_integer(list->id[i])) == 0;
    if (!ok) {
        json_decref(ids);
        return NULL;
    }
    return json_pack("{s:o}", "tokens", ids);
}

/* The piece between quotes; what is not a printable character as \xHH. */
static void add_piece(struct string_buffer *out, struct gguf_string s)
{
    string_buffer_puts(out, "'");
    for (size_t i = 0; i < s.n;) {
        uint32_t code;
        const int len = utf8_decode(&code, s.s + i, s.n - i);
        const bool printable = len > 0 && code >= 0x20 && (code < 0x7f || code >= 0xa0);
        if (printable)
            string_buffer_add(out, s.s + i, (size_t)len);
        else if (code == '\n')
            string_buffer_puts(out, "\\n");
        else
            string_buffer_printf(out, "\\x%02x", (unsigned char)s.s[i]);
        i += printable ? (size_t)len : 1;
    }
    string_buffer_puts(out, "'\n");
}

static int print_tokens(const struct tokenizer *t, const struct token_list *list, const char *command)
{
    struct string_buffer text;
    string_buffer_init(&text);
    for (size_t i = 0; i < list->n; i++) {
        string_buffer_printf(&text, "%7d  ", list->id[i]);
        add_piece(&text, tokenizer_piece(t, list->id[i], true));
    }
    const int result = output_text(command, &text);
    string_buffer_release(&text);
    return result;
}

static enum mr_status read_text(struct string_buffer *out, const struct options *o, struct mr_error *err)
{
    if (o->file != NULL)
        return read_file(out, o->file, err);
    if (o->prompt == NULL)
        return read_stream(out, stdin, "standard input", err);
    string_buffer_puts(out, o->prompt);
    return out->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the text") : MR_OK;
}

static int tokenize(const struct options *o, const struct tokenizer *t, const char *command)
{
    struct mr_error err;
    struct string_buffer text;
    struct token_list list = {0};
    string_buffer_init(&text);
    enum mr_status status = read_text(&text, o, &err);
    if (status == MR_OK) {
        const struct text_run run = {text.s != NULL ? text.s : "", text.n, o->special};
        status = tokenizer_encode(t, &run, 1, o->no_bos ? 0 : ENCODE_ADD_BOS, &list, &err);
    }
    int result;
    if (status != MR_OK)
        result = output_fail(command, err.message);
    else
        result = o->json ? output_json(command, json_of_tokens(&list), JSON_COMPACT) : print_tokens(t, &list, command);
    token_list_release(&list);
    string_buffer_release(&text);
    return result;
}

/* Ids between commas or blanks into the list, which has room for one per character. Returns EXIT_SUCCESS, or 2 with the
 * wrong one named. */
static int parse_ids(struct token_list *list, const struct options *o, int n_vocab, const char *command)
{
    const char *s = o->ids + strspn(o->ids, ", \t\n");
    while (*s != '\0') {
        char *end;
        errno = 0;
        const long id = strtol(s, &end, 10);
        const int shown = (int)strcspn(s, ", \t\n");
        if (end == s || end != s + shown || errno != 0 || id < 0 || id >= n_vocab)
            return arguments_fail(command, "--detokenize: '%.*s' is no token id, they are 0 to %d", shown < 40 ? shown : 40, s,
                                  n_vocab - 1);
        list->id[list->n++] = (int32_t)id;
        s = end + strspn(end, ", \t\n");
    }
    return EXIT_SUCCESS;
}

static int detokenize(const struct options *o, const struct tokenizer *t, const char *command)
{
    struct detokenizer d;
    struct string_buffer text;
    const size_t capacity = strlen(o->ids) + 1;
    struct token_list list = {.id = malloc(capacity * sizeof *list.id), .capacity = capacity};
    if (list.id == NULL)
        return output_fail(command, "out of memory");
    string_buffer_init(&text);
    int result = parse_ids(&list, o, tokenizer_n_vocab(t), command);
    if (result == EXIT_SUCCESS) {
        detokenizer_init(&d, t, o->special);
        for (size_t i = 0; i < list.n; i++)
            detokenizer_push(&d, list.id[i], &text);
        detokenizer_finish(&d, &text);
        if (o->json) {
            result = output_json(command, json_pack("{s:s%}", "text", text.s != NULL ? text.s : "", text.n), JSON_COMPACT);
        } else {
            string_buffer_puts(&text, "\n");
            result = output_text(command, &text);
        }
    }
    string_buffer_release(&text);
    token_list_release(&list);
    return result;
}

static int open_and_run(const struct options *o, const char *path, const char *command)
{
    struct gguf *g;
    struct tokenizer *t;
    struct mr_error err;
    if (gguf_open(&g, path, &err) != MR_OK)
        return output_fail(command, err.message);
    const enum mr_status status = tokenizer_create(&t, g, &err);
    gguf_close(g);
    if (status != MR_OK) {
        mr_fail_in(&err, status, "'%s'", path);
        return output_fail(command, err.message);
    }
    const int result = o->ids != NULL ? detokenize(o, t, command) : tokenize(o, t, command);
    tokenizer_free(t);
    return result;
}

/* Exactly one source of text or ids. */
static int check(const struct options *o, const char *command)
{
    const int n = (o->prompt != NULL) + (o->file != NULL) + (o->ids != NULL);
    if (n > 1)
        return arguments_fail(command, "only one of --prompt, --file and --detokenize can be given");
    if (n == 0 && isatty(STDIN_FILENO))
        return arguments_fail(command, "-p, --prompt: a text is required, or a file, or a pipe");
    return ARGUMENTS_GO_ON;
}

int command_tokenize(int argc, char **argv)
{
    struct options o = {0};
    struct model_arguments model = {0};
    const struct argument_group groups[] = {{.rows = model_argument, .into = &model}, {.rows = rows, .into = &o}};
    const struct command_line line = {
        .summary = "Show a text as the tokens that the model reads, with the BOS that it asks for; or tokens as text.",
        .example = "  millrace tokenize -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p Hello --json",
        .group = groups,
        .n_groups = 2};
    int status = arguments_parse(argc, argv, &line);
    if (status == ARGUMENTS_GO_ON)
        status = model_arguments_check(&model, argv[0]);
    if (status == ARGUMENTS_GO_ON)
        status = check(&o, argv[0]);
    return status == ARGUMENTS_GO_ON ? open_and_run(&o, model.model, argv[0]) : status;
}
