/* line_editor.c: libedit with history, entries of several lines, and Ctrl-C that clears the line. */
#include "cli/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/memory.h"
#include "cli/interrupt.h"

enum {
    HISTORY_ENTRIES = 1000,
    CTRL_D = 4
};

struct line_editor {
    EditLine *el;
    History *history;
    const char *prompt;
    char file[PATH_MAX]; /* of the history; "": none */
};

static char *show_prompt(EditLine *el)
{
    struct line_editor *ed;
    el_get(el, EL_CLIENTDATA, &ed);
    return (char *)ed->prompt;
}

/* One character; 0: the input ends. libedit's own reader tries again after a signal; this one gives up, so that Ctrl-C ends
 * the line. */
static int read_character(EditLine *el, wchar_t *out)
{
    mbstate_t state = {0};
    (void)el;
    for (;;) {
        char byte;
        ssize_t n = -1;
        if (interrupt_wait(STDIN_FILENO))
            n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0)
            return (int)n;
        if (byte == '\0') /* Ctrl-D that was typed before libedit changed the terminal's mode */
            byte = CTRL_D;
        const size_t used = mbrtowc(out, &byte, 1, &state);
        if (used <= 1)
            return 1;
        if (used == (size_t)-1)
            state = (mbstate_t){0}; /* not a character: left out */
    }
}

/* mkdir -p for the folder of the history file. */
static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed)
            return false;
    }
    return true;
}

static void find_history(struct line_editor *ed)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state != NULL && state[0] == '/')
        n = snprintf(ed->file, sizeof ed->file, "%s/millrace/history", state);
    else if (home != NULL && home[0] == '/')
        n = snprintf(ed->file, sizeof ed->file, "%s/.local/state/millrace/history", home);
    if (n < 0 || (size_t)n >= sizeof ed->file || !make_folders(ed->file))
        ed->file[0] = '\0';
}

enum mr_status line_editor_create(struct line_editor **out, struct mr_error *err)
{
    *out = NULL;
    struct line_editor *ed = mem_zero_array(1, sizeof *ed);
    if (ed == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the line editor");
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    ed->history = history_init();
    ed->el = el_init("millrace", stdin, stdout, stderr);
    if (ed->history == NULL || ed->el == NULL) {
        line_editor_free(ed);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the line editor");
    }
    HistEvent event;
    history(ed->history, &event, H_SETSIZE, HISTORY_ENTRIES);
    history(ed->history, &event, H_SETUNIQUE, 1);
    find_history(ed);
    if (ed->file[0] != '\0')
        history(ed->history, &event, H_LOAD, ed->file);
    el_set(ed->el, EL_CLIENTDATA, ed);
    el_set(ed->el, EL_EDITOR, "emacs");
    el_set(ed->el, EL_PROMPT, show_prompt);
    el_set(ed->el, EL_GETCFN, read_character);
    el_set(ed->el, EL_HIST, history, ed->history);
    el_set(ed->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(ed->el, EL_BIND, "-s", "\t", "    ", NULL);
    *out = ed;
    return MR_OK;
}

void line_editor_free(struct line_editor *ed)
{
    if (ed == NULL)
        return;
    HistEvent event;
    if (ed->file[0] != '\0')
        history(ed->history, &event, H_SAVE, ed->file);
    if (ed->el != NULL)
        el_end(ed->el);
    if (ed->history != NULL)
        history_end(ed->history);
    free(ed);
}

/* One line as typed, without its end. */
static enum line_result read_line(struct line_editor *ed, const char *prompt, const char **line, size_t *n)
{
    int count = 0;
    HistEvent event;
    ed->prompt = prompt;
    el_set(ed->el, EL_PREP_TERM, 1); /* before the prompt shows: who sees it and types finds an editor */
    *line = el_gets(ed->el, &count);
    if (interrupt_seen()) {
        interrupt_clear();
        el_reset(ed->el);
        printf("^C\n");
        return LINE_INTERRUPTED;
    }
    if (*line == NULL || count <= 0)
        return LINE_END;
    *n = (size_t)count;
    if (*n > 0 && strspn(*line, " \t\n") < *n)
        history(ed->history, &event, H_ENTER, *line);
    if (*n > 0 && (*line)[*n - 1] == '\n')
        --*n;
    return LINE_TEXT;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    const size_t m = strlen(end);
    return n >= m && memcmp(s + n - m, end, m) == 0;
}

/* Lines up to the closing """; the opening one has been taken off the first. */
static enum line_result read_quoted(struct line_editor *ed, const char *line, size_t n, struct string_buffer *text)
{
    for (;;) {
        if (ends_with(line, n, "\"\"\"")) {
            string_buffer_add(text, line, n - 3);
            return LINE_TEXT;
        }
        string_buffer_add(text, line, n);
        string_buffer_puts(text, "\n");
        const enum line_result result = read_line(ed, "... ", &line, &n);
        if (result != LINE_TEXT)
            return result;
    }
}

enum line_result line_editor_read(struct line_editor *ed, struct string_buffer *text)
{
    const char *line;
    size_t n;
    string_buffer_clear(text);
    enum line_result result = read_line(ed, "> ", &line, &n);
    if (result != LINE_TEXT)
        return result;
    if (n >= 3 && memcmp(line, "\"\"\"", 3) == 0)
        return read_quoted(ed, line + 3, n - 3, text);
    while (n > 0 && line[n - 1] == '\\') {
        string_buffer_add(text, line, n - 1);
        string_buffer_puts(text, "\n");
        result = read_line(ed, "... ", &line, &n);
        if (result != LINE_TEXT)
            return result;
    }
    string_buffer_add(text, line, n);
    return LINE_TEXT;
}
