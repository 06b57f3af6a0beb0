/* call_split.c: answers on JSON lines split into reasoning, content and calls.
 * Each line of stdin: {"tools": [...], "choice": ..., "format": ..., "template": ..., "begun": bool, "text": ..., "cut":
 * bytes}. Each line of stdout: {"error": message} or {"constraint": text or null, "content", "reasoning", "calls": [[name,
 * arguments, complete]], "open": number}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/string_buffer.h"
#include "millrace.h"

static void put_call(json_t *calls, const struct mr_piece *p, struct string_buffer *arguments)
{
    json_t *call = json_array_get(calls, json_array_size(calls) - 1);
    if (p->kind == MR_PIECE_CALL) {
        string_buffer_clear(arguments);
        json_array_append_new(calls, json_pack("[s%, s, b]", p->text, p->n_text, "", 0));
    } else if (p->kind == MR_PIECE_ARGUMENTS) {
        string_buffer_add(arguments, p->text, p->n_text);
        json_array_set_new(call, 1, json_stringn(arguments->s, arguments->n));
    } else {
        json_array_set_new(call, 2, json_true());
    }
}

static void take(struct mr_call_parser *p, struct string_buffer text[2], json_t *calls, struct string_buffer *arguments)
{
    struct mr_piece piece;
    while (mr_call_parser_next(p, &piece))
        if (piece.kind == MR_PIECE_CONTENT || piece.kind == MR_PIECE_REASONING)
            string_buffer_add(&text[piece.kind], piece.text, piece.n_text);
        else
            put_call(calls, &piece, arguments);
}

static json_t *split(const struct mr_calls *c, const char *s, size_t n, size_t cut)
{
    struct mr_call_parser *p;
    struct string_buffer text[2], arguments;
    json_t *calls = json_array();
    string_buffer_init(&text[0]);
    string_buffer_init(&text[1]);
    string_buffer_init(&arguments);
    if (mr_call_parser_create(&p, c, NULL) != MR_OK)
        exit(1);
    for (size_t at = 0; at < n; at += cut) {
        if (mr_call_parser_feed(p, s + at, n - at < cut ? n - at : cut, NULL) != MR_OK)
            exit(1);
        take(p, text, calls, &arguments);
    }
    if (mr_call_parser_end(p, NULL) != MR_OK)
        exit(1);
    take(p, text, calls, &arguments);
    json_t *out = json_pack("{s:s?, s:s%, s:s%, s:o, s:i}", "constraint", mr_calls_constraint(c), "content",
                            text[0].s != NULL ? text[0].s : "", text[0].n, "reasoning", text[1].s != NULL ? text[1].s : "",
                            text[1].n, "calls", calls, "open", (int)mr_call_parser_n_open(p));
    mr_call_parser_free(p);
    string_buffer_release(&text[0]);
    string_buffer_release(&text[1]);
    string_buffer_release(&arguments);
    return out;
}

static json_t *answer(json_t *request)
{
    struct mr_calls *c;
    struct mr_error err;
    json_t *list = json_object_get(request, "tools"), *text = json_object_get(request, "text");
    char *tools = list != NULL ? json_dumps(list, JSON_ENCODE_ANY) : NULL;
    const struct mr_calls_options options = {.tools = tools,
                                             .choice = json_string_value(json_object_get(request, "choice")),
                                             .parallel = !json_is_false(json_object_get(request, "parallel")),
                                             .format = json_string_value(json_object_get(request, "format")),
                                             .chat_template = json_string_value(json_object_get(request, "template")),
                                             .reasoning_begun = json_is_true(json_object_get(request, "begun"))};
    const enum mr_status status = mr_calls_create(&c, &options, &err);
    free(tools);
    if (status != MR_OK)
        return json_pack("{s:s}", "error", err.message);
    const json_int_t cut = json_integer_value(json_object_get(request, "cut"));
    json_t *out =
        split(c, json_is_string(text) ? json_string_value(text) : "", json_string_length(text), cut > 0 ? (size_t)cut : 1);
    mr_calls_free(c);
    return out;
}

int main(void)
{
    static char line[1 << 20];
    while (fgets(line, sizeof line, stdin) != NULL) {
        json_t *request = json_loads(line, JSON_ALLOW_NUL, NULL);
        json_t *out = answer(request);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(out);
        json_decref(request);
    }
    return 0;
}
