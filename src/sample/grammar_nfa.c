/* grammar_nfa.c: nondeterministic automata, and characters spelt as bytes. */
#include "sample/grammar_nfa.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/utf8.h"

void nfa_init(struct nfa *n) { *n = (struct nfa){0}; }

void nfa_release(struct nfa *n)
{
    free(n->edge);
    *n = (struct nfa){0};
}

uint32_t nfa_state(struct nfa *n)
{
    if (n->n_state < NFA_STATE_MAX)
        return n->n_state++;
    n->status = MR_BAD_INPUT;
    return 0;
}

void nfa_edge(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, uint32_t to)
{
    if (n->status != MR_OK)
        return;
    if (n->n_edge >= NFA_EDGE_MAX)
        n->status = MR_BAD_INPUT;
    else if (!mem_grow(&n->edge, &n->capacity, n->n_edge + 1, sizeof *n->edge))
        n->status = MR_NO_MEMORY;
    else
        n->edge[n->n_edge++] = (struct nfa_edge){from, low, high, to};
}

void nfa_empty(struct nfa *n, uint32_t from, uint32_t to) { nfa_edge(n, from, SYMBOL_EMPTY, SYMBOL_EMPTY, to); }

/* Characters of `length` bytes whose first bytes agree as far as they must: split until every byte is a free range. */
static void utf8_range(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, int length, uint32_t to)
{
    for (int i = 1; i < length; i++) {
        const uint32_t mask = (1u << 6 * i) - 1; /* of the last i bytes */
        if ((low & ~mask) == (high & ~mask))
            continue;
        if ((low & mask) != 0) {
            utf8_range(n, from, low, low | mask, length, to);
            utf8_range(n, from, (low | mask) + 1, high, length, to);
            return;
        }
        if ((high & mask) != mask) {
            utf8_range(n, from, low, (high & ~mask) - 1, length, to);
            utf8_range(n, from, high & ~mask, high, length, to);
            return;
        }
    }
    char a[UTF8_MAX], b[UTF8_MAX];
    utf8_encode(a, low);
    utf8_encode(b, high);
    for (int i = 0; i < length; i++) {
        const uint32_t next = i + 1 < length ? nfa_state(n) : to;
        nfa_edge(n, from, (unsigned char)a[i], (unsigned char)b[i], next);
        from = next;
    }
}

void nfa_utf8(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, uint32_t to)
{
    static const struct {
        uint32_t low, high;
        int length;
    } part[] = {{0, 0x7f, 1}, {0x80, 0x7ff, 2}, {0x800, 0xd7ff, 3}, {0xe000, 0xffff, 3}, {0x10000, CODE_POINT_MAX, 4}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        const uint32_t a = low > part[i].low ? low : part[i].low;
        const uint32_t b = high < part[i].high ? high : part[i].high;
        if (a <= b)
            utf8_range(n, from, a, b, part[i].length, to);
    }
}

static uint32_t nfa_byte(struct nfa *n, uint32_t from, unsigned char byte)
{
    const uint32_t to = nfa_state(n);
    nfa_edge(n, from, byte, byte, to);
    return to;
}

/* One hexadecimal digit with a value from low to high. */
static void hex_digit(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, uint32_t to)
{
    if (low <= 9)
        nfa_edge(n, from, '0' + low, '0' + (high < 9 ? high : 9), to);
    if (high >= 10) {
        const uint32_t first = low > 10 ? low : 10;
        nfa_edge(n, from, 'a' + first - 10, 'a' + high - 10, to);
        nfa_edge(n, from, 'A' + first - 10, 'A' + high - 10, to);
    }
}

static void hex_digits(struct nfa *n, uint32_t from, int count, uint32_t to)
{
    for (; count > 0; count--) {
        const uint32_t next = count > 1 ? nfa_state(n) : to;
        hex_digit(n, from, 0, 15, next);
        from = next;
    }
}

static void json_escape(struct nfa *n, uint32_t from, uint32_t code, uint32_t to)
{
    static const char letter[128] = {
        ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    const uint32_t slash = nfa_byte(n, from, '\\');
    if (letter[code] != 0) {
        nfa_edge(n, slash, (unsigned char)letter[code], (unsigned char)letter[code], to);
        return;
    }
    uint32_t s = nfa_byte(n, slash, 'u');
    s = nfa_byte(n, s, '0');
    s = nfa_byte(n, s, '0');
    const uint32_t last = nfa_state(n);
    hex_digit(n, s, code >> 4, code >> 4, last);
    hex_digit(n, last, code & 15, code & 15, to);
}

static bool json_must_escape(uint32_t code) { return code < 0x20 || code == '"' || code == '\\'; }

void nfa_json(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, uint32_t to)
{
    uint32_t start = low; /* of the run that needs no escape */
    for (uint32_t code = low; code <= high && code <= '\\'; code++) {
        if (!json_must_escape(code))
            continue;
        if (start < code)
            nfa_utf8(n, from, start, code - 1, to);
        json_escape(n, from, code, to);
        start = code + 1;
    }
    if (start <= high)
        nfa_utf8(n, from, start, high, to);
}

void nfa_json_any(struct nfa *n, uint32_t from, uint32_t to)
{
    static const char letter[] = "\"\\/bfnrt";
    nfa_utf8(n, from, 0x20, '"' - 1, to);
    nfa_utf8(n, from, '"' + 1, '\\' - 1, to);
    nfa_utf8(n, from, '\\' + 1, CODE_POINT_MAX, to);
    const uint32_t slash = nfa_byte(n, from, '\\');
    for (const char *c = letter; *c != '\0'; c++)
        nfa_edge(n, slash, (unsigned char)*c, (unsigned char)*c, to);
    const uint32_t u = nfa_byte(n, slash, 'u');
    const uint32_t three = nfa_state(n), d = nfa_state(n), two = nfa_state(n), high = nfa_state(n);
    hex_digit(n, u, 0, 12, three);
    hex_digit(n, u, 14, 15, three);
    hex_digits(n, three, 3, to);
    hex_digit(n, u, 13, 13, d);
    hex_digit(n, d, 0, 7, two);
    hex_digits(n, two, 2, to);
    hex_digit(n, d, 8, 11, high);
    const uint32_t end = nfa_state(n), low = nfa_state(n);
    hex_digits(n, high, 2, end);
    uint32_t s = nfa_byte(n, nfa_byte(n, end, '\\'), 'u');
    const uint32_t low_d = nfa_state(n);
    hex_digit(n, s, 13, 13, low_d);
    hex_digit(n, low_d, 12, 15, low);
    hex_digits(n, low, 2, to);
}

enum mr_status nfa_check(const struct nfa *n, struct mr_error *err)
{
    if (n->status == MR_NO_MEMORY)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an automaton of %u states", (unsigned)n->n_state);
    if (n->status != MR_OK)
        return mr_fail(err, MR_BAD_INPUT, "needs an automaton of more than %d states or %d edges", NFA_STATE_MAX, NFA_EDGE_MAX);
    return MR_OK;
}
