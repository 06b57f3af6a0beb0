/* number_text.h: numbers as people write them in options, files and the environment. Messages say what is wrong and what would
 * be right, without a name. */
#ifndef BASE_NUMBER_TEXT_H
#define BASE_NUMBER_TEXT_H

#include <stdint.h>

#include "base/status.h"

/* Decimal; low and high at most 2^53, both ends included. BAD_INPUT. */
enum mr_status number_read_int(int64_t *out, const char *text, double low, double high, struct mr_error *err);
enum mr_status number_read_float(double *out, const char *text, double low, double high, struct mr_error *err);
/* Bytes: 1500, 512K, 2GB, 1.5GiB (powers of 1024). */
enum mr_status number_read_size(size_t *out, const char *text, double low, double high, struct mr_error *err);

/* The double with the shortest decimal text among those that round to f: 0.8 for 0.8F, which is 0.800000011920929. */
double number_short(float f);

#endif
