/* constraint_pipe.c: constraints on JSON lines, for comparison with other implementations.
 * Usage: constraint_pipe [VOCABULARY]; each line of the file is a token in hexadecimal, a blank, and 0 (text), 1 (control) or
 * 2 (end). Without one: all bytes and some pieces of JSON.
 * Each line of stdin: {"kind": "schema" | "object" | "regex" | "grammar" | "calls" | "choice", "text": ..., "choices": [...],
 * "accept": [texts], "tokens": [[ids]], "walks": number, "steps": number, "seed": number, "check": true}.
 * Each line of stdout: {"error": message} or {"accept": [bools], "walks": [texts], "masks": [[allowed ids per step]]}.
 * A walk chooses random tokens out of the masks and turns to the end after `steps` tokens; null where it did not end. With
 * "check", every mask of a walk is compared with accepting each token: a difference is an error. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/string_buffer.h"
#include "base/utf8.h"
#include "sample/constraint.h"

struct vocabulary {
    struct token_piece *piece;
    size_t n, capacity;
};

static void add_piece(struct vocabulary *v, const char *s, size_t n, int flag)
{
    char *copy = mem_string(s, n);
    if (copy == NULL || !mem_grow(&v->piece, &v->capacity, v->n + 1, sizeof *v->piece))
        exit(1);
    v->piece[v->n++] = (struct token_piece){copy, n, flag == 1, flag == 2};
}

static void built_in(struct vocabulary *v)
{
    static const char *const text[] = {
        "<end>",        "\"",       "\":",       "\",",   "\",\"", "\"}",  "{\"",    "}}",       "]}",
        "[[",           "],",       "true",      "false", "null",  "tr",   "nul",    "12",       "00",
        "3.1",          "-1",       "e+",        "\\u",   "\\n",   "\\\"", "  ",     "\n",       "\n  ",
        ", ",           ": ",       "abc",       "name",  "value", "the ", "\xc3",   "\xe4\xb8", "\xe4\xb8\xad",
        "\xf0\x9f\x98", "\xe2\x80", "\xc3\xa9t", "a\"",   "b\",",  "c\":", "\xa9\"", "00\",\"",  "1,",
        "2]",           "3}",       "{}",        "[]",    "[\"",   "a1",   "-0",     "\\\\"};
    for (int i = 0; i < 256; i++) {
        const char c = (char)i;
        add_piece(v, &c, 1, 0);
    }
    add_piece(v, "<end>", 5, 2);
    add_piece(v, "<pad>", 5, 1);
    for (size_t i = 1; i < sizeof text / sizeof *text; i++)
        add_piece(v, text[i], strlen(text[i]), 0);
}

static void read_vocabulary(struct vocabulary *v, const char *path)
{
    char line[8192];
    FILE *f = fopen(path, "r");
    if (f == NULL)
        exit(2);
    while (fgets(line, sizeof line, f) != NULL) {
        char bytes[4096];
        size_t n = 0;
        const char *p = line;
        for (unsigned byte; *p != ' ' && sscanf(p, "%2x", &byte) == 1; p += 2)
            bytes[n++] = (char)byte;
        add_piece(v, bytes, n, atoi(p + 1));
    }
    fclose(f);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Every token is allowed by the mask exactly if it can be accepted. */
static bool mask_is_right(struct constraint_state *s, const struct token_trie *t)
{
    const uint64_t *mask;
    if (constraint_mask(&mask, s, NULL) != MR_OK)
        return false;
    uint64_t *copy = mem_array(t->n_word, sizeof *copy);
    memcpy(copy, mask, t->n_word * sizeof *copy);
    bool right = true;
    for (int32_t i = 0; i < t->n_token && right; i++) {
        const bool accepted = constraint_accept(s, i, NULL) == MR_OK;
        right = accepted == mask_has(copy, i);
        if (!right)
            fprintf(stderr, "token %d: mask %d, accepted %d\n", i, mask_has(copy, i), accepted);
        if (accepted && constraint_undo(s, 1, NULL) != MR_OK)
            right = false;
    }
    free(copy);
    return right;
}

/* A random allowed token; when it is time to end, one that leads there is likelier. */
static int32_t choose(const uint64_t *mask, const struct vocabulary *v, const struct token_trie *t, uint32_t *random,
                      bool ending)
{
    static const char *const closing[] = {"\"", "}", "]", "\"}", "]}", "}}", "0", "1", "a", ":", "\":"};
    if (ending) {
        for (int32_t i = 0; i < t->n_token; i++)
            if (mask_has(mask, i) && v->piece[i].is_end)
                return i;
        for (size_t k = 0; k < sizeof closing / sizeof *closing; k++)
            for (int32_t i = 0; i < t->n_token && next_random(random) % 8 != 0; i++)
                if (mask_has(mask, i) && v->piece[i].n == strlen(closing[k]) &&
                    memcmp(v->piece[i].s, closing[k], v->piece[i].n) == 0)
                    return i;
    }
    int32_t chosen = -1;
    uint32_t n = 0;
    for (int32_t i = 0; i < t->n_token; i++)
        if (mask_has(mask, i) && next_random(random) % ++n == 0)
            chosen = i;
    return chosen;
}

static json_t *walk(struct mask_cache *m, const struct vocabulary *v, const struct token_trie *t, json_t *request,
                    uint32_t *random, bool *wrong)
{
    struct constraint_state *s;
    struct string_buffer text;
    const int steps = (int)json_integer_value(json_object_get(request, "steps"));
    const bool check = json_is_true(json_object_get(request, "check"));
    bool ended = false;
    string_buffer_init(&text);
    if (constraint_state_create(&s, m, NULL) != MR_OK)
        exit(1);
    for (int i = 0; i < 4 * steps + 4000 && !ended; i++) {
        const uint64_t *mask;
        if ((check && !mask_is_right(s, t)) || constraint_mask(&mask, s, NULL) != MR_OK) {
            *wrong = true;
            break;
        }
        const int32_t token = choose(mask, v, t, random, i >= steps);
        if (constraint_accept(s, token, NULL) != MR_OK) {
            *wrong = true;
            break;
        }
        ended = v->piece[token].is_end;
        if (!ended)
            string_buffer_add(&text, v->piece[token].s, v->piece[token].n);
    }
    json_t *result = ended ? json_stringn(text.n > 0 ? text.s : "", text.n) : json_null();
    if (result == NULL) { /* not UTF-8 */
        *wrong = true;
        result = json_null();
    }
    constraint_state_free(s);
    string_buffer_release(&text);
    return result;
}

static bool accepts(struct mask_cache *m, const char *text, size_t n)
{
    struct constraint_state *s;
    if (constraint_state_create(&s, m, NULL) != MR_OK)
        exit(1);
    const bool ok = constraint_accept_bytes(s, text, n, NULL, NULL) == MR_OK && constraint_can_end(s);
    constraint_state_free(s);
    return ok;
}

/* The ids allowed before each token of the list and behind the last; ends early at a token that is not. */
static json_t *masks_along(struct mask_cache *m, const struct token_trie *t, json_t *tokens)
{
    struct constraint_state *s;
    json_t *all = json_array();
    if (constraint_state_create(&s, m, NULL) != MR_OK)
        exit(1);
    for (size_t i = 0; i <= json_array_size(tokens); i++) {
        const uint64_t *mask;
        json_t *ids = json_array();
        if (constraint_mask(&mask, s, NULL) == MR_OK)
            for (int32_t id = 0; id < t->n_token; id++)
                if (mask_has(mask, id))
                    json_array_append_new(ids, json_integer(id));
        json_array_append_new(all, ids);
        if (i < json_array_size(tokens) &&
            constraint_accept(s, (int32_t)json_integer_value(json_array_get(tokens, i)), NULL) != MR_OK)
            break;
    }
    constraint_state_free(s);
    return all;
}

static json_t *answer_with(struct mask_cache *m, const struct vocabulary *v, const struct token_trie *t, json_t *request)
{
    json_t *answer = json_object(), *list = json_array(), *walks = json_array(), *masks = json_array(), *text;
    uint32_t random = (uint32_t)json_integer_value(json_object_get(request, "seed"));
    bool wrong = false;
    size_t i;
    json_array_foreach(json_object_get(request, "accept"), i, text)
        json_array_append_new(list, json_boolean(accepts(m, json_string_value(text), json_string_length(text))));
    for (json_int_t k = json_integer_value(json_object_get(request, "walks")); k > 0; k--)
        json_array_append_new(walks, walk(m, v, t, request, &random, &wrong));
    json_array_foreach(json_object_get(request, "tokens"), i, text) json_array_append_new(masks, masks_along(m, t, text));
    json_object_set_new(answer, "accept", list);
    json_object_set_new(answer, "walks", walks);
    json_object_set_new(answer, "masks", masks);
    if (wrong)
        json_object_set_new(answer, "wrong", json_true());
    return answer;
}

static json_t *answer(const struct vocabulary *v, const struct token_trie *t, json_t *request)
{
    static const char *const kinds[] = {"schema", "object", "regex", "grammar", "calls", "choice"};
    struct constraint_source source = {0};
    struct constraint_text choice[64];
    struct constraint *c;
    struct mask_cache *m;
    struct mr_error err;
    const char *kind = json_string_value(json_object_get(request, "kind"));
    json_t *text = json_object_get(request, "text"), *one;
    size_t i;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kind != NULL && strcmp(kind, kinds[i]) == 0)
            source.kind = (enum constraint_kind)i;
    source.text = (struct constraint_text){json_string_value(text), json_string_length(text)};
    json_array_foreach(json_object_get(request, "choices"), i, one) if (i < 64) choice[source.n_choice++] =
        (struct constraint_text){json_string_value(one), json_string_length(one)};
    source.choice = choice;
    if (constraint_create(&c, &source, &err) != MR_OK)
        return json_pack("{s:s}", "error", err.message);
    if (mask_cache_create(&m, c, t, NULL) != MR_OK)
        exit(1);
    json_t *result = answer_with(m, v, t, request);
    mask_cache_free(m);
    constraint_free(c);
    return result;
}

int main(int argc, char **argv)
{
    struct vocabulary v = {0};
    struct token_trie *t;
    if (argc > 1)
        read_vocabulary(&v, argv[1]);
    else
        built_in(&v);
    if (token_trie_create(&t, v.piece, (int32_t)v.n, NULL) != MR_OK)
        return 1;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *request = json_loads(line, JSON_ALLOW_NUL, NULL);
        if (request == NULL)
            return 2;
        json_t *result = answer(&v, t, request);
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(result);
        json_decref(request);
    }
    free(line);
    token_trie_free(t);
    for (size_t i = 0; i < v.n; i++)
        free((char *)(uintptr_t)v.piece[i].s);
    free(v.piece);
    return 0;
}
