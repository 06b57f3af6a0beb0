/* bench_engine.h: `millrace bench --engine`. */
#ifndef CLI_BENCH_ENGINE_H
#define CLI_BENCH_ENGINE_H

int bench_engine(int argc, char **argv);

#endif
