/* encode_lines.c: a tokenizer over a pipe, for the Python tests: encode_lines MODEL [bos] [control] [time]
 * In: for each text, its number of bytes (uint32, this machine's order) and the bytes. Out: for each text, the number of
 * ids (uint32) and the ids (int32); time: the processor time instead, in seconds (double). bos: with the tokens that the file
 * adds; control: control tokens match. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/tokenizer.h"

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

struct way {
    unsigned flags;
    bool control, timed;
};

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool write_ids(const struct token_list *list)
{
    const uint32_t count = (uint32_t)list->n;
    return fwrite(&count, sizeof count, 1, stdout) == 1 && fwrite(list->id, sizeof *list->id, list->n, stdout) == list->n;
}

static bool encode_one(const struct tokenizer *t, const char *s, uint32_t n, const struct way *way)
{
    struct token_list list = {0};
    struct mr_error err;
    const struct text_run run = {s, n, way->control};
    const double begin = processor_seconds();
    if (tokenizer_encode(t, &run, 1, way->flags, &list, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.message);
        return false;
    }
    const double seconds = processor_seconds() - begin;
    const bool written = way->timed ? fwrite(&seconds, sizeof seconds, 1, stdout) == 1 : write_ids(&list);
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
    const struct way way = {has_word(argc, argv, "bos") ? ENCODE_ADD_BOS : 0, has_word(argc, argv, "control"),
                            has_word(argc, argv, "time")};
    uint32_t n;
    bool ok = true;
    while (ok && fread(&n, sizeof n, 1, stdin) == 1) {
        char *s = malloc(n + 1u);
        ok = s != NULL && fread(s, 1, n, stdin) == n && encode_one(t, s, n, &way);
        free(s);
    }
    tokenizer_free(t);
    return ok ? 0 : 1;
}
