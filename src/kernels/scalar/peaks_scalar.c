/* peaks_scalar.c: peaks of plain C. An empty asm holds each value in its register: no vector, nothing folded. */
#include "kernels/peaks.h"

#if defined(__x86_64__)
#define HOLD_FLOAT(v) __asm__ volatile("" : "+x"(v))
#else
#define HOLD_FLOAT(v) __asm__ volatile("" : "+w"(v))
#endif
#define HOLD(v)     __asm__ volatile("" : "+r"(v))
#define EIGHT(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)

static void peak_f32_scalar(int64_t n_round)
{
    float a = 1, acc[8] = {0};
    for (int64_t i = 0; i < n_round; i++) {
        HOLD_FLOAT(a);
#define STEP(k)                                                                                                                \
    acc[k] += a * a;                                                                                                           \
    HOLD_FLOAT(acc[k]);
        EIGHT(STEP)
#undef STEP
    }
}

static void peak_int8_scalar(int64_t n_round)
{
    uint32_t a = 1, acc[8] = {0};
    for (int64_t i = 0; i < n_round; i++) {
        HOLD(a);
#define STEP(k)                                                                                                                \
    acc[k] += a * a;                                                                                                           \
    HOLD(acc[k]);
        EIGHT(STEP)
#undef STEP
    }
}

static uint64_t read_scalar(const void *p, size_t bytes, int n_stream)
{
    const size_t n = bytes / (size_t)n_stream / sizeof(uint64_t);
    const uint64_t *word = p;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        for (int s = 0; s < n_stream; s++)
            sum += word[n * (size_t)s + i];
    return sum;
}

static void cycles_scalar(int64_t n_round)
{
    uint64_t x = 0, one = 1; /* a register: some CPUs add constants without spending a cycle */
    HOLD(one);
    for (int64_t i = 0; i < n_round; i++) {
#define STEP(k)                                                                                                                \
    x += one;                                                                                                                  \
    HOLD(x);
        EIGHT(STEP)
#undef STEP
    }
}

void peaks_init_scalar(struct peaks *p)
{
    p->peak[PEAK_F32] = (struct peak){"scalar multiply and add", 16, peak_f32_scalar};
    p->peak[PEAK_INT8] = (struct peak){"scalar multiply and add", 16, peak_int8_scalar};
    p->read = read_scalar;
    p->cycles = cycles_scalar;
}
