/* argument_values.c: the values of options: numbers with a range, sizes, choices, lists. */
#include <string.h>

#include "base/number_text.h"
#include "cli/arguments.h"

enum mr_status argument_flag(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    (void)text;
    (void)a;
    (void)err;
    *(bool *)field = true;
    return MR_OK;
}

enum mr_status argument_unflag(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    (void)text;
    (void)a;
    (void)err;
    *(bool *)field = false;
    return MR_OK;
}

enum mr_status argument_int64(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    return number_read_int(field, text, a->low, a->high, err);
}

enum mr_status argument_int(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    int64_t v = 0;
    MR_TRY(number_read_int(&v, text, a->low, a->high, err));
    *(int *)field = (int)v;
    return MR_OK;
}

enum mr_status argument_float(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    double v = 0;
    MR_TRY(number_read_float(&v, text, a->low, a->high, err));
    *(float *)field = (float)v;
    return MR_OK;
}

enum mr_status argument_size(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    return number_read_size(field, text, a->low, a->high, err);
}

enum mr_status argument_string(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    (void)a;
    (void)err;
    *(const char **)field = text;
    return MR_OK;
}

enum mr_status argument_choice(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    char known[256] = "";
    for (int i = 0; a->choice[i] != NULL; i++) {
        if (strcmp(text, a->choice[i]) == 0) {
            *(int *)field = i;
            return MR_OK;
        }
        strncat(known, i > 0 ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, a->choice[i], sizeof known - strlen(known) - 1);
    }
    return mr_fail(err, MR_BAD_INPUT, "'%s' is not one of %s", text, known);
}

enum mr_status argument_append(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    (void)a;
    struct argument_list *list = field;
    if (list->n == ARGUMENT_LIST_MAX)
        return mr_fail(err, MR_BAD_INPUT, "may be given at most %d times", ARGUMENT_LIST_MAX);
    list->s[list->n++] = text;
    return MR_OK;
}
