/* grammar_analyse.c: what the masks want to know about an automaton beforehand. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/grammar_builder_internal.h"

enum {
    FOLLOW_PASSES = 32,
    NEED_WORK_MAX = 1 << 28, /* edges looked at */
    NEED_UNKNOWN = UINT16_MAX
};

static bool byte_set_join(struct byte_set *to, const struct byte_set *from)
{
    bool grew = false;
    for (int i = 0; i < 4; i++) {
        grew |= (from->word[i] & ~to->word[i]) != 0;
        to->word[i] |= from->word[i];
    }
    return grew;
}

struct byte_set grammar_node_first(const struct grammar *g, uint32_t node)
{
    struct byte_set set = {{0}};
    const struct grammar_node *n = &g->node[node];
    for (unsigned byte = 0; byte < 256; byte++)
        if (grammar_next(g, node, byte) != NODE_NONE)
            byte_set_add(&set, byte);
    for (uint32_t c = 0; c < n->n_call; c++)
        byte_set_join(&set, &g->rule[g->call[n->call + c].rule].first);
    return set;
}

/* A walk along first calls. */
struct leftmost {
    uint32_t rule, next_call;
};

/* FIRST of every rule, callees before callers; a rule met again on the way down is left recursion. */
static enum mr_status find_first(struct grammar *g, const struct grammar_builder *b, const uint32_t *origin,
                                 struct leftmost *stack, unsigned char *seen, struct mr_error *err)
{
    enum {
        OPEN = 1,
        DONE = 2
    };
    for (uint32_t root = 0; root < g->n_rule; root++) {
        size_t n = 0;
        if (seen[root] != DONE)
            stack[n++] = (struct leftmost){root, 0};
        while (n > 0) {
            struct leftmost *top = &stack[n - 1];
            const struct grammar_node *start = &g->node[g->rule[top->rule].start];
            seen[top->rule] = OPEN;
            if (top->next_call == start->n_call) {
                g->rule[top->rule].first = grammar_node_first(g, g->rule[top->rule].start);
                seen[top->rule] = DONE;
                n--;
                continue;
            }
            const uint32_t callee = g->call[start->call + top->next_call++].rule;
            if (seen[callee] == OPEN)
                return mr_fail(err, MR_BAD_INPUT, "rule '%s' is left-recursive: it can begin with itself",
                               grammar_rule_name(b, origin[callee]));
            if (seen[callee] == DONE)
                continue;
            if (n >= GRAMMAR_CHAIN_MAX)
                return mr_fail(err, MR_BAD_INPUT, "rule '%s' ends a chain of more than %d rules that begin with the next",
                               grammar_rule_name(b, origin[callee]), GRAMMAR_CHAIN_MAX);
            stack[n++] = (struct leftmost){callee, 0};
        }
    }
    return MR_OK;
}

static bool follow_pass(struct grammar *g)
{
    bool grew = false;
    for (uint32_t i = 0; i < g->n_node; i++) {
        const struct grammar_node *node = &g->node[i];
        for (uint32_t c = 0; c < node->n_call; c++) {
            const struct grammar_call call = g->call[node->call + c];
            const struct byte_set set = grammar_node_first(g, call.to);
            grew |= byte_set_join(&g->rule[call.rule].follow, &set);
            if (g->node[call.to].final)
                grew |= byte_set_join(&g->rule[call.rule].follow, &g->rule[node->rule].follow);
        }
    }
    return grew;
}

static void find_follow(struct grammar *g)
{
    bool grew = true;
    for (int pass = 0; grew && pass < FOLLOW_PASSES; pass++)
        grew = follow_pass(g);
    for (uint32_t i = 0; grew && i < g->n_rule; i++)
        memset(&g->rule[i].follow, 0xff, sizeof g->rule[i].follow);
}

static uint16_t need_of_calls(const struct grammar *g, const struct grammar_node *node, bool to_itself)
{
    uint16_t best = NEED_UNKNOWN;
    for (uint32_t c = 0; c < node->n_call; c++) {
        const struct grammar_call call = g->call[node->call + c];
        const uint16_t inside = g->node[g->rule[call.rule].start].need_more;
        uint16_t need = inside == NEED_UNKNOWN ? inside : (uint16_t)(inside + 1);
        if (!to_itself && g->node[call.to].need > need)
            need = g->node[call.to].need;
        best = need < best ? need : best;
    }
    return best;
}

/* Frames for the rest of the rule. need_more of a rule's first node: for a text of at least one byte. */
static bool improve_need(struct grammar *g, uint32_t i)
{
    struct grammar_node *node = &g->node[i];
    uint16_t more = need_of_calls(g, node, node->counted);
    for (uint32_t c = 0; c < g->n_class; c++) {
        const uint32_t to = g->next[(size_t)i * g->n_class + c];
        if (to != NODE_NONE && g->node[to].need < more)
            more = g->node[to].need;
    }
    const uint16_t need = node->final ? 0 : more;
    const bool changed = more != node->need_more || need != node->need;
    node->need_more = more;
    node->need = need;
    return changed;
}

static enum mr_status find_need(struct grammar *g, struct mr_error *err)
{
    for (uint32_t i = 0; i < g->n_node; i++)
        g->node[i].need = g->node[i].need_more = NEED_UNKNOWN;
    bool changed = true;
    const size_t pass = (size_t)g->n_node * g->n_class;
    for (size_t work = 0; changed && work <= NEED_WORK_MAX; work += pass) {
        changed = false;
        for (uint32_t i = g->n_node; i-- > 0;)
            changed |= improve_need(g, i);
    }
    const struct grammar_node *start = &g->node[g->rule[g->root].start];
    if (changed || start->need + 2 > GRAMMAR_STACK_MAX)
        return mr_fail(err, MR_BAD_INPUT, "the shortest text is nested deeper than %d", GRAMMAR_STACK_MAX);
    return MR_OK;
}

/* Whether the bytes low to high all lead from the node to `to`. */
static bool all_lead(const struct grammar *g, uint32_t node, unsigned low, unsigned high, uint32_t to)
{
    if (node == NODE_NONE)
        return false;
    for (unsigned byte = low; byte <= high; byte++)
        if (grammar_next(g, node, byte) != to)
            return false;
    return true;
}

/* Whether every ordinary character (token_trie.h) leads from the node to `to`. */
static bool reads_text(const struct grammar *g, uint32_t node, uint32_t to)
{
    if (!all_lead(g, node, ' ', '!', to) || !all_lead(g, node, '#', '[', to) || !all_lead(g, node, ']', '~', to))
        return false;
    for (unsigned lead = 0xc2; lead <= 0xdf; lead++)
        if (!all_lead(g, grammar_next(g, node, lead), lead == 0xc2 ? 0xa0 : 0x80, 0xbf, to))
            return false;
    for (unsigned lead = 0xe0; lead <= 0xef; lead++) {
        const uint32_t two = grammar_next(g, node, lead);
        for (unsigned b = lead == 0xe0 ? 0xa0 : 0x80; b <= (lead == 0xed ? 0x9fu : 0xbfu); b++) {
            const uint32_t one = two == NODE_NONE ? NODE_NONE : grammar_next(g, two, b);
            const bool separators = lead == 0xe2 && b == 0x80; /* U+2028, U+2029 are a9, a8 */
            if (!all_lead(g, one, 0x80, separators ? 0xa7 : 0xbf, to) || (separators && !all_lead(g, one, 0xaa, 0xbf, to)))
                return false;
        }
    }
    for (unsigned lead = 0xf0; lead <= 0xf4; lead++) {
        const uint32_t three = grammar_next(g, node, lead);
        for (unsigned b = lead == 0xf0 ? 0x90 : 0x80; b <= (lead == 0xf4 ? 0x8fu : 0xbfu); b++) {
            const uint32_t two = three == NODE_NONE ? NODE_NONE : grammar_next(g, three, b);
            const uint32_t one = two == NODE_NONE ? NODE_NONE : grammar_next(g, two, 0x80);
            if (!all_lead(g, two, 0x80, 0xbf, one) || !all_lead(g, one, 0x80, 0xbf, to))
                return false;
        }
    }
    return true;
}

/* Whether an ordinary character may stand behind the rule: its end is then not a place to skip. */
static bool text_follows(const struct grammar_rule *r)
{
    for (unsigned byte = 0; byte < 256; byte++)
        if (byte_set_has(&r->follow, byte) && byte >= 0x20 && byte != '"' && byte != '\\')
            return true;
    return false;
}

/* What lets a walk go fast. */
static void find_simple(struct grammar *g)
{
    for (uint32_t i = 0; i < g->n_node; i++) {
        struct grammar_node *n = &g->node[i];
        struct grammar_rule *r = &g->rule[n->rule];
        n->simple = n->n_call == 0 && !n->final && !n->counted;
        r->max_need = n->need > r->max_need ? n->need : r->max_need;
    }
    for (size_t i = 0; i < (size_t)g->n_node * g->n_class; i++)
        if (g->next[i] != NODE_NONE && !g->node[g->next[i]].simple)
            g->next[i] |= NODE_NOT_SIMPLE;
}

/* How many ordinary characters the call leads to at least, 0: not any of them. */
static uint32_t text_of_call(const struct grammar *g, struct grammar_call call)
{
    const struct grammar_node *start = &g->node[g->rule[call.rule].start];
    return start->counted && start->n_call == 1 && g->rule[g->call[start->call].rule].is_character ? start->max : 0;
}

static uint32_t text_of_node(const struct grammar *g, uint32_t i)
{
    const struct grammar_node *n = &g->node[i];
    if (n->counted)
        return n->n_call == 1 && g->rule[g->call[n->call].rule].is_character ? n->max : 0;
    if (n->n_call == 0)
        return reads_text(g, i, i) ? UINT32_MAX : 0;
    uint32_t most = 0;
    for (uint32_t c = 0; c < n->n_call; c++) {
        const uint32_t one = text_of_call(g, g->call[n->call + c]);
        most = one > most ? one : most;
    }
    return most;
}

static void find_text(struct grammar *g)
{
    for (uint32_t i = 0; i < g->n_rule; i++) {
        const uint32_t start = g->rule[i].start, to = grammar_next(g, start, 'a');
        g->rule[i].is_character = to != NODE_NONE && g->node[to].last && reads_text(g, start, to);
    }
    for (uint32_t i = 0; i < g->n_node; i++) {
        struct grammar_node *n = &g->node[i];
        const bool must_look = (n->final || n->n_call > 0) && text_follows(&g->rule[n->rule]);
        const uint32_t most = must_look ? 0 : text_of_node(g, i);
        n->text = most > 0;
        n->max = most > 0 ? most : n->max;
    }
}

enum mr_status grammar_analyse(struct grammar *g, const struct grammar_builder *b, const uint32_t *origin, struct mr_error *err)
{
    struct leftmost *stack = mem_array(g->n_rule, sizeof *stack);
    unsigned char *seen = mem_zero_array(g->n_rule, sizeof *seen);
    enum mr_status status = stack != NULL && seen != NULL ? find_first(g, b, origin, stack, seen, err)
                                                          : mr_fail(err, MR_NO_MEMORY, "no memory for a grammar");
    free(stack);
    free(seen);
    MR_TRY(status);
    find_follow(g);
    MR_TRY(find_need(g, err));
    find_simple(g);
    find_text(g);
    return MR_OK;
}
