/* test_time_split.c: where the time of an answer goes, by a clock that goes on with each look at it. */
#include "base/page_faults.h"
#include "unit/engine/engine_fixture.h"

/* Pages come from a disk in one step of eight, which takes longer for it. */
static struct {
    bool is_on;
    int64_t n_look, n_fault, *now;
} disk;

int64_t __wrap_page_faults_major(void);
int64_t __wrap_page_faults_major(void)
{
    if (disk.is_on && ++disk.n_look % 16 == 0)
        disk.n_fault++;
    else if (disk.is_on && disk.n_look % 16 == 15)
        *disk.now += 5000;
    return disk.n_fault;
}

static int64_t count_looks(void *context) { return *(int64_t *)context += 10; }

/* Two answers that together need more blocks than there are; *out: of the one that was put aside most. */
static void run_two(struct mr_usage *out, int kv_tokens)
{
    struct mr_model *m = fixture_model(1);
    struct mr_options options;
    struct mr_error err = {{0}};
    struct mr_engine *e;
    struct mr_request request;
    struct mr_event event;
    int64_t now = 0;
    disk.now = &now;
    int32_t prompt[] = {'a', 'b', 'c', 'd'};
    uint64_t id;
    mr_options_defaults(&options);
    options.max_running = 2;
    options.n_ctx = 64;
    options.kv_tokens = kv_tokens;
    options.clock_us = count_looks;
    options.clock_context = &now;
    check(mr_engine_create(&e, m, &options, &err), &err);
    *out = (struct mr_usage){0};
    for (int i = 0; i < 2; i++) {
        mr_request_defaults(&request);
        prompt[0] = 'a' + i;
        request.prompt = prompt;
        request.n_prompt = 4;
        request.max_tokens = 50;
        request.ignore_eos = true;
        check(mr_engine_submit(e, &request, &id, &err), &err);
    }
    while (!mr_engine_is_idle(e))
        mr_engine_step(e);
    while (mr_engine_next_event(e, &event))
        if (event.finish != MR_FINISH_NONE && event.usage.n_preempted >= out->n_preempted)
            *out = event.usage;
    mr_engine_free(e);
    mr_model_close(m);
}

static void check_parts(const struct mr_usage *u)
{
    assert_true(u->prompt_memory_us >= 0 && u->prompt_sample_us >= 0);
    assert_true(u->prompt_memory_us + u->prompt_sample_us <= u->prompt_us);
    assert_true(u->memory_us - u->prompt_memory_us + u->sample_us - u->prompt_sample_us <= u->generate_us);
    assert_true(u->sample_us > 0);
}

static void choosing_tokens_takes_a_part(void **state)
{
    struct mr_usage u;
    (void)state;
    run_two(&u, 0);
    check_parts(&u);
    assert_int_equal(u.n_preempted, 0);
    assert_int_equal(u.memory_us, 0);
}

static void who_is_put_aside_waits_for_memory(void **state)
{
    struct mr_usage u;
    (void)state;
    run_two(&u, 64);
    check_parts(&u);
    assert_true(u.n_preempted > 0);
    assert_true(u.memory_us > 0);
}

static void pages_from_a_disk_are_memory_s_time(void **state)
{
    struct mr_usage u;
    (void)state;
    disk.is_on = true;
    run_two(&u, 0);
    disk.is_on = false;
    check_parts(&u);
    assert_int_equal(u.n_preempted, 0);
    assert_in_range(u.memory_us, 10000, 40000); /* 50 steps, in some of which 5 ms were waited */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(choosing_tokens_takes_a_part),
                                       cmocka_unit_test(who_is_put_aside_waits_for_memory),
                                       cmocka_unit_test(pages_from_a_disk_are_memory_s_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
