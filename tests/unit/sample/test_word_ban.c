/* test_word_ban.c: no word comes about, and nothing else is excluded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sample/word_ban.h"

/* Every text of one to three of the letters a, b, c; then an end token and a control token. */
enum {
    N_TEXT = 3 + 9 + 27,
    N_TOKEN = N_TEXT + 2,
    N_WORD = (N_TOKEN + 63) / 64
};

static char text[N_TEXT][4];

static struct token_trie *make_trie(void)
{
    struct token_piece piece[N_TOKEN] = {{0}};
    int n = 0;
    for (int length = 1; length <= 3; length++)
        for (int i = 0; i < (length == 1 ? 3 : length == 2 ? 9 : 27); i++, n++) {
            for (int k = 0, rest = i; k < length; k++, rest /= 3)
                text[n][k] = (char)('a' + rest % 3);
            piece[n] = (struct token_piece){.s = text[n], .n = (size_t)length};
        }
    piece[N_TEXT].is_end = true;
    piece[N_TEXT + 1] = (struct token_piece){.s = "aba", .n = 3, .is_control = true};
    struct token_trie *t;
    assert_int_equal(token_trie_create(&t, piece, N_TOKEN, NULL), MR_OK);
    return t;
}

/* words: each with its NUL */
static bool has_word(const char *answer, const char *words, size_t n)
{
    for (size_t i = 0; i < n; i += strlen(words + i) + 1)
        if (strstr(answer, words + i) != NULL)
            return true;
    return false;
}

/* From every state that a random answer comes to, exactly the tokens are excluded that would complete a word. */
static void check_words(const char *words, size_t n)
{
    struct token_trie *t = make_trie();
    struct word_ban *b;
    assert_int_equal(word_ban_create(&b, t, words, n, NULL), MR_OK);
    srand(1);
    for (int round = 0; round < 200; round++) {
        char answer[200] = "";
        struct word_ban_state state = {{0}};
        for (int step = 0; step < 30; step++) {
            uint64_t mask[N_WORD];
            memset(mask, 0xff, sizeof mask);
            word_ban_exclude(b, &state, mask);
            const size_t end = strlen(answer);
            int allowed[N_TEXT], n_allowed = 0;
            for (int i = 0; i < N_TEXT; i++) {
                strcpy(answer + end, text[i]);
                assert_int_equal(mask_has(mask, i), !has_word(answer, words, n));
                if (mask_has(mask, i))
                    allowed[n_allowed++] = i;
            }
            answer[end] = '\0';
            assert_true(mask_has(mask, N_TEXT) && mask_has(mask, N_TEXT + 1)); /* these have no text */
            if (n_allowed == 0)
                break;
            const int next = allowed[rand() % n_allowed];
            strcat(answer, text[next]);
            word_ban_accept(b, &state, next);
        }
    }
    word_ban_free(b);
    token_trie_free(t);
}

static void what_completes_a_word_is_excluded_and_nothing_else(void **state)
{
    (void)state;
    check_words("a", 2);
    check_words("ab", 3);
    check_words("abcabcabc", 10);
    check_words("aabaaab", 8); /* borders within borders */
    check_words("aaaaa", 6);
    check_words("abab\0bac\0cccccc\0ab", 19);
}

static void words_longer_than_any_token_are_stopped_at_their_end(void **state)
{
    (void)state;
    struct token_trie *t = make_trie();
    struct word_ban *b;
    struct word_ban_state s = {{0}};
    uint64_t mask[N_WORD];
    assert_int_equal(word_ban_create(&b, t, "abcabcabcab", 12, NULL), MR_OK);
    size_t length;
    const int32_t abc = token_trie_longest(t, "abc", 3, &length);
    for (int i = 0; i < 3; i++) {
        memset(mask, 0xff, sizeof mask);
        word_ban_exclude(b, &s, mask);
        assert_true(mask_has(mask, abc));
        word_ban_accept(b, &s, abc);
    }
    memset(mask, 0xff, sizeof mask);
    word_ban_exclude(b, &s, mask);
    assert_false(mask_has(mask, abc));
    assert_true(mask_has(mask, 0)); /* "a" alone does not complete it */
    word_ban_free(b);
    token_trie_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_completes_a_word_is_excluded_and_nothing_else),
        cmocka_unit_test(words_longer_than_any_token_are_stopped_at_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
