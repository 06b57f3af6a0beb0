/* fuzz_call_parser.c: any bytes as an answer, in every format, whole and cut anywhere: the pieces join to the same, and a
 * complete call has arguments that are JSON. The first two bytes choose format, reasoning and cuts. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text/call_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All pieces, neighbours of a kind joined: a byte for the kind in front of each. */
struct joined {
    struct string_buffer all, arguments;
    int last;
};

static void take(void *context, const struct call_piece *p)
{
    struct joined *j = context;
    json_error_t why;
    if (j->last != (int)p->kind || p->kind == CALL_PIECE_NAME)
        string_buffer_add(&j->all, &"crnae"[p->kind], 1);
    j->last = (int)p->kind;
    string_buffer_add(&j->all, p->text != NULL ? p->text : "", p->n);
    if (p->kind == CALL_PIECE_NAME)
        string_buffer_clear(&j->arguments);
    if (p->kind == CALL_PIECE_ARGUMENTS)
        string_buffer_add(&j->arguments, p->text, p->n);
    if (p->kind != CALL_PIECE_END)
        return;
    json_t *value = json_loadb(j->arguments.s, j->arguments.n, JSON_ALLOW_NUL, &why);
    if (!json_is_object(value))
        abort();
    json_decref(value);
}

static void parse(struct joined *j, const struct call_parser_options *options, const char *text, size_t n, size_t cut)
{
    struct call_parser *p;
    *j = (struct joined){.last = -1};
    string_buffer_init(&j->all);
    string_buffer_init(&j->arguments);
    if (call_parser_create(&p, options, take, j, NULL) != MR_OK)
        abort();
    for (size_t at = 0; at < n; at += cut)
        if (call_parser_feed(p, text + at, n - at < cut ? n - at : cut, NULL) != MR_OK)
            abort();
    if (call_parser_end(p, NULL, NULL, NULL) != MR_OK)
        abort();
    call_parser_free(p);
    string_buffer_release(&j->arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const name[] = {"f", "get_weather"};
    if (size < 2)
        return 0;
    const struct call_parser_options options = {.format = call_format_at(data[0] & 15),
                                                .reasoning = (data[0] & 16) != 0 ? reasoning_format_find("<think>") : NULL,
                                                .has_begun = (data[0] & 32) != 0,
                                                .name = name,
                                                .n_name = (data[0] & 64) != 0 ? 2 : 0};
    struct joined whole, cut;
    const char *text = (const char *)data + 2;
    parse(&whole, &options, text, size - 2, size);
    parse(&cut, &options, text, size - 2, 1 + data[1] % 16);
    if (whole.all.n != cut.all.n || (whole.all.n > 0 && memcmp(whole.all.s, cut.all.s, whole.all.n) != 0))
        abort();
    string_buffer_release(&whole.all);
    string_buffer_release(&cut.all);
    return 0;
}
