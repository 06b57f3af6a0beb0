/* test_slot_board.c: which answer has which place, and what a place shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/slot_board.h"

enum {
    N_PLACE = 3
};

struct seen {
    struct slot_view view[N_PLACE];
    char prompt[N_PLACE], text[N_PLACE][16]; /* the first token as a letter; the answer's text */
    int n_busy;
};

static void see(void *context, int32_t place, const struct slot_view *v)
{
    struct seen *s = context;
    s->view[place] = *v;
    s->n_busy += v->is_processing;
    s->prompt[place] = v->prompt != NULL ? (char)('a' + v->prompt[0]) : '-';
    if (v->generated != NULL)
        memcpy(s->text[place], v->generated, v->n_generated);
}

static struct seen look(struct slot_board *b, int32_t n_running)
{
    struct seen s = {.n_busy = 0};
    slot_board_each(b, n_running, see, &s);
    return s;
}

static struct slot_task *begin(struct slot_board *b, int32_t n)
{
    static const int32_t prompt[] = {1, 2, 3};
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = 3;
    r.n = n;
    r.max_tokens = 9;
    return slot_task_begin(b, &r, true, false);
}

static void token(struct slot_task *t, int32_t sample, const char *text)
{
    slot_task_event(t, &(struct mr_event){.sample = sample, .token = 5, .text = text, .n_text = strlen(text)});
}

static void end(struct slot_task *t, int32_t sample, int32_t n_generated)
{
    slot_task_event(t, &(struct mr_event){.sample = sample,
                                          .token = -1,
                                          .text = "",
                                          .finish = MR_FINISH_LENGTH,
                                          .usage = {.n_prompt = 3, .n_generated = n_generated, .n_cached = 2}});
}

static void those_that_run_have_places(void **state)
{
    (void)state;
    struct slot_board *b = slot_board_create(N_PLACE, false);
    struct seen s = look(b, 0);
    assert_int_equal(s.n_busy, 0);
    assert_int_equal(s.view[0].id_task, -1);
    struct slot_task *first = begin(b, 1), *second = begin(b, 1), *third = begin(b, 2);
    assert_int_equal(look(b, 0).n_busy, 0); /* all wait */
    s = look(b, 1);
    assert_int_equal(s.n_busy, 1); /* the oldest one, most likely */
    assert_int_equal(s.view[0].id_task, 0);
    token(third, 1, "x"); /* this one certainly */
    s = look(b, 2);
    assert_int_equal(s.n_busy, 2);
    assert_int_equal(s.view[1].id_task, 2);
    assert_int_equal(s.view[1].n_decoded, 1);
    token(second, 0, "y");
    token(third, 0, "z"); /* which makes three: the first one has none after all */
    s = look(b, 3);
    assert_int_equal(s.n_busy, 3);
    for (int i = 0; i < N_PLACE; i++)
        assert_true(s.view[i].n_decoded == 1 && s.view[i].id_task != 0);
    token(first, 0, "more than there are places");
    assert_int_equal(look(b, 4).n_busy, 3);
    slot_task_end(first);
    slot_task_end(second);
    assert_int_equal(look(b, 2).n_busy, 2);
    slot_task_end(third);
    s = look(b, 0);
    assert_int_equal(s.n_busy, 0);
    assert_int_equal(s.view[0].id_task, 2); /* what was there last stays to be seen */
    slot_board_free(b);
}

static void a_place_shows_its_answer(void **state)
{
    (void)state;
    struct slot_board *b = slot_board_create(N_PLACE, true);
    struct slot_task *t = begin(b, 1);
    token(t, 0, "a");
    assert_false(look(b, 1).view[0].has_new_line);
    token(t, 0, "b\n");
    struct seen s = look(b, 1);
    assert_true(s.view[0].has_new_line && s.view[0].is_stream && s.view[0].is_processing);
    assert_int_equal(s.view[0].n_decoded, 2);
    assert_int_equal(s.view[0].max_tokens, 9);
    assert_int_equal(s.view[0].n_prompt, 3);
    assert_int_equal(s.view[0].n_cached, -1);
    assert_int_equal(s.prompt[0], 'b');
    assert_string_equal(s.text[0], "ab\n");
    end(t, 0, 4); /* two tokens had not been told one by one */
    token(t, 0, "late");
    s = look(b, 0);
    assert_false(s.view[0].is_processing);
    assert_int_equal(s.view[0].n_decoded, 4);
    assert_int_equal(s.view[0].n_cached, 2);
    assert_int_equal(s.prompt[0], '-');
    slot_task_end(t);
    slot_board_free(b);
}

/* best_of: three run, one is told. */
static void answers_that_nobody_sees_have_places(void **state)
{
    (void)state;
    struct slot_board *b = slot_board_create(N_PLACE, false);
    static const int32_t prompt[] = {1};
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = 1;
    r.best_of = 3;
    struct slot_task *t = slot_task_begin(b, &r, false, true);
    assert_int_equal(look(b, 3).n_busy, 3);
    end(t, 0, 7);
    assert_int_equal(look(b, 0).n_busy, 2);
    slot_task_end(t);
    assert_int_equal(look(b, 0).n_busy, 0);
    slot_board_free(b);
}

static void nothing_is_shown_without_a_board(void **state)
{
    (void)state;
    struct slot_task *t = begin(NULL, 1);
    assert_null(t);
    token(t, 0, "a");
    slot_task_end(t);
    slot_board_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_run_have_places),
        cmocka_unit_test(a_place_shows_its_answer),
        cmocka_unit_test(answers_that_nobody_sees_have_places),
        cmocka_unit_test(nothing_is_shown_without_a_board),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
