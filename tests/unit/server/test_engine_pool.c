/* test_engine_pool.c: a pool over processes that do as the test says: this program again, in the role of an engine that
 * answers, dies, lies or refuses. What it does is in the first token of the prompt. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/engine_link.h"
#include "server/engine_pool.h"
#include "server/engine_process.h"
#include "server/engine_spawn.h"
#include "server/frame.h"
#include "server/wire.h"

enum {
    ANSWER = 1,
    DIE,           /* without a word */
    DIE_ONCE,      /* the same, where the file of the config is there; it is removed first */
    DIE_ANSWERING, /* behind the first token */
    GARBAGE,       /* bytes that are no frame */
    LIE,           /* a token that no model has */
    REFUSE,        /* BUSY, but for the second of the active ones */
    REFUSE_ALL,
    TELL_ORDERS, /* its token: 100 times the adapters, and the capacity of the bucket */
    TELL_CONFIG, /* its token: max_queue */
    HOLD,        /* says nothing until it is cancelled, then dies: who was cancelled is not waited for */
    PATIENCE_MS = 60000
};

/* The role. */

static void tell(int fd, enum frame_kind kind, uint64_t ticket, int64_t value, const void *payload, size_t n)
{
    struct frame_buffer out;
    frame_buffer_init(&out);
    void *to = frame_push(&out, kind, ticket, value, n);
    if (n > 0)
        memcpy(to, payload, n);
    frame_send(&out, fd, NULL);
    frame_buffer_release(&out);
}

static void tell_event(int fd, uint64_t ticket, const struct mr_event *e)
{
    char record[1024];
    wire_event_write(record, e);
    tell(fd, FRAME_EVENT, ticket, e->status == MR_BUSY ? 1234 : 0, record, wire_event_bytes(e));
}

static void answer(int fd, uint64_t ticket, int what, int64_t index, const char *path)
{
    const struct mr_event token = {.token = what == LIE ? 1000000 : (int32_t)index, .text = "x", .n_text = 1};
    const struct mr_event end = {.token = -1, .text = "", .finish = MR_FINISH_STOP};
    const struct mr_event busy = {.token = -1, .text = "", .finish = MR_FINISH_ERROR, .status = MR_BUSY, .error = "busy"};
    if (what == DIE || (what == DIE_ONCE && unlink(path) == 0))
        _exit(1);
    if (what == HOLD)
        return;
    if (what == GARBAGE)
        send(fd, "this is no frame, whatever it is", 32, MSG_NOSIGNAL);
    if (what == REFUSE_ALL || (what == REFUSE && index != 1)) {
        tell_event(fd, ticket, &busy);
        return;
    }
    tell_event(fd, ticket, &token);
    if (what == DIE_ANSWERING)
        _exit(1);
    tell_event(fd, ticket, &end);
}

/* What orders have made of the role. */
struct told {
    int32_t n_adapter, bucket;
};

static void obey(int fd, const struct frame_head *head, const void *payload, int64_t index, struct told *told)
{
    struct engine_order o;
    static const char message[] = "it is bad";
    engine_order_read(&o, payload, (size_t)head->bytes, NULL);
    if (o.kind == ENGINE_ORDER_LOAD_ADAPTER && strcmp(o.path, "bad for the second") == 0 && index == 1) {
        tell(fd, FRAME_DONE, head->ticket, MR_BAD_FORMAT, message, strlen(message));
        return;
    }
    told->n_adapter += o.kind == ENGINE_ORDER_LOAD_ADAPTER;
    told->n_adapter -= o.kind == ENGINE_ORDER_UNLOAD_ADAPTER && told->n_adapter > 0;
    told->bucket = o.kind == ENGINE_ORDER_TARGETS ? o.targets.bucket_capacity : told->bucket;
    tell(fd, FRAME_DONE, head->ticket, MR_OK, NULL, 0);
}

static int play_engine(void)
{
    struct told told = {0};
    struct frame_hello hello;
    struct frame_buffer in;
    struct frame_head head;
    struct engine_config config = {0};
    const void *payload;
    char record[4096];
    int64_t index = -1;
    const int fd = ENGINE_PROCESS_FD;
    engine_spawn_settle();
    frame_buffer_init(&in);
    frame_hello_make(&hello);
    tell(fd, FRAME_HELLO, 0, 0, &hello, sizeof hello);
    while (frame_receive(&in, fd, NULL) == MR_OK) {
        while (frame_next(&in, &head, &payload, NULL) == MR_OK) {
            struct wire_request r;
            if (head.kind == FRAME_CONFIG) {
                memcpy(record, payload, (size_t)head.bytes);
                engine_config_read(&config, record, (size_t)head.bytes, NULL);
                if (strcmp(config.path, "broken") == 0) {
                    tell(fd, FRAME_FAILED, 0, MR_BAD_FORMAT, "it is broken", 12);
                    return 1;
                }
                tell(fd, FRAME_OPENED, 0, 0, NULL, 0);
            } else if (head.kind == FRAME_BEGIN) {
                index = head.value;
                tell(fd, FRAME_READY, 0, 128, NULL, 0);
            } else if (head.kind == FRAME_REQUEST) {
                wire_request_read(&r, payload);
                const int what = r.request.prompt[0];
                answer(fd, head.ticket, what,
                       what == TELL_ORDERS   ? told.n_adapter * 100 + told.bucket
                       : what == TELL_CONFIG ? config.options.max_queue
                                             : index,
                       config.path);
            } else if (head.kind == FRAME_ORDER) {
                obey(fd, &head, payload, index, &told);
            } else if (head.kind == FRAME_CANCEL) {
                _exit(1);
            }
        }
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
    }
    return 0;
}

/* The tests. */

static struct engine_link *open_pool(int n_active, int n_standby, const char *path)
{
    struct engine_pool_options options = {
        .config = {.path = path, .n_active = n_active}, .n_standby = n_standby, .n_vocab = 1000, .n_embd = 8, .model_fd = -1};
    struct engine_link *l;
    struct mr_error err = {""};
    mr_options_defaults(&options.config.options);
    if (engine_pool_create(&l, &options, NULL, NULL, &err) != MR_OK)
        fail_msg("%s", err.message);
    assert_int_equal(engine_link_n_ctx(l), 128);
    return l;
}

static void submit(struct engine_link *l, uint64_t ticket, int32_t what)
{
    const int32_t prompt[] = {what, (int32_t)ticket};
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt, r.n_prompt = 2;
    assert_int_equal(engine_link_submit(l, ticket, &r, NULL), MR_OK);
}

static struct mr_event next(struct engine_link *l, int64_t *retry_after_ms)
{
    struct mr_event e;
    while (!engine_link_next_event(l, &e, retry_after_ms))
        assert_int_equal(poll(&(struct pollfd){.fd = engine_link_event_fd(l), .events = POLLIN}, 1, PATIENCE_MS), 1);
    return e;
}

/* A token and an end; returns the token. */
static int32_t expect_answer(struct engine_link *l, uint64_t ticket)
{
    int64_t retry;
    const struct mr_event token = next(l, &retry), end = next(l, &retry);
    assert_int_equal(token.request, ticket);
    assert_int_equal(token.finish, MR_FINISH_NONE);
    assert_int_equal(end.request, ticket);
    assert_int_equal(end.finish, MR_FINISH_STOP);
    return token.token;
}

static void expect_error(struct engine_link *l, uint64_t ticket, const char *part)
{
    int64_t retry;
    const struct mr_event e = next(l, &retry);
    assert_int_equal(e.request, ticket);
    assert_int_equal(e.finish, MR_FINISH_ERROR);
    assert_non_null(strstr(e.error, part));
}

static struct engine_pool_counts count(struct engine_link *l)
{
    struct engine_pool_counts c;
    engine_pool_counts(l, &c);
    return c;
}

static void requests_are_divided(void **state)
{
    struct engine_link *l = open_pool(2, 0, "m");
    int n[2] = {0};
    (void)state;
    for (uint64_t i = 1; i <= 20; i++) {
        submit(l, i, ANSWER);
        n[expect_answer(l, i)]++;
    }
    assert_true(n[0] > 0 && n[1] > 0);
    engine_link_free(l);
}

static void a_request_without_output_is_given_to_another(void **state)
{
    char path[] = "/tmp/millrace-pool-XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    struct engine_link *l = open_pool(1, 1, path);
    submit(l, 1, DIE_ONCE);
    expect_answer(l, 1);
    const struct engine_pool_counts c = count(l);
    assert_int_equal(c.n_handed_on, 1);
    assert_int_equal(c.n_died, 1);
    assert_int_equal(c.n_lost, 0);
    assert_true(c.take_over_us > 0);
    assert_true(access(path, F_OK) != 0);
    engine_link_free(l);
}

static void a_request_that_kills_is_not_given_on_for_ever(void **state)
{
    struct engine_link *l = open_pool(1, 1, "m");
    (void)state;
    submit(l, 1, DIE);
    expect_error(l, 1, "two engine processes");
    submit(l, 2, ANSWER);
    expect_answer(l, 2);
    assert_int_equal(count(l).n_died, 2);
    engine_link_free(l);
}

static void an_answer_that_has_begun_ends_with_an_error(void **state)
{
    struct engine_link *l = open_pool(1, 0, "m"); /* another is started */
    int64_t retry;
    (void)state;
    submit(l, 1, DIE_ANSWERING);
    assert_int_equal(next(l, &retry).token, 0);
    expect_error(l, 1, "in the middle");
    submit(l, 2, ANSWER);
    expect_answer(l, 2);
    engine_link_free(l);
}

static void who_sends_nonsense_is_ended(void **state)
{
    struct engine_link *l = open_pool(1, 1, "m");
    (void)state;
    submit(l, 1, GARBAGE);
    expect_error(l, 1, "two engine processes");
    submit(l, 2, LIE);
    expect_error(l, 2, "two engine processes");
    submit(l, 3, ANSWER);
    expect_answer(l, 3);
    engine_link_free(l);
}

static void a_refusal_is_everybodys(void **state)
{
    struct engine_link *l = open_pool(2, 0, "m");
    int64_t retry;
    (void)state;
    for (uint64_t i = 1; i <= 8; i++) {
        submit(l, i, REFUSE);
        assert_int_equal(expect_answer(l, i), 1);
    }
    submit(l, 100, REFUSE_ALL);
    assert_int_equal(next(l, &retry).status, MR_BUSY);
    assert_int_equal(retry, 1234);
    engine_link_free(l);
}

static void expect_orders(struct engine_link *l, uint64_t ticket, int32_t told)
{
    for (int i = 0; i < 8; i++) { /* each process has some */
        submit(l, ticket + (uint64_t)i, TELL_ORDERS);
        assert_int_equal(expect_answer(l, ticket + (uint64_t)i), told);
    }
}

static void orders_hold_for_all_and_for_those_who_come_later(void **state)
{
    struct engine_link *l = open_pool(2, 1, "m");
    struct engine_order one = {.kind = ENGINE_ORDER_LOAD_ADAPTER, .path = "one"},
                        two = {.kind = ENGINE_ORDER_LOAD_ADAPTER, .path = "two"},
                        targets = {.kind = ENGINE_ORDER_TARGETS, .targets = {.bucket_capacity = 13}}, back;
    struct mr_error err;
    (void)state;
    assert_int_equal(engine_link_order(l, &one, &err), MR_OK);
    assert_int_equal(engine_link_order(l, &two, &err), MR_OK);
    assert_true(one.adapter > 0 && two.adapter > 0 && one.adapter != two.adapter);
    expect_orders(l, 10, 200);
    back = (struct engine_order){.kind = ENGINE_ORDER_UNLOAD_ADAPTER, .adapter = one.adapter};
    assert_int_equal(engine_link_order(l, &back, &err), MR_OK);
    assert_int_equal(engine_link_order(l, &back, &err), MR_NOT_FOUND);
    assert_int_equal(engine_link_order(l, &targets, &err), MR_OK);
    expect_orders(l, 20, 107); /* half of the bucket, rounded up */
    submit(l, 1, DIE);
    expect_error(l, 1, "two engine processes");
    expect_orders(l, 30, 107);
    engine_link_free(l);
}

static void an_adapter_that_one_cannot_load_is_nobodys(void **state)
{
    struct engine_link *l = open_pool(2, 0, "m");
    struct engine_order bad = {.kind = ENGINE_ORDER_LOAD_ADAPTER, .path = "bad for the second"};
    struct mr_error err;
    (void)state;
    assert_int_equal(engine_link_order(l, &bad, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "it is bad");
    expect_orders(l, 10, 0);
    engine_link_free(l);
}

static void expect_config(struct engine_link *l, uint64_t ticket, int32_t max_queue)
{
    for (uint64_t i = ticket; i < ticket + 4; i++) {
        submit(l, i, TELL_CONFIG);
        assert_int_equal(expect_answer(l, i), max_queue);
    }
}

static void processes_with_a_new_config_take_the_places_of_the_others(void **state)
{
    struct engine_link *l = open_pool(2, 1, "m");
    struct engine_pool_process before[POOL_ENGINES_MAX], after[POOL_ENGINES_MAX];
    struct engine_pool_counts counts;
    struct engine_config config = {.path = "m", .n_active = 2};
    struct mr_error err;
    int64_t retry;
    (void)state;
    mr_options_defaults(&config.options);
    const int32_t max_queue = config.options.max_queue;
    config.options.max_queue = 77;
    submit(l, 1, HOLD); /* by one of the old ones, which stays for it */
    submit(l, 2, DIE_ANSWERING);
    assert_int_equal(next(l, &retry).request, 2);
    assert_int_equal(next(l, &retry).finish, MR_FINISH_ERROR);
    expect_config(l, 10, max_queue);
    const int n_before = engine_pool_processes(l, before);
    assert_int_equal(engine_pool_renew(l, &config, &err), MR_OK);
    expect_config(l, 20, 77);
    engine_pool_counts(l, &counts);
    assert_int_equal(counts.n_active, 2);
    assert_int_equal(counts.n_died, 1);
    const int n_after = engine_pool_processes(l, after);
    for (int i = 0; i < n_after; i++)
        for (int j = 0; j < n_before; j++)
            assert_int_not_equal(after[i].pid, before[j].pid);
    config.path = "broken";
    config.options.max_queue = 78;
    assert_int_equal(engine_pool_renew(l, &config, &err), MR_BUSY); /* the request is still there */
    engine_link_cancel(l, 1);
    while (engine_pool_renew(l, &config, &err) == MR_BUSY)
        poll(NULL, 0, 5);
    assert_int_equal(engine_pool_renew(l, &config, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "it is broken");
    expect_config(l, 30, 77);
    config.path = "m";
    assert_int_equal(engine_pool_renew(l, &config, &err), MR_OK);
    expect_config(l, 40, 78);
    engine_link_free(l);
}

static void a_cancelled_request_says_nothing_more(void **state)
{
    struct engine_link *l = open_pool(1, 1, "m");
    (void)state;
    submit(l, 1, HOLD);
    engine_link_cancel(l, 1); /* the process dies of it */
    submit(l, 2, ANSWER);
    expect_answer(l, 2);
    engine_link_free(l);
}

static void a_process_that_cannot_open_its_model_says_why(void **state)
{
    struct engine_pool_options options = {.config = {.path = "broken", .n_active = 1}, .model_fd = -1};
    struct engine_link *l;
    struct mr_error err;
    (void)state;
    assert_int_equal(engine_pool_create(&l, &options, NULL, NULL, &err), MR_BAD_FORMAT);
    assert_string_equal(err.message, "it is broken");
    assert_null(l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_divided),
        cmocka_unit_test(a_request_without_output_is_given_to_another),
        cmocka_unit_test(a_request_that_kills_is_not_given_on_for_ever),
        cmocka_unit_test(an_answer_that_has_begun_ends_with_an_error),
        cmocka_unit_test(who_sends_nonsense_is_ended),
        cmocka_unit_test(a_refusal_is_everybodys),
        cmocka_unit_test(processes_with_a_new_config_take_the_places_of_the_others),
        cmocka_unit_test(a_cancelled_request_says_nothing_more),
        cmocka_unit_test(orders_hold_for_all_and_for_those_who_come_later),
        cmocka_unit_test(an_adapter_that_one_cannot_load_is_nobodys),
        cmocka_unit_test(a_process_that_cannot_open_its_model_says_why),
    };
    if (argc == 2 && strcmp(argv[1], ENGINE_PROCESS_COMMAND) == 0)
        return play_engine();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
