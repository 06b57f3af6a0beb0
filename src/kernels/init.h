/* init.h: what fills the table, one function for each instruction set: it overwrites what it does better. */
#ifndef KERNELS_INIT_H
#define KERNELS_INIT_H

#include "kernels/kernels.h"

struct kernels_isa {
    const char *name;
    unsigned cpu; /* the features it needs, all of them */
    void (*init)(struct kernels *k);
};

/* In ascending order; the reference first. NULL past the end. */
const struct kernels_isa *kernels_isa_at(int i);

void kernels_init_scalar(struct kernels *k);
#if defined(__x86_64__)
void kernels_init_avx2(struct kernels *k);
void kernels_init_avxvnni(struct kernels *k);
void kernels_init_avx512(struct kernels *k);
void kernels_init_avx512vnni(struct kernels *k);
void kernels_init_avx512bf16(struct kernels *k);
void kernels_init_amx(struct kernels *k);
#endif

#endif
