/* argument_values.c: the values of options: numbers with a range, sizes, choices, lists. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || (double)v < a->low || (double)v > a->high)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not an integer from %.0f to %.0f", text, a->low, a->high);
    *(int64_t *)field = v;
    return MR_OK;
}

enum mr_status argument_int(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    int64_t v = 0;
    MR_TRY(argument_int64(&v, text, a, err));
    *(int *)field = (int)v;
    return MR_OK;
}

enum mr_status argument_float(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v) || v < a->low || v > a->high)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not a number from %g to %g", text, a->low, a->high);
    *(float *)field = (float)v;
    return MR_OK;
}

/* The factor that a suffix such as "K", "KB" or "KiB" stands for; 0: not a suffix. */
static double size_factor(const char *suffix)
{
    static const char letters[] = "BKMGT";
    if (*suffix == '\0')
        return 1;
    const char *letter = strchr(letters, *suffix >= 'a' && *suffix <= 'z' ? *suffix - 'a' + 'A' : *suffix);
    if (letter == NULL)
        return 0;
    const char *rest = suffix + 1;
    if (letter != letters && (strcmp(rest, "B") == 0 || strcmp(rest, "iB") == 0))
        rest += strlen(rest);
    return *rest == '\0' ? ldexp(1, 10 * (int)(letter - letters)) : 0;
}

enum mr_status argument_size(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    char *end;
    const double v = strtod(text, &end);
    const double bytes = v * size_factor(end);
    if (end == text || size_factor(end) == 0 || !isfinite(bytes) || bytes < a->low || bytes > a->high)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not a size from %.0f to %.0f bytes, such as 512M or 2GB", text, a->low,
                       a->high);
    *(size_t *)field = (size_t)bytes;
    return MR_OK;
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
