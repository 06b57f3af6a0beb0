/* token_trie.c: the bytes of all tokens as a trie. */
#include "sample/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/* The first bytes as a number, so that most comparisons are of numbers. */
static uint64_t entry_key(const char *s, size_t n)
{
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof key; i++)
        key = key << 8 | (i < n ? (unsigned char)s[i] : 0);
    return key;
}

static int compare_entries(const void *a, const void *b)
{
    const struct token_entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    const int order = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);
    if (order != 0)
        return order;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

struct token_entry token_entry(const char *s, size_t n, int32_t token)
{
    return (struct token_entry){.key = entry_key(s, n), .s = s, .n = (uint32_t)n, .token = token};
}

static size_t common_prefix(const struct token_entry *a, const struct token_entry *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->s[n] == b->s[n])
        n++;
    return n;
}

bool token_nodes(struct token_node **node, uint32_t *n_node, struct token_entry *entry, size_t n_entry,
                 const int32_t *next_token)
{
    size_t capacity = 0;
    uint32_t open[TOKEN_BYTES_MAX + 1] = {0}; /* the nodes above the present one, by depth */
    uint32_t n = 1, depth = 0;
    *node = NULL;
    *n_node = 0;
    qsort(entry, n_entry, sizeof *entry, compare_entries);
    for (size_t i = 0; i < n_entry || i == 0; i++) {
        if (!mem_grow(node, &capacity, (size_t)n + TOKEN_BYTES_MAX, sizeof **node))
            return false;
        if (i == 0)
            (*node)[0] = (struct token_node){.token = -1};
        if (n_entry == 0)
            break;
        size_t shared = i > 0 ? common_prefix(&entry[i - 1], &entry[i]) : 0;
        if (shared == entry[i].n)
            shared--; /* the same string again */
        for (; depth > shared; depth--)
            (*node)[open[depth]].end = n;
        for (; depth < entry[i].n; n++) {
            (*node)[n] =
                (struct token_node){.token = -1, .depth = (uint16_t)(depth + 1), .byte = (unsigned char)entry[i].s[depth]};
            open[++depth] = n;
        }
        (*node)[open[depth]].token = entry[i].token;
        (*node)[open[depth]].chained = next_token[entry[i].token] >= 0;
    }
    for (; depth > 0; depth--)
        (*node)[open[depth]].end = n;
    (*node)[0].end = n;
    *n_node = n;
    return true;
}

static bool is_ordinary(uint32_t code)
{
    return (code >= 0x20 && code <= 0x7e && code != '"' && code != '\\') || (code >= 0xa0 && code != 0x2028 && code != 0x2029);
}

/* Characters of a text made of ordinary ones alone, if there are not too many; else 0. */
static unsigned char ordinary_characters(const char *s, size_t n)
{
    unsigned char count = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const int length = utf8_decode(&code, s + i, n - i);
        if (length <= 0 || !is_ordinary(code) || count == TOKEN_TEXT_MAX)
            return 0;
        i += (size_t)length;
        count++;
    }
    return count;
}

static bool allocate(struct token_trie *t, size_t n_byte)
{
    const size_t n = (size_t)t->n_token;
    t->next_token = mem_array(n, sizeof *t->next_token);
    t->n_character = mem_zero_array(n, sizeof *t->n_character);
    t->end = mem_zero_array(t->n_word, sizeof *t->end);
    t->offset = mem_array(n + 1, sizeof *t->offset);
    t->bytes = mem_array(n_byte, 1);
    return t->next_token && t->n_character && t->end && t->offset && t->bytes;
}

static bool is_usable(const struct token_piece *p)
{
    return !p->is_control && !p->is_end && p->n > 0 && p->n <= TOKEN_BYTES_MAX;
}

/* Copy the pieces and note what they are made of; entry gets those that can be allowed. */
static size_t read_pieces(struct token_trie *t, const struct token_piece *piece, struct token_entry *entry)
{
    size_t n_byte = 0, n_entry = 0;
    for (int32_t i = 0; i < t->n_token; i++) {
        const struct token_piece *p = &piece[i];
        t->offset[i] = n_byte;
        t->next_token[i] = -1;
        if (p->is_end)
            mask_add(t->end, i);
        if (!is_usable(p))
            continue;
        memcpy(t->bytes + n_byte, p->s, p->n);
        entry[n_entry++] = token_entry(t->bytes + n_byte, p->n, i);
        n_byte += p->n;
        t->n_character[i] = ordinary_characters(p->s, p->n);
        t->n_text = t->n_character[i] > t->n_text ? t->n_character[i] : t->n_text;
        t->max_depth = p->n > t->max_depth ? (uint32_t)p->n : t->max_depth;
    }
    t->offset[t->n_token] = n_byte;
    return n_entry;
}

/* Chain tokens of the same bytes behind the first, so that the trie has one node for them. */
static size_t chain_equals(struct token_trie *t, struct token_entry *entry, size_t n_entry)
{
    size_t n = 0;
    int32_t last = -1;
    qsort(entry, n_entry, sizeof *entry, compare_entries);
    for (size_t i = 0; i < n_entry; i++) {
        if (n > 0 && entry[n - 1].n == entry[i].n && memcmp(entry[n - 1].s, entry[i].s, entry[i].n) == 0)
            t->next_token[last] = entry[i].token;
        else
            entry[n++] = entry[i];
        last = entry[i].token;
    }
    return n;
}

/* The masks of ordinary text by length, and the nodes that lead to nothing else. */
static bool mark_text(struct token_trie *t)
{
    t->text = mem_zero_array(t->n_text * t->n_word, sizeof *t->text);
    if (t->text == NULL)
        return false;
    for (int32_t i = 0; i < t->n_token; i++)
        if (t->n_character[i] > 0)
            mask_add(t->text + (t->n_character[i] - 1u) * t->n_word, i);
    for (size_t w = t->n_word; w < t->n_text * t->n_word; w++)
        t->text[w] |= t->text[w - t->n_word];
    for (uint32_t i = t->n_node; i-- > 0;) {
        struct token_node *node = &t->node[i];
        node->text = node->token < 0 || t->n_character[node->token] > 0;
        for (uint32_t child = i + 1; child < node->end && node->text; child = t->node[child].end)
            node->text = t->node[child].text;
    }
    return true;
}

enum mr_status token_trie_create(struct token_trie **out, const struct token_piece *piece, int32_t n_token,
                                 struct mr_error *err)
{
    size_t n_byte = 0;
    for (int32_t i = 0; i < n_token; i++)
        n_byte += is_usable(&piece[i]) ? piece[i].n : 0;
    struct token_trie *t = *out = mem_zero_array(1, sizeof *t);
    struct token_entry *entry = mem_array((size_t)n_token, sizeof *entry);
    bool ok = t != NULL && entry != NULL;
    if (ok) {
        t->n_token = n_token;
        t->n_word = ((size_t)n_token + 63) / 64;
        ok = allocate(t, n_byte);
    }
    if (ok) {
        const size_t n = chain_equals(t, entry, read_pieces(t, piece, entry));
        ok = token_nodes(&t->node, &t->n_node, entry, n, t->next_token) && mark_text(t);
    }
    free(entry);
    if (!ok) {
        token_trie_free(t);
        *out = NULL;
        return mr_fail(err, MR_NO_MEMORY, "no memory for a trie of %d tokens", (int)n_token);
    }
    return MR_OK;
}

struct token_stretch token_trie_stretch(const struct token_trie *t, const char *s, size_t n)
{
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t end = t->node[at++].end;
        while (at < end && t->node[at].byte != (unsigned char)s[i])
            at = t->node[at].end;
        if (at >= end)
            return (struct token_stretch){0, 0};
    }
    return (struct token_stretch){at, t->node[at].end};
}

void token_trie_free(struct token_trie *t)
{
    if (t == NULL)
        return;
    free(t->node);
    free(t->next_token);
    free(t->n_character);
    free(t->text);
    free(t->end);
    free(t->bytes);
    free(t->offset);
    free(t);
}

int32_t token_trie_longest(const struct token_trie *t, const char *s, size_t n, size_t *length)
{
    int32_t best = -1;
    uint32_t i = 1, end = t->node[0].end;
    *length = 0;
    for (size_t depth = 0; depth < n && i < end;) {
        if (t->node[i].byte != (unsigned char)s[depth]) {
            i = t->node[i].end;
            continue;
        }
        depth++;
        if (t->node[i].token >= 0) {
            best = t->node[i].token;
            *length = depth;
        }
        end = t->node[i].end;
        i++;
    }
    return best;
}
