/* settings_write.c: shows what holds, as a deployment file. */
#include <stdio.h>
#include <string.h>

#include "server/settings_state.h"

static const char *const sources[] = {"default", "file", "environment", "command line"};

/* With the unit: a bare number may mean GB. */
static void write_size(struct string_buffer *out, size_t bytes)
{
    static const char *const units[] = {"B", "K", "M", "G", "T"};
    size_t unit = 0;
    while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    string_buffer_printf(out, "%zu%s", bytes, bytes > 0 ? units[unit] : "");
}

static void write_list(struct string_buffer *out, const struct setting *row, const struct server_settings *v)
{
    const char *const *list = *(const char *const *const *)((const char *)v + row->offset);
    const int n = *(const int32_t *)((const char *)v + row->n_offset);
    string_buffer_puts(out, "[");
    for (int i = 0; i < n; i++) {
        string_buffer_puts(out, i > 0 ? ", " : "");
        string_buffer_quote(out, list[i]);
    }
    string_buffer_puts(out, "]");
}

static void write_value(struct string_buffer *out, const struct setting *row, const struct server_settings *v)
{
    const void *field = (const char *)v + row->offset;
    switch (row->kind) {
    case SETTING_TEXT:
    case SETTING_DEVICE:
        if (*(const char *const *)field != NULL)
            string_buffer_quote(out, *(const char *const *)field);
        else
            string_buffer_puts(out, "null");
        break;
    case SETTING_INT:
        string_buffer_printf(out, "%d", (int)*(const int32_t *)field);
        break;
    case SETTING_FLOAT:
        string_buffer_printf(out, "%.7g", (double)*(const float *)field);
        break;
    case SETTING_BOOL:
        string_buffer_puts(out, row->choice != NULL    ? row->choice[*(const bool *)field]
                                : *(const bool *)field ? "true"
                                                       : "false");
        break;
    case SETTING_SIZE:
    case SETTING_GB:
        write_size(out, *(const size_t *)field);
        break;
    case SETTING_CHOICE:
        string_buffer_puts(out, row->choice[*(const int32_t *)field]);
        break;
    case SETTING_LIST:
        write_list(out, row, v);
        break;
    }
}

/* 0 is what the server finds out by itself. */
static bool is_automatic(const struct setting *row, const struct server_settings *v)
{
    const void *field = (const char *)v + row->offset;
    return row->has_auto && (row->kind == SETTING_INT ? *(const int32_t *)field == 0 : *(const size_t *)field == 0);
}

void settings_write(const struct settings *s, struct string_buffer *out)
{
    size_t n_section = 0; /* bytes of the section's name that was written last */
    const char *section = "";
    for (const struct setting *row = setting_table; row->path != NULL; row++) {
        const char *dot = strchr(row->path, '.');
        const size_t n = dot != NULL ? (size_t)(dot - row->path) : 0;
        if (row->not_in_file)
            continue;
        if (n > 0 && (n != n_section || strncmp(section, row->path, n) != 0))
            string_buffer_printf(out, "%.*s:\n", (int)n, row->path);
        section = row->path;
        n_section = n;
        string_buffer_printf(out, "%s%s: ", n > 0 ? "  " : "", dot != NULL ? dot + 1 : row->path);
        if (is_automatic(row, &s->values))
            string_buffer_puts(out, "auto");
        else
            write_value(out, row, &s->values);
        string_buffer_printf(out, "  # %s\n", sources[s->source[row - setting_table]]);
    }
}
