/* bench_list.h: numbers of cases on a command line. */
#ifndef CLI_BENCH_LIST_H
#define CLI_BENCH_LIST_H

#include "cli/arguments.h"
#include "measure/bench_cases.h"

/* A list of integers in low..high into a struct bench_list: "1,8,32". */
enum mr_status argument_list_of_int(void *field, const char *text, const struct argument *a, struct mr_error *err);

#endif
