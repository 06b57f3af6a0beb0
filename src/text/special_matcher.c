/* special_matcher.c: finds the tokens that are matched as they are spelled. */
#include "text/special_matcher.h"

#include <stdlib.h>

#include "base/memory.h"

static bool is_special(const struct vocabulary *v, int32_t id)
{
    return v->type[id] == TOKEN_CONTROL || v->type[id] == TOKEN_USER_DEFINED || v->is_guarded[id];
}

bool special_matcher_init(struct special_matcher *m, const struct vocabulary *v)
{
    *m = (struct special_matcher){.is_guarded = v->is_guarded};
    int32_t *id = mem_array((size_t)v->n, sizeof *id);
    if (id == NULL)
        return false;
    size_t n = 0;
    for (int32_t i = 0; i < v->n; i++)
        if (is_special(v, i) && vocabulary_piece(v, i).n > 0)
            id[n++] = i;
    const bool ok = trie_init(&m->trie, &v->piece, id, n);
    free(id);
    return ok;
}

void special_matcher_release(struct special_matcher *m) { trie_release(&m->trie); }

/* The longest token at `at`; *id = -1: none. */
static size_t match_at(const struct special_matcher *m, const struct special_text *text, size_t at, int32_t *id)
{
    /* the stretches with odd numbers are the template's */
    const size_t guarded_end = text->stretch % 2 == 1 ? text->border[text->stretch] : at;
    size_t longest = 0;
    *id = -1;
    uint32_t node = 0;
    for (size_t i = at; i < text->n; i++) {
        node = trie_step(&m->trie, node, (unsigned char)text->s[i]);
        if (node == 0)
            break;
        const int32_t value = m->trie.node[node].value;
        if (value >= 0 && (!m->is_guarded[value] || i < guarded_end)) {
            longest = i + 1 - at;
            *id = value;
        }
    }
    return longest;
}

struct special_match special_matcher_next(const struct special_matcher *m, struct special_text *text, size_t from)
{
    for (size_t at = from; at < text->n; at++) {
        if (m->trie.root[(unsigned char)text->s[at]] == 0)
            continue;
        while (text->border[text->stretch] <= at)
            text->stretch++;
        int32_t id;
        const size_t n = match_at(m, text, at, &id);
        if (n > 0)
            return (struct special_match){at, n, id};
    }
    return (struct special_match){text->n, 0, -1};
}
