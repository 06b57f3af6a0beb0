/* bench_replay.h: `millrace bench --replay FILE`. */
#ifndef CLI_BENCH_REPLAY_H
#define CLI_BENCH_REPLAY_H

int bench_replay(int argc, char **argv);

#endif
