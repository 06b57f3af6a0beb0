/* machine_watch.c: clock samples and /proc/stat. */
#include "measure/machine_watch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/limits.h"
#include "measure/spread.h"

static const double THROTTLED = 0.85; /* samples of a steady clock differ by a tenth on a busy machine */

bool cpu_times_parse(struct cpu_times *out, const char *line)
{
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
    if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait, &irq, &softirq,
               &steal) != 8)
        return false;
    out->busy = user + nice + system + irq + softirq; /* guests are counted in user and nice */
    out->steal = steal;
    out->total = out->busy + steal + idle + iowait;
    return true;
}

static struct cpu_times cpu_times_now(void)
{
    struct cpu_times t = {0};
    char line[512];
    FILE *f = fopen("/proc/stat", "r");
    if (f == NULL)
        return t;
    if (fgets(line, sizeof line, f) == NULL || !cpu_times_parse(&t, line))
        t = (struct cpu_times){0};
    fclose(f);
    return t;
}

static double own_cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void watch_begin(struct machine_watch *w, const struct peaks *peaks)
{
    *w = (struct machine_watch){.peaks = peaks, .begin = cpu_times_now(), .begin_own_s = own_cpu_seconds()};
    watch_sample(w);
}

void watch_sample(struct machine_watch *w)
{
    if (w->n_sample == WATCH_SAMPLES) {
        for (int i = 0; i < WATCH_SAMPLES / 2; i++)
            w->ghz[i] = w->ghz[2 * i];
        w->n_sample = WATCH_SAMPLES / 2;
    }
    w->ghz[w->n_sample++] = limits_clock_ghz(w->peaks);
}

struct machine_report watch_end(const struct machine_watch *w)
{
    double ghz[WATCH_SAMPLES];
    memcpy(ghz, w->ghz, (size_t)w->n_sample * sizeof *ghz);
    const struct spread s = spread_of(ghz, w->n_sample);
    struct machine_report r = {.ghz = s.median, .ghz_min = s.min, .ghz_max = s.max, .throttled = s.min < THROTTLED * s.max};
    const struct cpu_times now = cpu_times_now();
    const double total = (double)(now.total - w->begin.total), tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    if (now.total <= w->begin.total)
        return r;
    const double others = (double)(now.busy - w->begin.busy) - (own_cpu_seconds() - w->begin_own_s) / tick;
    r.steal_share = (double)(now.steal - w->begin.steal) / total;
    r.other_share = others > 0 ? others / total : 0;
    return r;
}
