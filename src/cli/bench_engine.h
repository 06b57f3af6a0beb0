/* bench_engine.h: `millrace bench --engine`. */
#ifndef CLI_BENCH_ENGINE_H
#define CLI_BENCH_ENGINE_H

#include <stdbool.h>

bool bench_engine_is_meant(int argc, char **argv);
int bench_engine(int argc, char **argv);

#endif
