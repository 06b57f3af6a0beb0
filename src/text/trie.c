/* trie.c: a set of byte strings, built breadth first from their sorted list. */
#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct sorted { /* qsort takes no context */
    const char *s;
    uint32_t n;
    int32_t id;
};

static int by_bytes(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    const uint32_t n = x->n < y->n ? x->n : y->n;
    const int order = memcmp(x->s, y->s, n);
    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

/* The strings low to high (exclusive) share their first `depth` bytes and hang below `node`. */
struct pending {
    uint32_t low, high, depth, node;
};

struct builder {
    struct trie_node *node;
    size_t n_node, node_capacity;
    struct pending *queue;
    size_t n_queue, queue_capacity;
};

static bool add_children(struct builder *b, const struct sorted *list, struct pending p)
{
    if (list[p.low].n == p.depth)
        b->node[p.node].value = list[p.low++].id;
    b->node[p.node].child = (uint32_t)b->n_node;
    while (p.low < p.high) {
        const uint8_t byte = (uint8_t)list[p.low].s[p.depth];
        uint32_t high = p.low + 1;
        while (high < p.high && (uint8_t)list[high].s[p.depth] == byte)
            high++;
        if (b->n_node == UINT32_MAX || !mem_grow(&b->node, &b->node_capacity, b->n_node + 1, sizeof *b->node) ||
            !mem_grow(&b->queue, &b->queue_capacity, b->n_queue + 1, sizeof *b->queue))
            return false;
        b->queue[b->n_queue++] = (struct pending){p.low, high, p.depth + 1, (uint32_t)b->n_node};
        b->node[b->n_node++] = (struct trie_node){.value = -1, .byte = byte};
        b->node[p.node].n_child++;
        p.low = high;
    }
    return true;
}

static bool build(struct builder *b, const struct sorted *list, size_t n)
{
    if (!mem_grow(&b->node, &b->node_capacity, 1, sizeof *b->node))
        return false;
    b->node[b->n_node++] = (struct trie_node){.value = -1};
    if (!add_children(b, list, (struct pending){.high = (uint32_t)n}))
        return false;
    for (size_t i = 0; i < b->n_queue; i++)
        if (!add_children(b, list, b->queue[i]))
            return false;
    return true;
}

bool trie_init(struct trie *t, const struct string_table *table, const int32_t *id, size_t n)
{
    *t = (struct trie){0};
    if (n == 0)
        return true;
    struct sorted *list = n <= UINT32_MAX ? mem_array(n, sizeof *list) : NULL;
    if (list == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *s = string_table_at(table, (size_t)id[i], &len);
        list[i] = (struct sorted){s, (uint32_t)len, id[i]};
    }
    qsort(list, n, sizeof *list, by_bytes);
    struct builder b = {0};
    const bool ok = build(&b, list, n);
    free(list);
    free(b.queue);
    t->node = b.node;
    if (!ok) {
        trie_release(t);
        return false;
    }
    const struct trie_node *root = t->node;
    for (uint32_t i = root->child; i < root->child + root->n_child; i++)
        t->root[t->node[i].byte] = i;
    return true;
}

void trie_release(struct trie *t)
{
    free(t->node);
    *t = (struct trie){0};
}

uint32_t trie_step(const struct trie *t, uint32_t node, unsigned char byte)
{
    if (node == 0)
        return t->root[byte];
    uint32_t low = t->node[node].child, high = low + t->node[node].n_child;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (t->node[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < t->node[node].child + t->node[node].n_child && t->node[low].byte == byte;
    return found ? low : 0;
}
