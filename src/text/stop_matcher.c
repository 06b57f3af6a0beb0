/* stop_matcher.c: strings that end an answer, all searched at once (Aho and Corasick 1975, "Efficient string matching").
 * A node is a prefix of a stop string; the text that is held back is the present node's. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/detokenizer.h"

struct stop_node {
    uint32_t child, sibling; /* 0: none, the root being nobody's child */
    uint32_t fail;           /* the longest proper suffix of this prefix that is a prefix too */
    uint32_t depth;          /* bytes of the prefix */
    uint32_t text;           /* offset in `bytes` of a stop string that begins with it */
    uint32_t match;          /* bytes of the longest stop string that ends here; 0: none */
    char byte;               /* the last one of the prefix */
};

struct stop_matcher {
    struct stop_node *node;
    size_t n_node;
    char *bytes; /* the stop strings, joined */
    uint32_t at; /* present node */
    bool matched;
};

static uint32_t find_child(const struct stop_matcher *m, uint32_t node, char byte)
{
    uint32_t child = m->node[node].child;
    while (child != 0 && m->node[child].byte != byte)
        child = m->node[child].sibling;
    return child;
}

static void add_string(struct stop_matcher *m, uint32_t offset, size_t n)
{
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t child = find_child(m, node, m->bytes[offset + i]);
        if (child == 0) {
            child = (uint32_t)m->n_node++;
            m->node[child] = (struct stop_node){
                .sibling = m->node[node].child, .depth = (uint32_t)i + 1, .text = offset, .byte = m->bytes[offset + i]};
            m->node[node].child = child;
        }
        node = child;
    }
    m->node[node].match = (uint32_t)n;
}

/* The node of the longest suffix of (node's prefix, byte). */
static uint32_t advance(const struct stop_matcher *m, uint32_t node, char byte)
{
    for (;;) {
        const uint32_t child = find_child(m, node, byte);
        if (child != 0 || node == 0)
            return child;
        node = m->node[node].fail;
    }
}

/* Breadth first: a node's fail lies nearer to the root. queue: room for all nodes. */
static void link_suffixes(struct stop_matcher *m, uint32_t *queue)
{
    size_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        const uint32_t parent = queue[head++];
        for (uint32_t child = m->node[parent].child; child != 0; child = m->node[child].sibling) {
            struct stop_node *c = &m->node[child];
            c->fail = parent == 0 ? 0 : advance(m, m->node[parent].fail, c->byte);
            if (c->match == 0)
                c->match = m->node[c->fail].match;
            queue[tail++] = child;
        }
    }
}

static enum mr_status measure(const char *const *stop, int n_stop, size_t *total, struct mr_error *err)
{
    *total = 0;
    for (int i = 0; i < n_stop; i++) {
        if (stop[i][0] == '\0')
            return mr_fail(err, MR_BAD_INPUT, "stop string %d is empty", i + 1);
        if (!size_add(total, *total, strlen(stop[i])) || *total >= UINT32_MAX)
            return mr_fail(err, MR_BAD_INPUT, "the stop strings have more than %u bytes in all", UINT32_MAX - 1);
    }
    return MR_OK;
}

enum mr_status stop_matcher_create(struct stop_matcher **out, const char *const *stop, int n_stop, struct mr_error *err)
{
    size_t total;
    *out = NULL;
    MR_TRY(measure(stop, n_stop, &total, err));
    struct stop_matcher *m = calloc(1, sizeof *m);
    uint32_t *queue = mem_array(total + 1, sizeof *queue);
    if (m != NULL) {
        m->node = mem_zero_array(total + 1, sizeof *m->node);
        m->bytes = mem_array(total, 1);
    }
    if (m == NULL || queue == NULL || m->node == NULL || m->bytes == NULL) {
        free(queue);
        stop_matcher_free(m);
        return mr_fail(err, MR_NO_MEMORY, "no memory for stop strings of %zu bytes", total);
    }
    m->n_node = 1;
    uint32_t offset = 0;
    for (int i = 0; i < n_stop; i++) {
        const size_t n = strlen(stop[i]);
        memcpy(m->bytes + offset, stop[i], n);
        add_string(m, offset, n);
        offset += (uint32_t)n;
    }
    link_suffixes(m, queue);
    free(queue);
    *out = m;
    return MR_OK;
}

void stop_matcher_free(struct stop_matcher *m)
{
    if (m == NULL)
        return;
    free(m->node);
    free(m->bytes);
    free(m);
}

bool stop_matcher_push(struct stop_matcher *m, const char *s, size_t n, struct string_buffer *out)
{
    if (m->matched)
        return true;
    for (size_t i = 0; i < n; i++) {
        const struct stop_node *from = &m->node[m->at];
        m->at = advance(m, m->at, s[i]);
        const struct stop_node *to = &m->node[m->at];
        /* what stays back: the new prefix, or the stop string, which both end with this byte */
        const uint32_t kept = to->match > 0 ? to->match : to->depth;
        const uint32_t certain = from->depth + 1 - kept;
        string_buffer_add(out, m->bytes + from->text, certain < from->depth ? certain : from->depth);
        if (certain > from->depth)
            string_buffer_add(out, &s[i], 1);
        if (to->match > 0) {
            m->matched = true;
            return true;
        }
    }
    return false;
}

void stop_matcher_finish(struct stop_matcher *m, struct string_buffer *out)
{
    if (!m->matched)
        string_buffer_add(out, m->bytes + m->node[m->at].text, m->node[m->at].depth);
    m->at = 0;
}
