/* settings_yaml.c: the deployment file: YAML by libyaml's events, read against the table without a tree in between, so that the
 * file's size bounds the work. What YAML has beyond mappings, lists and scalars (anchors, aliases, tags, further documents) is
 * refused. */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "server/settings_state.h"

enum {
    PATH_MAX_BYTES = 160
};

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the last one; deleted before the next */
    struct settings *s;
    struct mr_error *err;
    bool seen[SETTINGS_MAX];         /* by row */
    bool seen_section[SETTINGS_MAX]; /* by the section's first row */
};

#define FAIL_AT(r, line, ...)                                                                                                  \
    (mr_fail((r)->err, MR_BAD_INPUT, __VA_ARGS__), mr_fail_in((r)->err, MR_BAD_INPUT, "line %zu", line))

static size_t line_of(const struct reader *r) { return r->event.start_mark.line + 1; }

static enum mr_status refuse_more(const struct reader *r)
{
    const yaml_event_t *e = &r->event;
    const bool is_scalar = e->type == YAML_SCALAR_EVENT;
    const yaml_char_t *anchor = is_scalar                              ? e->data.scalar.anchor
                                : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.anchor
                                : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.anchor
                                                                       : NULL;
    const yaml_char_t *tag = is_scalar                              ? e->data.scalar.tag
                             : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.tag
                             : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag
                                                                    : NULL;
    if (anchor != NULL || e->type == YAML_ALIAS_EVENT)
        return FAIL_AT(r, line_of(r), "anchors and aliases are not taken");
    if (tag != NULL)
        return FAIL_AT(r, line_of(r), "tags are not taken");
    if (is_scalar && memchr(e->data.scalar.value, 0, e->data.scalar.length) != NULL)
        return FAIL_AT(r, line_of(r), "a text holds a NUL character");
    return MR_OK;
}

static enum mr_status next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return refuse_more(r);
    if (r->parser.error == YAML_MEMORY_ERROR)
        return mr_fail(r->err, MR_NO_MEMORY, "no memory for settings");
    return mr_fail(r->err, MR_BAD_FORMAT, "line %zu: %s", r->parser.problem_mark.line + 1,
                   r->parser.problem != NULL ? r->parser.problem : "this is not YAML");
}

static const char *scalar(const struct reader *r) { return (const char *)r->event.data.scalar.value; }

static bool is_plain(const struct reader *r) { return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE; }

static bool is_null(const struct reader *r)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        if (r->event.type == YAML_SCALAR_EVENT && is_plain(r) && strcmp(scalar(r), nulls[i]) == 0)
            return true;
    return false;
}

static enum mr_status give(struct reader *r, const struct setting *row, const char *const *text, int n, size_t line)
{
    const enum mr_status status = settings_give(r->s, row, text, n, SETTINGS_FILE, r->err);
    if (status != MR_OK)
        mr_fail_in(r->err, status, "line %zu: %s", line, row->path);
    return status;
}

static enum mr_status read_list(struct reader *r, const struct setting *row)
{
    char text[SETTING_LIST_MAX][PATH_MAX_BYTES * 4];
    const char *part[SETTING_LIST_MAX] = {NULL};
    const size_t line = line_of(r);
    int n = 0;
    if (is_null(r))
        return give(r, row, part, 0, line);
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return FAIL_AT(r, line, "%s is a list: [a, b]", row->path);
    for (;;) {
        MR_TRY(next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return give(r, row, part, n, line);
        if (r->event.type != YAML_SCALAR_EVENT || is_null(r))
            return FAIL_AT(r, line_of(r), "%s: an entry of the list is no text", row->path);
        if (n == SETTING_LIST_MAX || r->event.data.scalar.length >= sizeof *text)
            return FAIL_AT(r, line_of(r), "%s has more than %d entries, or one that is too long", row->path, SETTING_LIST_MAX);
        memcpy(text[n], scalar(r), r->event.data.scalar.length + 1);
        part[n] = text[n];
        n++;
    }
}

static enum mr_status read_value(struct reader *r, const struct setting *row)
{
    const bool is_text = row->kind == SETTING_TEXT || row->kind == SETTING_DEVICE || row->kind == SETTING_CHOICE ||
                         row->choice != NULL || row->kind == SETTING_SIZE || row->kind == SETTING_GB;
    bool *seen = &r->seen[row - setting_table];
    if (*seen)
        return FAIL_AT(r, line_of(r), "%s stands twice", row->path);
    *seen = true;
    MR_TRY(next(r));
    if (row->kind == SETTING_LIST)
        return read_list(r, row);
    if (r->event.type != YAML_SCALAR_EVENT)
        return FAIL_AT(r, line_of(r), "%s is a single value", row->path);
    if (is_null(r))
        return row->kind == SETTING_TEXT ? MR_OK : FAIL_AT(r, line_of(r), "%s needs a value", row->path);
    const char *text = scalar(r);
    if (!is_text && !is_plain(r) && !(row->has_auto && strcmp(text, "auto") == 0))
        return FAIL_AT(r, line_of(r), "%s: '%s' in quotes is a text: leave them out", row->path, text);
    return give(r, row, &text, 1, line_of(r));
}

/* The row of this path, or the first of this section, whose rows' paths go on behind a dot. NULL: neither. */
static const struct setting *find(const char *path, bool *is_section)
{
    const size_t n = strlen(path);
    for (const struct setting *row = setting_table; row->path != NULL; row++) {
        *is_section = strncmp(row->path, path, n) == 0 && row->path[n] == '.';
        if (*is_section || strcmp(row->path, path) == 0)
            return row;
    }
    return NULL;
}

/* A mapping has begun: all its keys. prefix: of the section, with its dot. */
static enum mr_status read_section(struct reader *r, const char *prefix);

static enum mr_status enter_section(struct reader *r, const struct setting *first, const char *path)
{
    char prefix[PATH_MAX_BYTES + 2];
    bool *seen = &r->seen_section[first - setting_table];
    if (*seen)
        return FAIL_AT(r, line_of(r), "%s stands twice", path);
    *seen = true;
    MR_TRY(next(r));
    if (is_null(r))
        return MR_OK;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return FAIL_AT(r, line_of(r), "%s is a section: it holds keys", path);
    snprintf(prefix, sizeof prefix, "%s.", path);
    return read_section(r, prefix);
}

static enum mr_status read_key(struct reader *r, const char *prefix)
{
    char path[PATH_MAX_BYTES];
    bool is_section;
    if (r->event.type != YAML_SCALAR_EVENT)
        return FAIL_AT(r, line_of(r), "a key is a word");
    const int n = snprintf(path, sizeof path, "%s%s", prefix, scalar(r));
    const struct setting *row =
        n < (int)sizeof path && strchr(scalar(r), '.') == NULL && *scalar(r) != '\0' ? find(path, &is_section) : NULL;
    if (row == NULL)
        return FAIL_AT(r, line_of(r), "unknown key '%s%.60s'", prefix, scalar(r));
    if (!is_section && row->not_in_file)
        return FAIL_AT(r, line_of(r), "%s is not taken from a file: use --%s, the environment or hashed keys", path, row->flag);
    return is_section ? enter_section(r, row, path) : read_value(r, row);
}

static enum mr_status read_section(struct reader *r, const char *prefix)
{
    for (;;) {
        MR_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return MR_OK;
        MR_TRY(read_key(r, prefix));
    }
}

/* All may stand under one key `deployment`, which then stands alone. */
static enum mr_status read_top(struct reader *r)
{
    bool is_first = true;
    for (;;) {
        MR_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return MR_OK;
        if (!is_first || r->event.type != YAML_SCALAR_EVENT || strcmp(scalar(r), "deployment") != 0) {
            is_first = false;
            MR_TRY(read_key(r, ""));
            continue;
        }
        MR_TRY(next(r));
        if (r->event.type == YAML_MAPPING_START_EVENT)
            MR_TRY(read_section(r, ""));
        else if (!is_null(r))
            return FAIL_AT(r, line_of(r), "deployment is a section: it holds keys");
        MR_TRY(next(r));
        return r->event.type == YAML_MAPPING_END_EVENT ? MR_OK : FAIL_AT(r, line_of(r), "beside deployment stands another key");
    }
}

static enum mr_status read_stream(struct reader *r)
{
    MR_TRY(next(r)); /* the stream begins */
    MR_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return MR_OK; /* nothing but comments */
    MR_TRY(next(r));
    if (r->event.type == YAML_MAPPING_START_EVENT)
        MR_TRY(read_top(r));
    else if (!is_null(r))
        return FAIL_AT(r, line_of(r), "the file holds no mapping of keys to values");
    MR_TRY(next(r)); /* the document ends */
    MR_TRY(next(r));
    return r->event.type == YAML_STREAM_END_EVENT ? MR_OK : FAIL_AT(r, line_of(r), "a second document begins");
}

enum mr_status settings_read(struct settings *s, const char *text, size_t n, struct mr_error *err)
{
    struct mr_error own;
    struct reader r = {.s = s, .err = err != NULL ? err : &own};
    if (n > SETTINGS_FILE_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "settings have more than %d bytes", SETTINGS_FILE_MAX);
    if (!yaml_parser_initialize(&r.parser))
        return mr_fail(err, MR_NO_MEMORY, "no memory for settings");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    const enum mr_status status = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}
