/* test_chat_prompt.c: a chat that goes on has the ids of one that is tokenised anew, and its old messages are found. */
#include "base/random.h"
#include "engine/chat_prompt.h"
#include "text/segment_cache.h"
#include "unit/engine/engine_fixture.h"

static const char *const templates[] = {
    "{% for m in messages %}<end>{{ m.role }}\n{{ m.content }}<end>\n{% endfor %}<end>assistant\n",
    "{{ bos_token }}{% for m in messages %}{{ '[' + m.role + '] ' + m.content | trim + eos_token }}{% endfor %}",
    "{% for m in messages %}{{ m.content }}{% endfor %}", /* nothing divides the messages */
    "{{ messages | length }}<end>{% for m in messages %}{{ m.content }}<end>{% endfor %}",
};

static const char *const contents[] = {
    "What is the capital of France, and how many people live there today?",
    "The capital is Paris.",
    "  blanks around a text that is long enough to be kept, with an <end> that a user typed  ",
    "\xe4\xbd\xa0\xe5\xa5\xbd, caf\xc3\xa9, na\xc3\xafve, \xf0\x9f\x98\x80: characters of several bytes, many of them",
    "",
    "def f(x):\n    return x * 2\n\nprint(f(21))\n\n\n",
};

enum {
    TURNS = 24,
    N_CONTENTS = sizeof contents / sizeof *contents
};

static void assert_same_ids(const struct chat_prompt *warm, const struct mr_model *model, const char *source, json_t *messages)
{
    struct chat_prompt *fresh;
    struct mr_error err = {{0}};
    struct token_list a = {0}, b = {0};
    check(chat_prompt_create(&fresh, model, source, strlen(source), &err), &err);
    check(chat_prompt_render(warm, messages, NULL, 0, false, &a, &err), &err);
    check(chat_prompt_render(fresh, messages, NULL, 0, false, &b, &err), &err);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.id, b.id, a.n * sizeof *a.id);
    token_list_release(&a);
    token_list_release(&b);
    chat_prompt_free(fresh);
}

static void a_chat_that_goes_on_has_the_ids_of_a_new_one(void **state)
{
    (void)state;
    struct mr_model *model = fixture_model(1);
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct chat_prompt *warm;
        struct mr_error err = {{0}};
        const uint32_t key[2] = {(uint32_t)i, 5};
        check(chat_prompt_create(&warm, model, templates[i], strlen(templates[i]), &err), &err);
        json_t *messages = json_array();
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            uint32_t word[4];
            const uint32_t counter[4] = {turn};
            philox4x32(word, counter, key);
            if (word[1] % 7 == 0) /* another chat */
                json_array_clear(messages);
            json_array_append_new(messages, json_pack("{s:s, s:s}", "role", turn % 2 == 0 ? "user" : "assistant", "content",
                                                      contents[word[0] % N_CONTENTS]));
            assert_same_ids(warm, model, templates[i], messages);
        }
        struct segment_cache_stats stats;
        chat_prompt_cache_stats(warm, &stats);
        assert_true(stats.bytes > 0);
        assert_true(i == 2 || stats.n_found > stats.n_missed);
        json_decref(messages);
        chat_prompt_free(warm);
    }
    mr_model_close(model);
}

/* However long the chat gets, a turn tokenises what is new in it. */
static void a_chat_of_100_turns_tokenises_each_message_once(void **state)
{
    (void)state;
    enum {
        MESSAGES = 200
    };
    struct mr_model *model = fixture_model(1);
    struct chat_prompt *p;
    struct mr_error err = {{0}};
    json_t *messages = json_array();
    check(chat_prompt_create(&p, model, templates[0], strlen(templates[0]), &err), &err);
    for (int i = 0; i < MESSAGES; i++) {
        struct token_list ids = {0};
        struct segment_cache_stats before, after;
        char text[64];
        snprintf(text, sizeof text, "message number %d, which nobody has sent before", i);
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", i % 2 == 0 ? "user" : "assistant", "content", text));
        chat_prompt_cache_stats(p, &before);
        check(chat_prompt_render(p, messages, NULL, 0, false, &ids, &err), &err);
        chat_prompt_cache_stats(p, &after);
        assert_in_range(after.n_missed - before.n_missed, 1, 3);
        assert_true(after.n_found - before.n_found >= i);
        token_list_release(&ids);
    }
    json_decref(messages);
    chat_prompt_free(p);
    mr_model_close(model);
}

static void the_cache_stays_within_its_bytes(void **state)
{
    (void)state;
    struct segment_cache *c = segment_cache_create(2000);
    struct token_list list = {0};
    for (int i = 0; i < 300; i++) {
        char text[64];
        int32_t id[40];
        const size_t n = (size_t)snprintf(text, sizeof text, "a text of some forty bytes, number %08d", i % 50);
        const struct text_segment s = {.s = text, .n = n, .add_space = i % 3 == 0};
        for (int k = 0; k < 40; k++)
            id[k] = i % 50 * 100 + k + s.add_space;
        list.n = 0;
        if (segment_cache_find(c, &s, &list)) {
            assert_int_equal(list.n, 40);
            assert_memory_equal(list.id, id, sizeof id);
        } else {
            segment_cache_add(c, &s, id, 40);
            assert_true(segment_cache_find(c, &s, &list));
        }
        struct segment_cache_stats stats;
        segment_cache_stats(c, &stats);
        assert_true(stats.bytes <= 2000);
    }
    token_list_release(&list);
    segment_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_that_goes_on_has_the_ids_of_a_new_one),
        cmocka_unit_test(a_chat_of_100_turns_tokenises_each_message_once),
        cmocka_unit_test(the_cache_stays_within_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
