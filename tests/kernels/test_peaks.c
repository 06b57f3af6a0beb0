/* test_peaks.c: the peak and read loops of every instruction set that this CPU has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/peaks.h"

static const char *const level[] = {"scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx"};
enum {
    N_LEVELS = sizeof level / sizeof *level,
    WORDS = 4096
};

/* false: this CPU has not got the level. */
static bool select_level(struct peaks *p, int i)
{
    unsigned features;
    if (cpu_features(&features, level[i], NULL) != MR_OK)
        return false;
    peaks_select(p, features);
    return true;
}

static void read_sums_every_word_once(void **state)
{
    (void)state;
    uint64_t *word = mem_aligned(64, WORDS * sizeof *word), want = 0;
    assert_non_null(word);
    for (int i = 0; i < WORDS; i++) {
        word[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
        want += word[i];
    }
    struct peaks p;
    for (int i = 0; i < N_LEVELS; i++)
        for (int n_stream = 1; n_stream <= 4 && select_level(&p, i); n_stream *= 2)
            assert_true(p.read(word, WORDS * sizeof *word, n_stream) == want);
    free(word);
}

static void every_level_has_int8_and_f32_loops_that_end(void **state)
{
    (void)state;
    struct peaks p;
    for (int i = 0; i < N_LEVELS; i++) {
        if (!select_level(&p, i))
            continue;
        assert_non_null(p.peak[PEAK_INT8].instruction);
        assert_non_null(p.peak[PEAK_F32].instruction);
        for (int type = 0; type < N_PEAK_TYPES; type++) {
            if (p.peak[type].instruction == NULL)
                continue;
            assert_true(p.peak[type].ops > 0);
            p.peak[type].run(1);
            p.peak[type].run(1000);
        }
        p.cycles(1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_sums_every_word_once),
        cmocka_unit_test(every_level_has_int8_and_f32_loops_that_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
