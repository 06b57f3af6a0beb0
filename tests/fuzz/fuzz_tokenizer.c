/* fuzz_tokenizer.c: any bytes as text for small vocabularies, which must come back whole; or, where they begin with "GGUF",
 * as the vocabulary itself. */
#include <stdlib.h>
#include <string.h>

#include "text/detokenizer.h"
#include "text/split_rules.h"
#include "unit/text/vocabulary_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const rules[] = {"gpt-2",        "smollm",         "llama-bpe",   "qwen2",  "qwen35", "gpt-4o",
                                    "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "tekken", "bloom"};
enum {
    N_RULES = sizeof rules / sizeof *rules
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static struct tokenizer *make(const char *rule)
{
    struct vocabulary_bytes b;
    struct tokenizer *t;
    if (rule != NULL)
        vb_byte_level(&b);
    else
        vb_sentence_piece(&b);
    b.pre = rule;
    check(vb_create(&b, &t, NULL) == MR_OK);
    vb_release(&b);
    return t;
}

/* What streaming gives is UTF-8, whole and stop by stop. */
static void check_stream(const struct tokenizer *t, const struct token_list *list, const char *stop)
{
    struct detokenizer d;
    struct stop_matcher *m;
    struct string_buffer text, kept;
    string_buffer_init(&text);
    string_buffer_init(&kept);
    check(stop_matcher_create(&m, &stop, stop[0] != '\0', NULL) == MR_OK);
    detokenizer_init(&d, t, true);
    bool found = false;
    for (size_t i = 0; i < list->n && !found; i++) {
        const size_t before = text.n;
        detokenizer_push(&d, list->id[i], &text);
        if (text.n > before)
            found = stop_matcher_push(m, text.s + before, text.n - before, &kept);
    }
    stop_matcher_finish(m, &kept);
    check(text.n == 0 || utf8_is_valid(text.s, text.n));
    check(kept.n == 0 || stop[0] == '\0' || memmem(kept.s, kept.n, stop, strlen(stop)) == NULL);
    check(found || kept.n == text.n);
    stop_matcher_free(m);
    string_buffer_release(&text);
    string_buffer_release(&kept);
}

/* The pieces of the ids, joined, are the text. */
static void check_round_trip(const struct tokenizer *t, const char *s, size_t n, size_t cut, bool adds_space)
{
    struct token_list list = {0};
    struct string_buffer joined;
    const struct text_run run[] = {{s, cut, false}, {s + cut, n - cut, !adds_space}};
    string_buffer_init(&joined);
    check(tokenizer_encode(t, run, 2, 0, &list, NULL) == MR_OK);
    for (size_t i = 0; i < list.n; i++) {
        const struct gguf_string piece = tokenizer_piece(t, list.id[i], true);
        string_buffer_add(&joined, piece.s, piece.n);
    }
    const size_t skip = adds_space && joined.n > 0;
    check(joined.n - skip == n && (n == 0 || memcmp(joined.s + skip, s, n) == 0));
    char stop[4] = {0};
    for (size_t i = 0; i < 3 && i < n; i++)
        stop[i] = s[n - 1 - i];
    check_stream(t, &list, stop);
    string_buffer_release(&joined);
    token_list_release(&list);
}

static void try_vocabulary(const uint8_t *data, size_t size)
{
    static const char text[] = "he said: 1234 \xf0\x9f\x98\x80\xff  <s>\n\u4f60\u597d, na\u00efve fu\u0301r <|im_end|>";
    const struct text_run run = {text, sizeof text - 1, true};
    struct gguf *g;
    struct tokenizer *t;
    struct mr_error err = {""};
    struct token_list list = {0};
    if (gguf_open_memory(&g, data, size, &err) != MR_OK)
        return;
    const enum mr_status status = tokenizer_create(&t, g, &err);
    gguf_close(g);
    check((status == MR_OK) == (t != NULL) && (status == MR_OK || err.message[0] != '\0'));
    if (status != MR_OK)
        return;
    check(tokenizer_encode(t, &run, 1, ENCODE_ADD_BOS, &list, NULL) == MR_OK);
    for (size_t i = 0; i < list.n; i++)
        check(list.id[i] >= 0 && list.id[i] < tokenizer_n_vocab(t));
    check_stream(t, &list, "x");
    token_list_release(&list);
    tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *byte_level[N_RULES], *sentence_piece;
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        try_vocabulary(data, size);
        return 0;
    }
    if (size < 2)
        return 0;
    const size_t rule = data[0] % (N_RULES + 1), n = size - 2, cut = data[1] % (n + 1);
    const char *s = (const char *)data + 2;
    if (rule < N_RULES) {
        if (byte_level[rule] == NULL)
            byte_level[rule] = make(rules[rule]);
        check_round_trip(byte_level[rule], s, n, cut, false);
    } else if (memmem(s, n, "\xe2\x96\x81", 3) == NULL) {
        if (sentence_piece == NULL)
            sentence_piece = make(NULL);
        check_round_trip(sentence_piece, s, n, cut, true);
    }
    return 0;
}
