/* test_metrics.c: what is counted of requests, on a clock of the test's own, and the page that tells it. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/limits.h"
#include "server/metrics.h"
#include "server/process_stats.h"

static int64_t now_us;
static struct mr_engine_stats engine;

static int64_t test_clock(void *context)
{
    (void)context;
    return now_us;
}

static void test_stats(const void *context, struct mr_engine_stats *out)
{
    (void)context;
    *out = engine;
}

struct fixture {
    struct metrics *m;
    struct model_metrics *mm;
    struct string_buffer page;
};

static int make(void **state)
{
    static struct fixture f;
    const struct metrics_options options = {
        .latency_target_ms = 500, .itl_target_ms = 50, .threads = 2, .clock_us = test_clock};
    const struct metrics_source source = {
        .stats = test_stats, .info = {.n_parameters = 1000000, .weight_bytes = 500000}, .load_s = 1.5};
    now_us = 5000000;
    engine = (struct mr_engine_stats){0};
    string_buffer_init(&f.page);
    if (metrics_create(&f.m, &options, NULL) != MR_OK || (f.mm = metrics_model(f.m, "m\"\\\n")) == NULL)
        return 1;
    metrics_set_source(f.mm, &source);
    *state = &f;
    return 0;
}

static int destroy(void **state)
{
    struct fixture *f = *state;
    metrics_free(f->m);
    string_buffer_release(&f->page);
    return 0;
}

static const char *page(struct fixture *f, const char *names)
{
    string_buffer_clear(&f->page);
    assert_int_equal(metrics_write(f->m, names, &f->page, NULL), MR_OK);
    return f->page.s;
}

#define MODEL "model=\"m\\\"\\\\\\n\""

/* The value of the series `name{labels}` on the page. */
static double value_of(struct fixture *f, const char *name, const char *labels)
{
    char series[256];
    snprintf(series, sizeof series, "\n%s{" MODEL "%s} ", name, labels);
    const char *at = strstr(page(f, NULL), series);
    if (at == NULL)
        fail_msg("%s is not on the page", series);
    return strtod(at + strlen(series), NULL);
}

static struct request_life begin(struct fixture *f)
{
    struct request_life life = {.begin_us = now_us - 3000, .arrival_us = now_us - 2000, .submit_us = now_us, .n_answers = 1};
    metrics_request_begin(f->mm, &life);
    return life;
}

static void token(struct fixture *f, struct request_life *life, int sample, int64_t after_us)
{
    const struct mr_event e = {.sample = sample, .token = 7};
    now_us += after_us;
    metrics_event(f->mm, life, &e);
}

static void finish(struct fixture *f, struct request_life *life, int sample, enum mr_finish how, enum mr_status status)
{
    const struct mr_event e = {.sample = sample,
                               .token = -1,
                               .finish = how,
                               .status = status,
                               .usage = {.n_prompt = 20,
                                         .n_cached = 16,
                                         .n_generated = life->n_tokens[sample],
                                         .queue_us = 4000,
                                         .prompt_us = 5000,
                                         .generate_us = 6000,
                                         .is_bound = true}};
    metrics_event(f->mm, life, &e);
}

static void an_answered_request_is_counted_once_everywhere(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    assert_true(value_of(f, "millrace_requests_in_flight", "") == 1);
    token(f, &life, 0, 98000);
    metrics_first_byte(f->mm, &life);
    metrics_first_byte(f->mm, &life);
    token(f, &life, 0, 20000);
    token(f, &life, 0, 30000);
    finish(f, &life, 0, MR_FINISH_STOP, MR_OK);
    metrics_request_end(f->mm, &life);
    assert_true(value_of(f, "millrace_requests_in_flight", "") == 0);
    assert_true(value_of(f, "millrace_requests_total", ",outcome=\"stop\"") == 1);
    assert_true(value_of(f, "millrace_prompt_tokens_total", "") == 20);
    assert_true(value_of(f, "millrace_prompt_tokens_cached_total", "") == 16);
    assert_true(value_of(f, "millrace_generation_tokens_total", "") == 3);
    assert_true(value_of(f, "millrace_time_to_first_token_seconds_count", "") == 1);
    assert_true(fabs(value_of(f, "millrace_time_to_first_token_seconds_sum", "") - 0.1) < 1e-9);
    assert_true(value_of(f, "millrace_time_to_first_token_seconds_bucket", ",le=\"0.075\"") == 0);
    assert_true(value_of(f, "millrace_time_to_first_token_seconds_bucket", ",le=\"0.1\"") == 1);
    assert_true(value_of(f, "millrace_time_to_first_token_seconds_bucket", ",le=\"+Inf\"") == 1);
    assert_true(value_of(f, "millrace_time_to_first_byte_seconds_count", "") == 1);
    assert_true(value_of(f, "millrace_inter_token_latency_seconds_count", "") == 2);
    assert_true(fabs(value_of(f, "millrace_inter_token_latency_seconds_sum", "") - 0.05) < 1e-9);
    assert_true(fabs(value_of(f, "millrace_time_per_output_token_seconds_sum", "") - 0.025) < 1e-9);
    assert_true(value_of(f, "millrace_slo_met_total", ",bound=\"yes\"") == 1);
}

static void the_stages_sum_to_the_whole(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    int64_t stage[N_STAGES], sum = 0;
    life.loading_us = 500;
    token(f, &life, 0, 7000);
    token(f, &life, 0, 6000);
    finish(f, &life, 0, MR_FINISH_LENGTH, MR_OK);
    now_us += 4000;
    life.usage.memory_us = 700, life.usage.prompt_memory_us = 300;
    life.usage.sample_us = 900, life.usage.prompt_sample_us = 100;
    request_life_stages(&life, now_us, stage);
    for (int i = 0; i < N_STAGES; i++)
        sum += stage[i];
    assert_int_equal(sum, now_us - life.begin_us);
    const int64_t want[N_STAGES] = {1000, 1500, 500, 2000, 700, 4600, 4800, 900, 4000};
    for (int i = 0; i < N_STAGES; i++)
        assert_int_equal(stage[i], want[i]);
}

static void stages_never_overlap_where_clocks_disagree(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    int64_t stage[N_STAGES], sum = 0;
    life.usage = (struct mr_usage){.queue_us = 100, .prompt_us = 1000000000, .generate_us = 5};
    now_us += 1000;
    request_life_stages(&life, now_us, stage);
    for (int i = 0; i < N_STAGES; i++) {
        assert_true(stage[i] >= 0);
        sum += stage[i];
    }
    assert_int_equal(sum, now_us - life.begin_us);
    metrics_request_end(f->mm, &life);
}

static void several_answers_share_a_prompt(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    life.n_answers = 3;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k <= i; k++)
            token(f, &life, i, 1000);
    for (int i = 0; i < 3; i++)
        finish(f, &life, i, MR_FINISH_STOP, MR_OK);
    metrics_request_end(f->mm, &life);
    assert_true(value_of(f, "millrace_requests_total", ",outcome=\"stop\"") == 1);
    assert_true(value_of(f, "millrace_prompt_tokens_total", "") == 20);
    assert_true(value_of(f, "millrace_generation_tokens_total", "") == 6);
    assert_true(value_of(f, "millrace_inter_token_latency_seconds_count", "") == 3);
    assert_true(value_of(f, "millrace_request_generation_tokens_count", "") == 3);
}

static void who_leaves_before_the_last_answer_has_cancelled(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    life.n_answers = 2;
    token(f, &life, 0, 1000);
    finish(f, &life, 0, MR_FINISH_STOP, MR_OK);
    metrics_request_end(f->mm, &life);
    assert_true(value_of(f, "millrace_requests_total", ",outcome=\"cancelled\"") == 1);
}

static void an_answer_told_as_a_whole_counts_its_tokens(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    const struct mr_event e = {.token = -1, .finish = MR_FINISH_STOP, .usage = {.n_prompt = 4, .n_generated = 9}};
    metrics_event(f->mm, &life, &e);
    metrics_request_end(f->mm, &life);
    assert_true(value_of(f, "millrace_generation_tokens_total", "") == 9);
}

static void each_end_has_its_outcome(void **state)
{
    static const struct {
        enum mr_finish finish;
        enum mr_status status;
        bool has_token;
        const char *outcome, *cause;
    } cases[] = {
        {MR_FINISH_NONE, MR_OK, true, "cancelled", NULL},
        {MR_FINISH_CANCELLED, MR_OK, true, "cancelled", NULL},
        {MR_FINISH_TIMEOUT, MR_OK, true, "timeout", NULL},
        {MR_FINISH_ERROR, MR_BUSY, false, "refused", NULL},
        {MR_FINISH_ERROR, MR_FULL, false, "refused", NULL},
        {MR_FINISH_ERROR, MR_BAD_INPUT, false, "rejected", NULL},
        {MR_FINISH_ERROR, MR_FULL, true, "out_of_memory", "kv_full"},
        {MR_FINISH_ERROR, MR_NO_MEMORY, true, "out_of_memory", "host_memory"},
        {MR_FINISH_ERROR, MR_IO, true, "error", "internal"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char outcome[64], cause[64];
        struct request_life life = begin(f);
        snprintf(outcome, sizeof outcome, ",outcome=\"%s\"", cases[i].outcome);
        snprintf(cause, sizeof cause, ",cause=\"%s\"", cases[i].cause != NULL ? cases[i].cause : "internal");
        const double before = value_of(f, "millrace_requests_total", outcome);
        const double failed = value_of(f, "millrace_request_errors_total", cause);
        if (cases[i].has_token)
            token(f, &life, 0, 1000);
        if (cases[i].finish != MR_FINISH_NONE)
            finish(f, &life, 0, cases[i].finish, cases[i].status);
        metrics_request_end(f->mm, &life);
        assert_true(value_of(f, "millrace_requests_total", outcome) == before + 1);
        assert_true(value_of(f, "millrace_request_errors_total", cause) == failed + (cases[i].cause != NULL));
    }
}

static void attainment_counts_late_and_refused_ones_as_missed(void **state)
{
    struct fixture *f = *state;
    metrics_tick(f->m);
    for (int i = 0; i < 4; i++) { /* one in time, one late, one slow, one refused */
        struct request_life life = begin(f);
        if (i == 3) {
            finish(f, &life, 0, MR_FINISH_ERROR, MR_BUSY);
        } else {
            token(f, &life, 0, i == 1 ? 600000 : 100000);
            token(f, &life, 0, i == 2 ? 80000 : 20000);
            finish(f, &life, 0, MR_FINISH_STOP, MR_OK);
        }
        metrics_request_end(f->mm, &life);
    }
    metrics_turned_away(f->mm, OUTCOME_REFUSED);
    assert_true(fabs(value_of(f, "millrace_slo_attainment_ratio", "") - 0.2) < 1e-9);
    assert_true(value_of(f, "millrace_slo_requests_total", ",bound=\"yes\"") == 5);
}

/* A second in which the engine worked for half of the time, on a hundred rows of which twenty were lost. */
static void recent_values_are_over_time_whoever_reads(void **state)
{
    struct fixture *f = *state;
    struct limits limits = {.n_threads = 2, .read_gb_s = 1, .gops = {[PEAK_INT8] = 100, [PEAK_F32] = 10}};
    metrics_set_limits(f->m, &limits);
    metrics_tick(f->m);
    struct request_life life = begin(f);
    for (int i = 0; i < 40; i++)
        token(f, &life, 0, 25000);
    engine = (struct mr_engine_stats){
        .n_steps = 50, .step_us = 500000, .n_decode_rows = 60, .n_prompt_rows = 40, .n_redone_rows = 20};
    finish(f, &life, 0, MR_FINISH_STOP, MR_OK);
    metrics_request_end(f->mm, &life);
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(value_of(f, "millrace_generation_tokens_per_second", "") - 40) < 1e-6);
        assert_true(fabs(value_of(f, "millrace_effective_throughput_tokens_per_second", "") - 100) < 1e-6);
        assert_true(fabs(value_of(f, "millrace_goodput_requests_per_second", "") - 1) < 1e-6);
        assert_true(fabs(value_of(f, "millrace_engine_busy_ratio", "") - 0.5) < 1e-6);
        assert_true(fabs(value_of(f, "millrace_engine_batch_rows", "") - 2) < 1e-6);
        assert_true(fabs(value_of(f, "millrace_mfu_ratio", "") - 2e6 * 100 / 100e9) < 1e-9);
        assert_true(fabs(value_of(f, "millrace_mbu_ratio", "") - 500000 * 50 / 1e9) < 1e-9);
    }
    for (int i = 0; i < METRICS_RECENT_S + 1; i++) {
        now_us += 1000000;
        metrics_tick(f->m);
    }
    assert_true(value_of(f, "millrace_generation_tokens_per_second", "") == 0);
    assert_true(value_of(f, "millrace_generation_tokens_total", "") == 40);
}

static void work_for_who_left_is_lost(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    for (int i = 0; i < 10; i++)
        token(f, &life, 0, 1000);
    metrics_request_end(f->mm, &life);
    assert_true(value_of(f, "millrace_engine_rows_lost_total", "") == 10);
    assert_true(value_of(f, "millrace_generation_tokens_total", "") == 10);
}

static void steps_give_the_batch_size(void **state)
{
    struct fixture *f = *state;
    const struct mr_engine_stats one = {.n_steps = 1, .step_us = 2000, .n_prompt_rows = 30};
    const struct mr_engine_stats two = {.n_steps = 2, .step_us = 6000, .n_prompt_rows = 30, .n_decode_rows = 4};
    metrics_step(f->mm, &one);
    metrics_step(f->mm, &two);
    metrics_step(f->mm, &two);
    assert_true(value_of(f, "millrace_engine_step_rows_count", "") == 2);
    assert_true(value_of(f, "millrace_engine_step_rows_bucket", ",le=\"4\"") == 1);
    assert_true(fabs(value_of(f, "millrace_engine_step_duration_seconds_sum", "") - 0.006) < 1e-9);
}

/* Every line but comments belongs to the family of the last TYPE line, and no family stands twice. */
static void families_stand_together(void **state)
{
    static const char *const names[] = {"millrace", "vllm", "llamacpp"};
    struct fixture *f = *state;
    metrics_model(f->m, "second");
    metrics_http(f->m, "GET", "/health", 200, 0, 15);
    for (size_t i = 0; i < 3; i++) {
        char family[128] = "", seen[8192] = "\n";
        char *rest = NULL;
        char *copy = strdup(page(f, names[i]));
        for (char *line = strtok_r(copy, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
            if (sscanf(line, "# TYPE %127s", family) == 1) {
                char entry[160];
                snprintf(entry, sizeof entry, "\n%s\n", family);
                assert_null(strstr(seen, entry));
                strncat(seen, entry + 1, sizeof seen - strlen(seen) - 1);
            } else if (line[0] != '#') {
                assert_int_equal(strncmp(line, family, strlen(family)), 0);
            }
        }
        free(copy);
    }
    assert_int_equal(metrics_write(f->m, "other", &f->page, NULL), MR_NOT_FOUND);
}

static void a_model_unloaded_keeps_its_counts(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    token(f, &life, 0, 1000);
    finish(f, &life, 0, MR_FINISH_STOP, MR_OK);
    metrics_request_end(f->mm, &life);
    metrics_set_source(f->mm, NULL);
    engine.n_running = 99;
    assert_true(value_of(f, "millrace_requests_running", "") == 0);
    assert_true(value_of(f, "millrace_generation_tokens_total", "") == 1);
}

static void an_event_of_no_answer_is_ignored(void **state)
{
    struct fixture *f = *state;
    struct request_life life = begin(f);
    const struct mr_event low = {.sample = -1, .token = 1}, high = {.sample = MR_N_MAX, .token = 1};
    metrics_event(f->mm, &life, &low);
    metrics_event(f->mm, &life, &high);
    metrics_request_end(f->mm, &life);
    assert_true(value_of(f, "millrace_generation_tokens_total", "") == 0);
}

static double plain_value(struct fixture *f, const char *series)
{
    char start[128];
    snprintf(start, sizeof start, "\n%s ", series);
    const char *at = strstr(page(f, NULL), start);
    if (at == NULL)
        fail_msg("%s is not on the page", series);
    return strtod(at + strlen(start), NULL);
}

static void batches_are_what_they_are_now_and_their_lines_add_up(void **state)
{
    struct fixture *f = *state;
    const struct metrics_batches some = {
        .n_validating = 1, .n_in_progress = 2, .n_cancelling = 3, .n_pending = 70, .oldest_s = 5};
    assert_true(plain_value(f, "millrace_batches{status=\"in_progress\"}") == 0);
    assert_true(plain_value(f, "millrace_batch_oldest_line_age_seconds") == 0);
    metrics_set_batches(f->m, &some);
    now_us += 2500000;
    assert_true(plain_value(f, "millrace_batches{status=\"validating\"}") == 1);
    assert_true(plain_value(f, "millrace_batches{status=\"in_progress\"}") == 2);
    assert_true(plain_value(f, "millrace_batches{status=\"finalizing\"}") == 0);
    assert_true(plain_value(f, "millrace_batches{status=\"cancelling\"}") == 3);
    assert_true(plain_value(f, "millrace_batch_lines_pending") == 70);
    assert_true(fabs(plain_value(f, "millrace_batch_oldest_line_age_seconds") - 7.5) < 1e-9);
    metrics_batch_lines(f->m, BATCH_LINES_COMPLETED, 60);
    metrics_batch_lines(f->m, BATCH_LINES_COMPLETED, 5);
    metrics_batch_lines(f->m, BATCH_LINES_FAILED, 5);
    metrics_set_lines_pending(f->m, 0);
    assert_true(plain_value(f, "millrace_batch_lines_total{result=\"completed\"}") == 65);
    assert_true(plain_value(f, "millrace_batch_lines_total{result=\"failed\"}") == 5);
    assert_true(plain_value(f, "millrace_batch_lines_total{result=\"expired\"}") == 0);
    assert_true(plain_value(f, "millrace_batch_oldest_line_age_seconds") == 0);
}

static void the_thread_looks_and_stops(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(metrics_start(f->m, NULL), MR_OK);
}

static void *live_and_end(void *context)
{
    struct fixture *f = context;
    for (int i = 0; i < 200; i++) {
        struct request_life life = {.begin_us = 1, .arrival_us = 2, .submit_us = 3, .n_answers = 1};
        const struct mr_event last = {.token = 7, .finish = MR_FINISH_STOP, .usage = {.n_prompt = 1, .n_generated = 1}};
        metrics_request_begin(f->mm, &life);
        metrics_event(f->mm, &life, &last);
        metrics_request_end(f->mm, &life);
        metrics_http(f->m, "GET", "/x", 200, 1, 1);
    }
    return NULL;
}

static void threads_observe_while_pages_are_written(void **state)
{
    struct fixture *f = *state;
    pthread_t thread[3];
    assert_int_equal(metrics_start(f->m, NULL), MR_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, live_and_end, f), 0);
    for (int i = 0; i < 20; i++)
        page(f, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    assert_true(value_of(f, "millrace_requests_total", ",outcome=\"stop\"") == 600);
    assert_true(value_of(f, "millrace_requests_in_flight", "") == 0);
}

static void the_process_is_read(void **state)
{
    struct process_stats p;
    (void)state;
    process_stats_read(&p, "");
    assert_true(p.resident_bytes > 1 << 20);
    assert_true(p.open_files >= 3);
    assert_true(p.start_s > 1e9);
    process_stats_read(&p, "/nonexistent");
    assert_true(p.resident_bytes == 0 && p.oom_kills == -1);
}

static void write_status(const char *path, int kb)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f, "Name:\tmillrace\nVmRSS:\t  90000 kB\nVmSwap:\t  %d kB\n", kb);
    assert_int_equal(fclose(f), 0);
}

static void what_is_swapped_out_is_told_when_it_has_grown(void **state)
{
    char root[] = "/tmp/millrace-proc-XXXXXX", path[64];
    int64_t known = 0;
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/proc", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/proc/self", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    write_status(path, 8191);
    assert_int_equal(process_swap_grown(&known, root), 0);
    write_status(path, 8192);
    assert_int_equal(process_swap_grown(&known, root), 8 << 20);
    write_status(path, 16383);
    assert_int_equal(process_swap_grown(&known, root), 0);
    write_status(path, 20000);
    assert_int_equal(process_swap_grown(&known, root), 20000 << 10);
    unlink(path);
    for (int i = 0; i < 2; i++) {
        *strrchr(path, '/') = '\0';
        rmdir(path);
    }
    rmdir(root);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, destroy)
    const struct CMUnitTest tests[] = {
        TEST(an_answered_request_is_counted_once_everywhere),
        cmocka_unit_test(what_is_swapped_out_is_told_when_it_has_grown),
        TEST(the_stages_sum_to_the_whole),
        TEST(stages_never_overlap_where_clocks_disagree),
        TEST(several_answers_share_a_prompt),
        TEST(who_leaves_before_the_last_answer_has_cancelled),
        TEST(an_answer_told_as_a_whole_counts_its_tokens),
        TEST(each_end_has_its_outcome),
        TEST(attainment_counts_late_and_refused_ones_as_missed),
        TEST(recent_values_are_over_time_whoever_reads),
        TEST(work_for_who_left_is_lost),
        TEST(steps_give_the_batch_size),
        TEST(families_stand_together),
        TEST(a_model_unloaded_keeps_its_counts),
        TEST(an_event_of_no_answer_is_ignored),
        TEST(batches_are_what_they_are_now_and_their_lines_add_up),
        TEST(the_thread_looks_and_stops),
        TEST(threads_observe_while_pages_are_written),
        cmocka_unit_test(the_process_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
