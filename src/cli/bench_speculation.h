/* bench_speculation.h: `millrace bench --speculation`. */
#ifndef CLI_BENCH_SPECULATION_H
#define CLI_BENCH_SPECULATION_H

#include <stdbool.h>

/* --speculation without a method behind it, which other benchmarks take. */
bool bench_speculation_is_meant(int argc, char **argv);
int bench_speculation(int argc, char **argv);

#endif
