/* chat_tokens.c: the token ids of chats, for the tests in Python.
 * Usage: chat_tokens MODEL TEMPLATE; TEMPLATE is a built-in name or "own". Reads requests in the OpenAI form as JSON
 * objects from stdin; answers each with a line: a JSON array of ids. */
#include <stdio.h>
#include <string.h>
#include <jansson.h>

#include "text/chat_renderer.h"

static json_t *encode(const struct chat_renderer *renderer, const struct tokenizer *t, const json_t *request)
{
    struct mr_error err;
    struct rendered r;
    struct token_list list = {0};
    json_t *ids = NULL;
    enum mr_status status = chat_renderer_render(renderer, request, 0, &r, &err);
    if (status == MR_OK)
        status = tokenizer_encode(t, r.run, (int)r.n_run, ENCODE_ADD_BOS, &list, &err);
    if (status == MR_OK) {
        ids = json_array();
        for (size_t i = 0; i < list.n; i++)
            json_array_append_new(ids, json_integer(list.id[i]));
    } else {
        fprintf(stderr, "%s\n", err.message);
    }
    rendered_release(&r);
    token_list_release(&list);
    return ids;
}

static int answer_all(const struct chat_renderer *renderer, const struct tokenizer *t)
{
    json_t *request;
    while ((request = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        json_t *ids = encode(renderer, t, request);
        if (ids == NULL || json_dumpf(ids, stdout, 0) != 0)
            return 1;
        putchar('\n');
        json_decref(ids);
        json_decref(request);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct gguf *g;
    struct tokenizer *t;
    struct chat_renderer *renderer;
    if (argc != 3 || gguf_open(&g, argv[1], NULL) != MR_OK || tokenizer_create(&t, g, NULL) != MR_OK)
        return 2;
    gguf_close(g);
    const char *source = chat_template_builtin(argv[2]);
    const struct gguf_string own = tokenizer_chat_template(t);
    const size_t n = source != NULL ? strlen(source) : own.n;
    if (chat_renderer_create(&renderer, source != NULL ? source : own.s, n, t, NULL) != MR_OK)
        return 2;
    const int result = answer_all(renderer, t);
    chat_renderer_free(renderer);
    tokenizer_free(t);
    return result;
}
