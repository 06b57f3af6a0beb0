/* test_frame.c: frames come out as they went in, however they are cut; what is none is refused, and so are records that do not
 * hold what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/engine_config.h"
#include "server/frame.h"
#include "server/wire.h"

static void frames_survive_any_cut(void **state)
{
    struct frame_buffer out, in;
    struct frame_head head;
    const void *payload;
    int n = 0;
    (void)state;
    frame_buffer_init(&out);
    frame_buffer_init(&in);
    for (int i = 0; i < 20; i++)
        memset(frame_push(&out, FRAME_EVENT, 100 + (uint64_t)i, -i, (size_t)i * 7), i, (size_t)i * 7);
    for (size_t at = 0, step = 1; at < out.tail; at += step, step = step % 13 + 1) {
        assert_true(frame_feed(&in, out.bytes + at, out.tail - at < step ? out.tail - at : step));
        while (frame_next(&in, &head, &payload, NULL) == MR_OK) {
            assert_int_equal(head.ticket, 100 + n);
            assert_int_equal(head.value, -n);
            assert_int_equal(head.bytes, n * 7);
            assert_int_equal((uintptr_t)payload % 8, 0);
            for (int i = 0; i < n * 7; i++)
                assert_int_equal(((const char *)payload)[i], n);
            n++;
        }
    }
    assert_int_equal(n, 20);
    assert_true(frame_buffer_is_empty(&in));
    frame_buffer_release(&out);
    frame_buffer_release(&in);
}

static enum mr_status read_head(struct frame_head head)
{
    struct frame_buffer in;
    const void *payload;
    struct mr_error err = {""};
    frame_buffer_init(&in);
    assert_true(frame_feed(&in, &head, sizeof head));
    const enum mr_status status = frame_next(&in, &head, &payload, &err);
    assert_true(status != MR_BAD_FORMAT || err.message[0] != '\0');
    frame_buffer_release(&in);
    return status;
}

static void what_is_no_frame_is_refused(void **state)
{
    const struct frame_head good = {.mark = FRAME_MARK, .version = FRAME_VERSION, .kind = FRAME_STATS};
    struct frame_head h = good;
    (void)state;
    assert_int_equal(read_head(good), MR_OK);
    h.mark++;
    assert_int_equal(read_head(h), MR_BAD_FORMAT);
    h = good, h.version++;
    assert_int_equal(read_head(h), MR_BAD_FORMAT);
    h = good, h.kind = FRAME_KIND_END;
    assert_int_equal(read_head(h), MR_BAD_FORMAT);
    h = good, h.bytes = UINT64_MAX;
    assert_int_equal(read_head(h), MR_BAD_FORMAT);
    h = good, h.bytes = 8;
    assert_int_equal(read_head(h), MR_NOT_FOUND);
}

static const struct wire_limits limits = {.n_vocab = 100, .n_embd = 3, .n = 2};

static enum mr_status check_event(const struct mr_event *e)
{
    const size_t n = wire_event_bytes(e);
    char *record = malloc(n);
    wire_event_write(record, e);
    const enum mr_status status = wire_event_check(record, n, &limits, NULL);
    if (status == MR_OK)
        for (size_t cut = 0; cut < n; cut++)
            assert_int_equal(wire_event_check(record, cut, &limits, NULL), MR_BAD_FORMAT);
    free(record);
    return status;
}

static void events_must_hold_what_they_say(void **state)
{
    static const struct mr_logprob top[] = {{1, -1}, {99, -2}}, wild[] = {{100, 0}};
    static const float vector[] = {1, 2, 3};
    const struct mr_event good = {.token = 5, .text = "h\xc3\xa9", .n_text = 3, .n_top = 2, .top = top};
    struct mr_event e = good;
    (void)state;
    assert_int_equal(check_event(&good), MR_OK);
    e.embedding = vector, e.n_embedding = 3, e.finish = MR_FINISH_STOP;
    assert_int_equal(check_event(&e), MR_OK);
    e.n_embedding = 2;
    assert_int_equal(check_event(&e), MR_BAD_FORMAT);
    e = good, e.sample = 2;
    assert_int_equal(check_event(&e), MR_BAD_FORMAT);
    e = good, e.token = 100;
    assert_int_equal(check_event(&e), MR_BAD_FORMAT);
    e = good, e.top = wild, e.n_top = 1;
    assert_int_equal(check_event(&e), MR_BAD_FORMAT);
    e = good, e.n_text = 2; /* half a character */
    assert_int_equal(check_event(&e), MR_BAD_FORMAT);
    e = good, e.finish = MR_FINISH_ERROR, e.status = MR_IO, e.error = "why";
    assert_int_equal(check_event(&e), MR_OK);
    e.error = NULL;
    assert_int_equal(check_event(&e), MR_BAD_FORMAT);
    e = good, e.usage.n_cached = 1;
    assert_int_equal(check_event(&e), MR_BAD_FORMAT);
}

static void requests_must_hold_what_they_say(void **state)
{
    static const int32_t prompt[] = {1, 2, 3};
    static const char *const stop[] = {"one", "two"};
    struct mr_request r;
    size_t n;
    (void)state;
    mr_request_defaults(&r);
    r.prompt = prompt, r.n_prompt = 3, r.stop = stop, r.n_stop = 2, r.cache_salt = "s";
    assert_int_equal(wire_request_bytes(&n, &r, NULL), MR_OK);
    char *record = malloc(n);
    struct mr_request *written = (struct mr_request *)(void *)record;
    wire_request_write(record, &r);
    assert_int_equal(wire_request_check(record, n, NULL), MR_OK);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(wire_request_check(record, cut, NULL), MR_BAD_FORMAT);
    for (int32_t wrong = -1; wrong < 1000; wrong += 1001 - 1) {
        int32_t *const count[] = {&written->n_prompt,  &written->n_bias, &written->n_stop_token,
                                  &written->n_adapter, &written->n_stop, &written->n_bad_word};
        for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
            const int32_t right = *count[i];
            *count[i] = wrong;
            assert_int_equal(wire_request_check(record, n, NULL), MR_BAD_FORMAT);
            *count[i] = right;
        }
    }
    memset(&written->normalize, 2, 1);
    assert_int_equal(wire_request_check(record, n, NULL), MR_BAD_FORMAT);
    free(record);
}

static void a_config_comes_out_as_it_went_in(void **state)
{
    static int32_t one[] = {1, 2, 3}, two[] = {4}, count[] = {3, 1}, *ids[] = {one, two};
    struct engine_config c = {.path = "m.gguf", .n_active = 3, .pins = {ids, count, 2}}, out;
    (void)state;
    mr_options_defaults(&c.options);
    c.options.cpu = "avx2";
    const size_t n = engine_config_bytes(&c);
    char *record = malloc(n);
    engine_config_write(record, &c);
    assert_int_equal(engine_config_read(&out, record, n, NULL), MR_OK);
    assert_string_equal(out.path, "m.gguf");
    assert_string_equal(out.options.cpu, "avx2");
    assert_null(out.options.cache_dir);
    assert_int_equal(out.n_active, 3);
    assert_int_equal(out.pins.n_pin, 2);
    assert_memory_equal(out.pins.ids[0], one, sizeof one);
    assert_int_equal(out.pins.ids[1][0], 4);
    engine_config_release(&out);
    for (size_t cut = 0; cut < n; cut++) {
        assert_int_equal(engine_config_read(&out, record, cut, NULL), MR_BAD_FORMAT);
        engine_config_release(&out);
    }
    free(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_survive_any_cut),           cmocka_unit_test(what_is_no_frame_is_refused),
        cmocka_unit_test(events_must_hold_what_they_say),   cmocka_unit_test(requests_must_hold_what_they_say),
        cmocka_unit_test(a_config_comes_out_as_it_went_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
