/* encode_lines.c: a tokenizer over a pipe, for the Python tests: encode_lines MODEL [bos] [control]
 * In: for each text, its number of bytes (uint32, this machine's order) and the bytes. Out: for each text, the number of
 * ids (uint32) and the ids (int32). bos: with the tokens that the file adds; control: control tokens match. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

static bool encode_one(const struct tokenizer *t, const char *s, uint32_t n, unsigned flags, bool control)
{
    struct token_list list = {0};
    struct mr_error err;
    const struct text_run run = {s, n, control};
    if (tokenizer_encode(t, &run, 1, flags, &list, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.message);
        return false;
    }
    const uint32_t count = (uint32_t)list.n;
    const bool written =
        fwrite(&count, sizeof count, 1, stdout) == 1 && fwrite(list.id, sizeof *list.id, list.n, stdout) == list.n;
    token_list_release(&list);
    return written;
}

int main(int argc, char **argv)
{
    struct mr_error err;
    struct gguf *g;
    struct tokenizer *t;
    if (argc < 2)
        return 2;
    if (gguf_open(&g, argv[1], &err) != MR_OK || tokenizer_create(&t, g, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    gguf_close(g);
    const unsigned flags = has_word(argc, argv, "bos") ? ENCODE_ADD_BOS : 0;
    const bool control = has_word(argc, argv, "control");
    uint32_t n;
    bool ok = true;
    while (ok && fread(&n, sizeof n, 1, stdin) == 1) {
        char *s = malloc(n + 1u);
        ok = s != NULL && fread(s, 1, n, stdin) == n && encode_one(t, s, n, flags, control);
        free(s);
    }
    tokenizer_free(t);
    return ok ? 0 : 1;
}
