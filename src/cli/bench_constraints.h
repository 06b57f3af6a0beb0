/* bench_constraints.h: `millrace bench --constraints`. */
#ifndef CLI_BENCH_CONSTRAINTS_H
#define CLI_BENCH_CONSTRAINTS_H

#include <stdbool.h>

bool bench_constraints_is_meant(int argc, char **argv);
int bench_constraints(int argc, char **argv);

#endif
