/* number_text.c: integers, reals and sizes from text, and reals for it. */
#include "base/number_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mr_status number_read_int(int64_t *out, const char *text, double low, double high, struct mr_error *err)
{
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || (double)v < low || (double)v > high)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not an integer from %.0f to %.0f", text, low, high);
    *out = v;
    return MR_OK;
}

enum mr_status number_read_float(double *out, const char *text, double low, double high, struct mr_error *err)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v) || v < low || v > high)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not a number from %g to %g", text, low, high);
    *out = v;
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

enum mr_status number_read_size(size_t *out, const char *text, double low, double high, struct mr_error *err)
{
    char *end;
    const double v = strtod(text, &end);
    const double bytes = v * size_factor(end);
    if (end == text || size_factor(end) == 0 || !isfinite(bytes) || bytes < low || bytes > high)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not a size from %.0f to %.0f bytes, such as 512M or 2GB", text, low, high);
    *out = (size_t)bytes;
    return MR_OK;
}

double number_short(float f)
{
    char text[32];
    double d = (double)f;
    for (int digits = 6; digits <= 9; digits++) { /* FLT_DIG to FLT_DECIMAL_DIG */
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        d = strtod(text, NULL);
        if ((float)d == f)
            break;
    }
    return d;
}
