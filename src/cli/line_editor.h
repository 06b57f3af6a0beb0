/* line_editor.h: lines typed at a terminal, with editing and history (libedit). */
#ifndef CLI_LINE_EDITOR_H
#define CLI_LINE_EDITOR_H

#include "base/string_buffer.h"

struct line_editor;

enum line_result {
    LINE_TEXT,
    LINE_INTERRUPTED, /* Ctrl-C: what was typed is forgotten */
    LINE_END          /* Ctrl-D on an empty line, or the terminal is gone */
};

/* History is kept in the folder millrace of XDG_STATE_HOME (or ~/.local/state); without either it is not kept. */
enum mr_status line_editor_create(struct line_editor **out, struct mr_error *err);
void line_editor_free(struct line_editor *ed); /* takes NULL; writes the history */

/* Read one entry, which may be several lines: a backslash at the end of a line goes on, and so does everything between
 * """ and """. *text holds it without these marks and without the last line's end. */
enum line_result line_editor_read(struct line_editor *ed, struct string_buffer *text);

#endif
