/* bench_list.c: one list. */
#include "cli/bench_list.h"

#include <stdlib.h>

enum mr_status argument_list_of_int(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    struct bench_list list = {.n = 0};
    for (const char *s = text;; s++) {
        char *end;
        const long v = strtol(s, &end, 10);
        if (end == s || (*end != ',' && *end != '\0') || (double)v < a->low || (double)v > a->high)
            return mr_fail(err, MR_BAD_INPUT, "'%s' is not a list of integers from %.0f to %.0f, such as %s", text, a->low,
                           a->high, a->value);
        if (list.n == BENCH_LIST_MAX)
            return mr_fail(err, MR_BAD_INPUT, "'%s' has more than %d entries", text, BENCH_LIST_MAX);
        list.value[list.n++] = (int)v;
        s = end;
        if (*s == '\0')
            break;
    }
    *(struct bench_list *)field = list;
    return MR_OK;
}
