/* settings_merge.c: settings that are read again while the server runs. */
#include <string.h>

#include "server/settings_state.h"

static bool is_same_text(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

static bool is_same_list(const struct setting *row, const char *a, const char *b)
{
    const char *const *x = *(const char *const *const *)(a + row->offset), *const *y =
                                                                               *(const char *const *const *)(b + row->offset);
    const int32_t n = *(const int32_t *)(a + row->n_offset);
    bool same = n == *(const int32_t *)(b + row->n_offset);
    for (int32_t i = 0; same && i < n; i++)
        same = strcmp(x[i], y[i]) == 0;
    return same;
}

static bool is_same(const struct setting *row, const struct server_settings *a, const struct server_settings *b)
{
    const char *x = (const char *)a, *y = (const char *)b;
    if (row->kind == SETTING_LIST)
        return is_same_list(row, x, y);
    if (row->kind == SETTING_TEXT || row->kind == SETTING_DEVICE)
        return is_same_text(*(const char *const *)(x + row->offset), *(const char *const *)(y + row->offset));
    return memcmp(x + row->offset, y + row->offset, setting_field_size(row)) == 0;
}

bool settings_merge(struct server_settings *to, const struct server_settings *from, bool renews, struct string_buffer *changed,
                    struct string_buffer *kept)
{
    bool of_engines = false;
    for (const struct setting *row = setting_table; row->path != NULL; row++) {
        if (is_same(row, to, from))
            continue;
        const bool with_engine = renews && row->change == SETTING_WITH_ENGINE,
                   counts = with_engine || row->change == SETTING_AT_ONCE;
        struct string_buffer *told = counts ? changed : kept;
        if (counts) /* no list is among these */
            memcpy((char *)to + row->offset, (const char *)from + row->offset, setting_field_size(row));
        of_engines |= with_engine;
        string_buffer_printf(told, "%s%s", told->n > 0 ? ", " : "", row->path);
    }
    return of_engines;
}
