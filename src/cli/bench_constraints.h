/* bench_constraints.h: `millrace bench --constraints`. */
#ifndef CLI_BENCH_CONSTRAINTS_H
#define CLI_BENCH_CONSTRAINTS_H

int bench_constraints(int argc, char **argv);

#endif
