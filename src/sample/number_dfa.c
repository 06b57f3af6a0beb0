/* number_dfa.c: decimal numbers within bounds, as an automaton over their digits.
 * Digits are compared as text, exactly; no exponents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/schema.h"

void number_text(char *buffer, size_t size, double x)
{
    char digits[32];
    int precision = 1;
    for (; precision < 17; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision - 1, x);
        if (strtod(digits, NULL) == x)
            break;
    }
    snprintf(digits, sizeof digits, "%.*e", precision - 1, x);
    const int exponent = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -5 || exponent > 15)
        snprintf(buffer, size, "%s", digits);
    else
        snprintf(buffer, size, "%.*f", precision - 1 > exponent ? precision - 1 - exponent : 1, x);
}

/* Exponents written out, zeros at both ends dropped. */
static bool decimal_from_text(struct decimal *d, const char *text)
{
    char digit[32];
    int n = 0, point = -1;
    *d = (struct decimal){.negative = *text == '-'};
    for (text += d->negative; *text != '\0' && *text != 'e' && n < (int)sizeof digit; text++) {
        if (*text == '.')
            point = n;
        else
            digit[n++] = *text;
    }
    point = (point < 0 ? n : point) + (*text == 'e' ? (int)strtol(text + 1, NULL, 10) : 0);
    int first = 0;
    while (n > 0 && digit[n - 1] == '0')
        n--;
    while (first < n && digit[first] == '0')
        first++;
    if (first == n) {
        d->negative = false;
        d->digits[0] = '0';
        d->n_integer = 1;
        return true;
    }
    if (point - first > SCHEMA_INTEGER_DIGITS) {
        d->huge = true;
        return true;
    }
    if (n - point > SCHEMA_FRACTION_DIGITS)
        return false;
    int out = 0;
    for (int i = first < point ? first : point - (point <= first); i < (n > point ? n : point); i++) {
        if (i == point)
            d->n_integer = out;
        d->digits[out++] = i >= first && i < n ? digit[i] : '0';
    }
    if (n <= point)
        d->n_integer = out;
    d->n_fraction = out - d->n_integer;
    return true;
}

bool decimal_read(struct decimal *d, json_t *number)
{
    char text[64];
    if (json_is_integer(number))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(number));
    else
        snprintf(text, sizeof text, "%.17g", json_real_value(number));
    if (json_is_real(number))
        number_text(text, sizeof text, json_real_value(number));
    return decimal_from_text(d, text);
}

bool decimal_is_zero(const struct decimal *d) { return !d->huge && d->n_fraction == 0 && d->digits[0] == '0'; }

/* Which outcomes of comparing a text with a bound lead to `accept`. */
struct comparison {
    struct nfa *n;
    uint32_t accept;
    bool less, equal, greater;
};

static void digit_edge(const struct comparison *c, uint32_t from, int low, int high, uint32_t to)
{
    if (low <= high)
        nfa_edge(c->n, from, (uint32_t)('0' + low), (uint32_t)('0' + high), to);
}

/* From `from` any digits, with a point among them where one may still come, then accept. */
static void rest(const struct comparison *c, uint32_t from, bool point)
{
    digit_edge(c, from, 0, 9, from);
    nfa_empty(c->n, from, c->accept);
    if (!point)
        return;
    const uint32_t fraction = nfa_state(c->n);
    nfa_edge(c->n, from, '.', '.', fraction);
    rest(c, fraction, false);
}

/* From the equal digits before `from`: a digit that decides leads to `low` or `high`. */
static uint32_t next_digit(const struct comparison *c, uint32_t from, int digit, uint32_t low, uint32_t high)
{
    const uint32_t to = nfa_state(c->n);
    digit_edge(c, from, digit, digit, to);
    digit_edge(c, from, 0, digit - 1, low);
    digit_edge(c, from, digit + 1, 9, high);
    return to;
}

/* The digits before the point, when there are as many as the bound has: a difference decides once all are read. */
static uint32_t compare_integer(const struct comparison *c, uint32_t from, const struct decimal *d)
{
    uint32_t low = 0, high = 0;
    for (int i = 0; i < d->n_integer; i++) {
        const uint32_t next_low = nfa_state(c->n), next_high = nfa_state(c->n);
        if (i > 0) {
            digit_edge(c, low, 0, 9, next_low);
            digit_edge(c, high, 0, 9, next_high);
        }
        from = next_digit(c, from, d->digits[i] - '0', next_low, next_high);
        low = next_low;
        high = next_high;
    }
    const uint32_t end[] = {low, high};
    for (int i = 0; i < 2; i++) {
        if (!(i == 0 ? c->less : c->greater))
            continue;
        const uint32_t fraction = nfa_state(c->n);
        nfa_empty(c->n, end[i], c->accept);
        nfa_edge(c->n, end[i], '.', '.', fraction);
        rest(c, fraction, false);
    }
    return from;
}

/* Behind equal digits before the point. */
static void compare_fraction(const struct comparison *c, uint32_t from, const struct decimal *d)
{
    const uint32_t low = nfa_state(c->n), high = nfa_state(c->n), zeros = nfa_state(c->n);
    const bool ends_less = d->n_fraction > 0;
    if (ends_less ? c->less : c->equal)
        nfa_empty(c->n, from, c->accept);
    uint32_t at = nfa_state(c->n);
    nfa_edge(c->n, from, '.', '.', at);
    for (int i = 0; i < d->n_fraction; i++) {
        if (i > 0 && c->less)
            nfa_empty(c->n, at, c->accept);
        at = next_digit(c, at, d->digits[d->n_integer + i] - '0', low, high);
    }
    nfa_empty(c->n, at, zeros);
    digit_edge(c, zeros, 0, 0, zeros);
    digit_edge(c, zeros, 1, 9, high);
    if (c->equal)
        nfa_empty(c->n, zeros, c->accept);
    if (c->less)
        rest(c, low, false);
    if (c->greater)
        rest(c, high, false);
}

/* Fewer or more digits before the point than the bound has. */
static void compare_lengths(const struct comparison *c, uint32_t from, const struct decimal *d)
{
    const int n = d->huge ? SCHEMA_INTEGER_DIGITS + 1 : d->n_integer;
    uint32_t at = from;
    for (int i = 1; i <= n; i++) {
        const uint32_t next = nfa_state(c->n);
        digit_edge(c, at, 0, 9, next);
        at = next;
        if (i < n && c->less) {
            const uint32_t fraction = nfa_state(c->n);
            nfa_empty(c->n, at, c->accept);
            nfa_edge(c->n, at, '.', '.', fraction);
            rest(c, fraction, false);
        }
    }
    if (!c->greater)
        return;
    const uint32_t more = nfa_state(c->n);
    digit_edge(c, at, 0, 9, more);
    rest(c, more, true);
}

/* Magnitudes (no sign) that stand in the given relation to that of d. */
static enum mr_status compare_dfa(struct dfa *out, const struct decimal *d, bool less, bool equal, bool greater,
                                  struct mr_error *err)
{
    struct nfa n;
    nfa_init(&n);
    const uint32_t start = nfa_state(&n), accept = nfa_state(&n);
    const struct comparison c = {&n, accept, less, equal, greater};
    compare_lengths(&c, start, d);
    if (!d->huge)
        compare_fraction(&c, compare_integer(&c, start, d), d);
    const enum mr_status status = dfa_from_nfa(out, &n, start, accept, err);
    nfa_release(&n);
    return status;
}

/* Magnitudes as JSON writes them: no leading zeros, bounded digits. */
static enum mr_status syntax_dfa(struct dfa *out, int max_fraction, struct mr_error *err)
{
    struct nfa n;
    nfa_init(&n);
    const uint32_t start = nfa_state(&n), accept = nfa_state(&n), end = nfa_state(&n);
    nfa_edge(&n, start, '0', '0', end);
    uint32_t at = start;
    for (int i = 0; i < SCHEMA_INTEGER_DIGITS; i++) {
        const uint32_t next = nfa_state(&n);
        nfa_edge(&n, at, i == 0 ? '1' : '0', '9', next);
        nfa_empty(&n, next, end);
        at = next;
    }
    nfa_empty(&n, end, accept);
    at = nfa_state(&n);
    if (max_fraction > 0)
        nfa_edge(&n, end, '.', '.', at);
    for (int i = 0; i < max_fraction; i++) {
        const uint32_t next = nfa_state(&n);
        nfa_edge(&n, at, '0', '9', next);
        nfa_empty(&n, next, accept);
        at = next;
    }
    const enum mr_status status = dfa_from_nfa(out, &n, start, accept, err);
    nfa_release(&n);
    return status;
}

/* Digits whose value is a multiple of m: states are remainders. */
static enum mr_status multiple_dfa(struct dfa *out, uint32_t m, struct mr_error *err)
{
    struct nfa n;
    nfa_init(&n);
    const uint32_t start = nfa_state(&n);
    for (uint32_t r = 0; r < m; r++)
        nfa_state(&n);
    for (uint32_t r = 0; r < m; r++)
        for (uint32_t digit = 0; digit < 10; digit++)
            nfa_edge(&n, start + 1 + r, '0' + digit, '0' + digit, start + 1 + (uint32_t)(((uint64_t)r * 10 + digit) % m));
    for (uint32_t digit = 0; digit < 10; digit++)
        nfa_edge(&n, start, '0' + digit, '0' + digit, start + 1 + digit % m);
    const enum mr_status status = dfa_from_nfa(out, &n, start, start + 1, err);
    nfa_release(&n);
    return status;
}

/* d = what d and `by` accept; by is released, and d too on failure. */
static enum mr_status narrow(struct dfa *d, enum mr_status status, struct dfa *by, struct mr_error *err)
{
    struct dfa both = {0};
    if (status == MR_OK)
        status = dfa_combine(&both, d, by, DFA_BOTH, err);
    dfa_release(by);
    dfa_release(d);
    *d = both;
    return status == MR_OK ? dfa_minimize(d, NULL, err) : status;
}

/* Magnitudes of the numbers of one sign. low and high bound the magnitude, NULL: not at all. */
static enum mr_status magnitude_dfa(struct dfa *out, const struct number_bounds *b, const struct decimal *low,
                                    bool low_excluded, const struct decimal *high, bool high_excluded, struct mr_error *err)
{
    struct dfa by;
    enum mr_status status = syntax_dfa(out, b->integer ? 0 : b->max_fraction, err);
    if (status == MR_OK && low != NULL)
        status = narrow(out, compare_dfa(&by, low, false, !low_excluded, true, err), &by, err);
    if (status == MR_OK && high != NULL)
        status = narrow(out, compare_dfa(&by, high, true, !high_excluded, false, err), &by, err);
    for (size_t i = 0; status == MR_OK && i < b->n_multiple; i++)
        status = narrow(out, multiple_dfa(&by, b->multiple[i], err), &by, err);
    if (status != MR_OK)
        dfa_release(out);
    return status;
}

/* Copy d into n from state `from` to `to`. */
static void embed(struct nfa *n, const struct dfa *d, uint32_t from, uint32_t to)
{
    const uint32_t base = n->n_state;
    for (uint32_t i = 0; i < d->n_state; i++)
        nfa_state(n);
    nfa_empty(n, from, base);
    for (uint32_t i = 0; i < d->n_state; i++) {
        for (uint32_t e = d->first[i]; e < d->first[i + 1]; e++)
            nfa_edge(n, base + i, d->edge[e].low, d->edge[e].high, base + d->edge[e].to);
        if (d->final[i])
            nfa_empty(n, base + i, to);
    }
}

static enum mr_status join_signs(struct dfa *out, const struct dfa *positive, const struct dfa *negative, struct mr_error *err)
{
    struct nfa n;
    nfa_init(&n);
    const uint32_t start = nfa_state(&n), accept = nfa_state(&n), minus = nfa_state(&n);
    nfa_edge(&n, start, '-', '-', minus);
    if (positive->n_state > 0)
        embed(&n, positive, start, accept);
    if (negative->n_state > 0)
        embed(&n, negative, minus, accept);
    enum mr_status status = dfa_from_nfa(out, &n, start, accept, err);
    nfa_release(&n);
    return status == MR_OK ? dfa_minimize(out, NULL, err) : status;
}

enum mr_status number_dfa(struct dfa *out, const struct number_bounds *b, struct mr_error *err)
{
    static const struct decimal zero = {.digits = "0", .n_integer = 1};
    const bool low_negative = !b->has_low || b->low.negative, high_negative = b->has_high && b->high.negative;
    const bool high_zero = b->has_high && decimal_is_zero(&b->high);
    struct dfa positive = {0}, negative = {0};
    enum mr_status status = MR_OK;
    *out = (struct dfa){0};
    if (!high_negative && !(high_zero && b->high_excluded))
        status = magnitude_dfa(&positive, b, b->has_low && !b->low.negative ? &b->low : NULL, b->low_excluded,
                               b->has_high ? &b->high : NULL, b->high_excluded, err);
    if (status == MR_OK && low_negative)
        status = magnitude_dfa(&negative, b, high_negative ? &b->high : &zero, high_negative ? b->high_excluded : true,
                               b->has_low ? &b->low : NULL, b->low_excluded, err);
    if (status == MR_OK)
        status = join_signs(out, &positive, &negative, err);
    if (status != MR_OK)
        dfa_release(out);
    dfa_release(&positive);
    dfa_release(&negative);
    return status;
}
