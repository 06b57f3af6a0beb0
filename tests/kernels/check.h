/* check.h: what the kernel tests share: options, random numbers, guarded memory, the walk over instruction sets.
 * Every variant is compared with the scalar reference; a failure prints seed, instruction set and shape.
 *   --isa NAME     only this one        --filter TEXT  only checks whose name holds TEXT
 *   --seed N                            --bench        speeds instead of checks */
#ifndef TESTS_KERNELS_CHECK_H
#define TESTS_KERNELS_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "kernels/init.h"

enum {
    CHECK_GUARD = 64,
    CHECK_GUARD_BYTE = 0xa5,
#ifdef TEST_SANITIZED
    CHECK_SANITIZED = 1
#else
    CHECK_SANITIZED = 0
#endif
};

struct check {
    const char *only_isa, *filter;
    uint64_t seed, state;
    bool bench;
    const char *isa; /* under test */
    int n_check, n_fail;
};

static inline uint64_t check_random(struct check *c)
{
    c->state += 0x9e3779b97f4a7c15; /* splitmix64 */
    uint64_t z = c->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static inline float check_uniform(struct check *c) { return (float)(check_random(c) >> 40) * 0x1p-24f; }

/* Near enough to normal: twelve uniforms. */
static inline float check_gauss(struct check *c)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += check_uniform(c);
    return sum;
}

__attribute__((format(printf, 3, 4))) static inline bool check_that(struct check *c, bool ok, const char *format, ...)
{
    c->n_check++;
    if (ok)
        return true;
    if (c->n_fail++ < 20) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "FAILED seed=%llu isa=%s ", (unsigned long long)c->seed, c->isa);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
    }
    return false;
}

static inline bool check_wanted(const struct check *c, const char *name)
{
    return c->filter == NULL || strstr(name, c->filter) != NULL;
}

/* n bytes, 64-byte aligned, between guards; the program ends where there is no memory. */
static inline void *check_alloc(size_t n)
{
    const size_t whole = (n + CHECK_GUARD + 63) / 64 * 64 + CHECK_GUARD;
    char *p = aligned_alloc(64, whole);
    if (p == NULL)
        abort();
    memset(p, CHECK_GUARD_BYTE, whole);
    return p + CHECK_GUARD;
}

static inline void check_free(void *p)
{
    if (p != NULL)
        free((char *)p - CHECK_GUARD);
}

static inline void check_guards(struct check *c, const void *p, size_t n, const char *name)
{
    const unsigned char *at = p;
    bool ok = true;
    for (int i = 1; i <= CHECK_GUARD; i++)
        ok = ok && at[-i] == CHECK_GUARD_BYTE && at[n + (size_t)i - 1] == CHECK_GUARD_BYTE;
    check_that(c, ok, "%s: written outside of its memory", name);
}

typedef void check_fn(struct check *c, const struct kernels *reference, const struct kernels *k);

/* Run check on every level this CPU has, each with the levels before it underneath. */
static inline int check_main(int argc, char **argv, check_fn *check, check_fn *bench)
{
    struct check c = {.seed = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            c.bench = true;
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
            c.only_isa = argv[++i];
        else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            c.filter = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            c.seed = strtoull(argv[++i], NULL, 10);
        else
            return fprintf(stderr, "usage: %s [--isa NAME] [--filter TEXT] [--seed N] [--bench]\n", argv[0]), 2;
    }
    static struct kernels reference, k;
    kernels_select(&reference, 0);
    unsigned features = 0;
    for (int i = 0; kernels_isa_at(i) != NULL; i++) {
        const struct kernels_isa *isa = kernels_isa_at(i);
        features |= isa->cpu;
        if ((cpu_detect() & isa->cpu) != isa->cpu) {
            printf("%s: not on this CPU\n", isa->name);
            continue;
        }
        if (c.only_isa != NULL && strcmp(c.only_isa, isa->name) != 0)
            continue;
        kernels_select(&k, features);
        c.isa = isa->name;
        c.state = c.seed;
        (c.bench ? bench : check)(&c, &reference, &k);
    }
    if (!c.bench)
        printf("%d checks, %d failed\n", c.n_check, c.n_fail);
    return c.n_fail != 0;
}

#endif
