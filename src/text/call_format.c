/* call_format.c: the formats, from the chat templates that their makers publish. */
#include "text/call_format.h"

#include <string.h>

/* The first that fits a template wins. */
static const struct call_format formats[] = {
    {.name = "deepseek",
     .sign = "<｜tool▁sep｜>",
     .also = "```json",
     .section_open = "<｜tool▁calls▁begin｜>",
     .call_open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .name_close = "\n```json\n",
     .call_close = "\n```<｜tool▁call▁end｜>",
     .separator = "\n",
     .section_close = "<｜tool▁calls▁end｜>"},
    {.name = "deepseek-v3.1",
     .sign = "<｜tool▁sep｜>",
     .section_open = "<｜tool▁calls▁begin｜>",
     .call_open = "<｜tool▁call▁begin｜>",
     .name_close = "<｜tool▁sep｜>",
     .call_close = "<｜tool▁call▁end｜>",
     .separator = "",
     .section_close = "<｜tool▁calls▁end｜>"},
    {.name = "mistral-args",
     .sign = "[TOOL_CALLS]",
     .also = "[ARGS]",
     .section_open = "",
     .call_open = "[TOOL_CALLS]",
     .name_close = "[ARGS]",
     .call_close = "",
     .separator = "",
     .section_close = ""},
    {.name = "mistral",
     .sign = "[TOOL_CALLS]",
     .section_open = "[TOOL_CALLS][",
     .call_open = "",
     .call_close = "",
     .separator = ", ",
     .section_close = "]",
     .key = "arguments"},
    {.name = "granite",
     .sign = "<|tool_call|>",
     .section_open = "<|tool_call|>[",
     .call_open = "",
     .call_close = "",
     .separator = ", ",
     .section_close = "]",
     .key = "arguments"},
    {.name = "hermes",
     .sign = "<tool_call>",
     .also = "arguments",
     .unlike = "<arg_key>",
     .section_open = "",
     .call_open = "<tool_call>\n",
     .call_close = "\n</tool_call>",
     .separator = "\n",
     .section_close = "",
     .key = "arguments"},
    {.name = "llama3",
     .sign = "<|start_header_id|>",
     .also = "ipython",
     .prefix = "<|python_tag|>",
     .section_open = "",
     .call_open = "",
     .call_close = "",
     .separator = "; ",
     .section_close = "",
     .key = "parameters"},
    {.name = "gemma",
     .sign = "<start_of_turn>",
     .section_open = "",
     .call_open = "",
     .call_close = "",
     .separator = "\n",
     .section_close = "",
     .key = "parameters"},
    {.name = "json",
     .section_open = "",
     .call_open = "",
     .call_close = "",
     .separator = "\n",
     .section_close = "",
     .key = "arguments"},
};

static const struct reasoning_format reasonings[] = {
    {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<|channel>thought", "<channel|>"}};

enum {
    N_FORMATS = sizeof formats / sizeof *formats,
    N_REASONINGS = sizeof reasonings / sizeof *reasonings
};

const struct call_format *call_format_at(int i) { return i >= 0 && i < N_FORMATS ? &formats[i] : NULL; }

const struct call_format *call_format_find(const char *name)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static bool has(const char *s, size_t n, const char *part) { return memmem(s, n, part, strlen(part)) != NULL; }

const struct call_format *call_format_detect(const char *s, size_t n)
{
    for (int i = 0; i < N_FORMATS; i++) {
        const struct call_format *f = &formats[i];
        if ((f->sign == NULL || has(s, n, f->sign)) && (f->also == NULL || has(s, n, f->also)) &&
            (f->unlike == NULL || !has(s, n, f->unlike)))
            return f;
    }
    return &formats[N_FORMATS - 1];
}

const struct reasoning_format *reasoning_format_detect(const char *s, size_t n)
{
    for (int i = 0; i < N_REASONINGS; i++)
        if (has(s, n, reasonings[i].open))
            return &reasonings[i];
    return NULL;
}

const struct reasoning_format *reasoning_format_find(const char *open)
{
    for (int i = 0; i < N_REASONINGS; i++)
        if (strcmp(reasonings[i].open, open) == 0)
            return &reasonings[i];
    return NULL;
}

const char *call_marker_trimmed(const char *marker, size_t *n)
{
    static const char blanks[] = " \n\r\t";
    marker = marker != NULL ? marker + strspn(marker, blanks) : "";
    for (*n = strlen(marker); *n > 0 && strchr(blanks, marker[*n - 1]) != NULL;)
        --*n;
    return marker;
}

bool call_format_has_piece(const char *s, size_t n)
{
    bool found = false;
    for (int i = 0; i < N_REASONINGS; i++)
        found |= strlen(reasonings[i].open) == n && memcmp(reasonings[i].open, s, n) == 0;
    for (int i = 0; i < N_REASONINGS; i++)
        found |= strlen(reasonings[i].close) == n && memcmp(reasonings[i].close, s, n) == 0;
    for (int i = 0; i < N_FORMATS && n > 2 && !found; i++) {
        const struct call_format *f = &formats[i];
        const char *const marker[] = {f->prefix, f->section_open, f->call_open, f->name_close, f->call_close, f->section_close};
        for (size_t k = 0; k < sizeof marker / sizeof *marker; k++)
            found |= marker[k] != NULL && memmem(marker[k], strlen(marker[k]), s, n) != NULL;
    }
    return found;
}
