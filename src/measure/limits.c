/* limits.c: peaks, read rates and clock of the machine. */
#include "measure/limits.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/memory_free.h"
#include "measure/timed_rounds.h"

enum {
    PEAK_ROUNDS = 30,
    PEAK_ROUND_US = 4000,
    MEMORY_ROUNDS = 48,
    QUICK_PEAK_ROUNDS = 24,
    QUICK_PEAK_ROUND_US = 1000,
    QUICK_MEMORY_ROUNDS = 24,
    MEMORY_PARTS = 8, /* a round reads one eighth: short, and far from what the round before left in the caches */
    CACHE_ROUNDS = 12,
    CACHE_ROUND_US = 1000,
    N_STREAMS = 3, /* 1, 2 and 4 streams take turns */
    PIECE = 4096,  /* stretches are multiples of this */
    HUGE_PAGE = 2 << 20,
    CLOCK_RUNS = 5,
    CLOCK_US = 100
};

/* How long it may take. */
struct effort {
    int peak_rounds, peak_round_us, memory_rounds;
    size_t memory_bytes;
    bool has_caches;
};
static const struct effort whole = {PEAK_ROUNDS, PEAK_ROUND_US, MEMORY_ROUNDS, (size_t)1 << 30, true};
static const struct effort quick = {QUICK_PEAK_ROUNDS, QUICK_PEAK_ROUND_US, QUICK_MEMORY_ROUNDS, (size_t)256 << 20, false};

static double best_of(const double *seconds, int first, int step, int n)
{
    double best = seconds[first];
    for (int i = first; i < n; i += step)
        best = seconds[i] < best ? seconds[i] : best;
    return best;
}

struct peak_work {
    void (*run)(int64_t n_round);
    int64_t n_round;
};

static void run_peak(void *ctx, int thread, int round)
{
    const struct peak_work *w = ctx;
    (void)thread;
    (void)round;
    w->run(w->n_round);
}

/* How often `run` must go round to take about `us` microseconds. */
static int64_t rounds_for(void (*run)(int64_t n_round), int64_t us)
{
    for (int64_t n = 1024;; n *= 2) {
        const int64_t begin = clock_us();
        run(n);
        const int64_t taken = clock_us() - begin;
        if (taken >= us / 4)
            return n * us / taken + 1;
    }
}

static enum mr_status measure_peak(struct limits *l, const struct effort *e, const struct peak *p, enum peak_type type,
                                   const atomic_bool *stop, struct mr_error *err)
{
    double seconds[PEAK_ROUNDS];
    if (p->instruction == NULL)
        return MR_OK;
    struct peak_work w = {p->run, rounds_for(p->run, e->peak_round_us)};
    MR_TRY(timed_rounds(seconds, l->n_threads, e->peak_rounds, run_peak, &w, stop, err));
    l->instruction[type] = p->instruction;
    l->gops[type] = (double)p->ops * (double)w.n_round * l->n_threads / best_of(seconds, 0, 1, e->peak_rounds) * 1e-9;
    return MR_OK;
}

struct read_work {
    const struct peaks *peaks;
    char *memory;
    size_t stretch; /* bytes of one thread, a multiple of 4 * PIECE */
    size_t part;    /* of which it reads so many in a round, the next ones in the next; also such a multiple */
    int n_repeat;   /* how often a round reads them */
    atomic_ullong sum;
};

static void touch(void *ctx, int thread, int round)
{
    const struct read_work *w = ctx;
    memset(w->memory + w->stretch * (size_t)thread, round + 1, w->stretch);
}

static void read_stretch(void *ctx, int thread, int round)
{
    struct read_work *w = ctx;
    const size_t n_part = w->stretch / w->part;
    const char *p = w->memory + w->stretch * (size_t)thread + (size_t)round % n_part * w->part;
    uint64_t sum = 0;
    for (int i = 0; i < w->n_repeat; i++)
        sum += w->peaks->read(p, w->part, 1 << round % N_STREAMS);
    atomic_fetch_add(&w->sum, sum);
}

/* Best rate in GB/s of n_round rounds, and the streams that reached it. */
static enum mr_status measure_read(double *gb_s, int *n_stream, struct read_work *w, int n_threads, int n_round,
                                   const atomic_bool *stop, struct mr_error *err)
{
    double seconds[MEMORY_ROUNDS];
    MR_TRY(timed_rounds(seconds, n_threads, n_round, read_stretch, w, stop, err));
    const double bytes = (double)w->part * w->n_repeat * n_threads;
    *gb_s = 0;
    for (int s = 0; s < N_STREAMS; s++) {
        const double rate = bytes / best_of(seconds, s, N_STREAMS, n_round) * 1e-9;
        if (rate > *gb_s) {
            *gb_s = rate;
            *n_stream = 1 << s;
        }
    }
    return MR_OK;
}

/* Half of what one thread may call its own of each level, so that nothing else of the process pushes it out. */
static enum mr_status measure_caches(struct limits *l, struct read_work *w, size_t most, const atomic_bool *stop,
                                     struct mr_error *err)
{
    for (int i = 0; i < CPU_CACHE_LEVELS; i++) {
        const int n_sharing = l->cache[i].n_cpus < l->n_threads ? l->cache[i].n_cpus : l->n_threads;
        int n_stream;
        w->stretch = l->cache[i].bytes / 2 / (size_t)n_sharing / (4 * PIECE) * (4 * PIECE);
        w->stretch = w->stretch < most ? w->stretch : most;
        if (w->stretch == 0 || (i > 0 && w->stretch < 2 * l->cache[i - 1].bytes))
            continue; /* a share that the level above holds says nothing of this one */
        w->part = w->stretch;
        w->n_repeat = 1;
        const int64_t begin = clock_us();
        for (int r = 0; r < 4; r++)
            read_stretch(w, 0, 0);
        const int64_t taken = (clock_us() - begin) / 4;
        w->n_repeat = (int)(CACHE_ROUND_US / (taken > 0 ? taken : 1)) + 1;
        MR_TRY(measure_read(&l->cache_gb_s[i], &n_stream, w, l->n_threads, CACHE_ROUNDS, stop, err));
    }
    return MR_OK;
}

static enum mr_status measure_reads(struct limits *l, const struct effort *e, const struct peaks *p, const atomic_bool *stop,
                                    struct mr_error *err)
{
    const size_t quarter = memory_free_bytes() / 4;
    const size_t bytes = (quarter < e->memory_bytes ? quarter : e->memory_bytes) / HUGE_PAGE * HUGE_PAGE;
    const size_t part = bytes / (size_t)l->n_threads / MEMORY_PARTS / (4 * PIECE) * (4 * PIECE), stretch = part * MEMORY_PARTS;
    char *memory = part > 0 ? mem_aligned(HUGE_PAGE, bytes) : NULL;
    if (memory == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory to measure the read rate");
    madvise(memory, bytes, MADV_HUGEPAGE);
    struct read_work w = {.peaks = p, .memory = memory, .stretch = stretch, .part = part, .n_repeat = 1};
    double touched;
    enum mr_status status = timed_rounds(&touched, l->n_threads, 1, touch, &w, stop, err);
    if (status == MR_OK)
        status = measure_read(&l->read_gb_s, &l->read_streams, &w, l->n_threads, e->memory_rounds, stop, err);
    l->read_bytes = bytes;
    if (status == MR_OK && e->has_caches)
        status = measure_caches(l, &w, stretch, stop, err);
    free(memory);
    return status;
}

double limits_clock_ghz(const struct peaks *p)
{
    double best = 0;
    const int64_t n = rounds_for(p->cycles, CLOCK_US);
    for (int i = 0; i < CLOCK_RUNS; i++) {
        const int64_t begin = clock_us();
        p->cycles(n);
        const int64_t taken = clock_us() - begin;
        const double ghz = taken > 0 ? (double)n * PEAK_CYCLES / (double)taken * 1e-3 : 0;
        best = ghz > best ? ghz : best;
    }
    return best;
}

double limits_gops(const struct limits *l, enum peak_type type) { return l->gops[l->gops[type] > 0 ? type : PEAK_F32]; }

static enum mr_status measure(struct limits *out, const struct effort *e, int n_threads, unsigned cpu_features,
                              const atomic_bool *stop, struct mr_error *err)
{
    struct peaks p;
    peaks_select(&p, cpu_features);
    *out = (struct limits){.isa = p.isa, .n_threads = n_threads};
    cpu_caches(out->cache);
    MR_TRY(measure_reads(out, e, &p, stop, err));
    for (int i = 0; i < N_PEAK_TYPES; i++)
        MR_TRY(measure_peak(out, e, &p.peak[i], (enum peak_type)i, stop, err));
    out->clock_ghz = limits_clock_ghz(&p);
    return MR_OK;
}

enum mr_status limits_measure(struct limits *out, int n_threads, unsigned cpu_features, const atomic_bool *stop,
                              struct mr_error *err)
{
    return measure(out, &whole, n_threads, cpu_features, stop, err);
}

enum mr_status limits_measure_quick(struct limits *out, int n_threads, unsigned cpu_features, struct mr_error *err)
{
    return measure(out, &quick, n_threads, cpu_features, NULL, err);
}
