/* jinja_unicode.c: what Python's str methods know of code points. Categories and one-to-one mappings are utf8proc's. */
#include "text/jinja_unicode.h"

#include <string.h>
#include <utf8proc.h>

/* One-to-many upper and title case (Unicode 15, SpecialCasing.txt, the part without conditions). */
static const struct special_case {
    uint16_t code;
    uint16_t upper[3], title[3];
} special_cases[] = {
    {0x00df, {0x0053, 0x0053}, {0x0053, 0x0073}},
    {0x0149, {0x02bc, 0x004e}, {0x02bc, 0x004e}},
    {0x01f0, {0x004a, 0x030c}, {0x004a, 0x030c}},
    {0x0390, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x03b0, {0x03a5, 0x0308, 0x0301}, {0x03a5, 0x0308, 0x0301}},
    {0x0587, {0x0535, 0x0552}, {0x0535, 0x0582}},
    {0x1e96, {0x0048, 0x0331}, {0x0048, 0x0331}},
    {0x1e97, {0x0054, 0x0308}, {0x0054, 0x0308}},
    {0x1e98, {0x0057, 0x030a}, {0x0057, 0x030a}},
    {0x1e99, {0x0059, 0x030a}, {0x0059, 0x030a}},
    {0x1e9a, {0x0041, 0x02be}, {0x0041, 0x02be}},
    {0x1f50, {0x03a5, 0x0313}, {0x03a5, 0x0313}},
    {0x1f52, {0x03a5, 0x0313, 0x0300}, {0x03a5, 0x0313, 0x0300}},
    {0x1f54, {0x03a5, 0x0313, 0x0301}, {0x03a5, 0x0313, 0x0301}},
    {0x1f56, {0x03a5, 0x0313, 0x0342}, {0x03a5, 0x0313, 0x0342}},
    {0x1f80, {0x1f08, 0x0399}, {0x1f88}},
    {0x1f81, {0x1f09, 0x0399}, {0x1f89}},
    {0x1f82, {0x1f0a, 0x0399}, {0x1f8a}},
    {0x1f83, {0x1f0b, 0x0399}, {0x1f8b}},
    {0x1f84, {0x1f0c, 0x0399}, {0x1f8c}},
    {0x1f85, {0x1f0d, 0x0399}, {0x1f8d}},
    {0x1f86, {0x1f0e, 0x0399}, {0x1f8e}},
    {0x1f87, {0x1f0f, 0x0399}, {0x1f8f}},
    {0x1f88, {0x1f08, 0x0399}, {0x1f88}},
    {0x1f89, {0x1f09, 0x0399}, {0x1f89}},
    {0x1f8a, {0x1f0a, 0x0399}, {0x1f8a}},
    {0x1f8b, {0x1f0b, 0x0399}, {0x1f8b}},
    {0x1f8c, {0x1f0c, 0x0399}, {0x1f8c}},
    {0x1f8d, {0x1f0d, 0x0399}, {0x1f8d}},
    {0x1f8e, {0x1f0e, 0x0399}, {0x1f8e}},
    {0x1f8f, {0x1f0f, 0x0399}, {0x1f8f}},
    {0x1f90, {0x1f28, 0x0399}, {0x1f98}},
    {0x1f91, {0x1f29, 0x0399}, {0x1f99}},
    {0x1f92, {0x1f2a, 0x0399}, {0x1f9a}},
    {0x1f93, {0x1f2b, 0x0399}, {0x1f9b}},
    {0x1f94, {0x1f2c, 0x0399}, {0x1f9c}},
    {0x1f95, {0x1f2d, 0x0399}, {0x1f9d}},
    {0x1f96, {0x1f2e, 0x0399}, {0x1f9e}},
    {0x1f97, {0x1f2f, 0x0399}, {0x1f9f}},
    {0x1f98, {0x1f28, 0x0399}, {0x1f98}},
    {0x1f99, {0x1f29, 0x0399}, {0x1f99}},
    {0x1f9a, {0x1f2a, 0x0399}, {0x1f9a}},
    {0x1f9b, {0x1f2b, 0x0399}, {0x1f9b}},
    {0x1f9c, {0x1f2c, 0x0399}, {0x1f9c}},
    {0x1f9d, {0x1f2d, 0x0399}, {0x1f9d}},
    {0x1f9e, {0x1f2e, 0x0399}, {0x1f9e}},
    {0x1f9f, {0x1f2f, 0x0399}, {0x1f9f}},
    {0x1fa0, {0x1f68, 0x0399}, {0x1fa8}},
    {0x1fa1, {0x1f69, 0x0399}, {0x1fa9}},
    {0x1fa2, {0x1f6a, 0x0399}, {0x1faa}},
    {0x1fa3, {0x1f6b, 0x0399}, {0x1fab}},
    {0x1fa4, {0x1f6c, 0x0399}, {0x1fac}},
    {0x1fa5, {0x1f6d, 0x0399}, {0x1fad}},
    {0x1fa6, {0x1f6e, 0x0399}, {0x1fae}},
    {0x1fa7, {0x1f6f, 0x0399}, {0x1faf}},
    {0x1fa8, {0x1f68, 0x0399}, {0x1fa8}},
    {0x1fa9, {0x1f69, 0x0399}, {0x1fa9}},
    {0x1faa, {0x1f6a, 0x0399}, {0x1faa}},
    {0x1fab, {0x1f6b, 0x0399}, {0x1fab}},
    {0x1fac, {0x1f6c, 0x0399}, {0x1fac}},
    {0x1fad, {0x1f6d, 0x0399}, {0x1fad}},
    {0x1fae, {0x1f6e, 0x0399}, {0x1fae}},
    {0x1faf, {0x1f6f, 0x0399}, {0x1faf}},
    {0x1fb2, {0x1fba, 0x0399}, {0x1fba, 0x0345}},
    {0x1fb3, {0x0391, 0x0399}, {0x1fbc}},
    {0x1fb4, {0x0386, 0x0399}, {0x0386, 0x0345}},
    {0x1fb6, {0x0391, 0x0342}, {0x0391, 0x0342}},
    {0x1fb7, {0x0391, 0x0342, 0x0399}, {0x0391, 0x0342, 0x0345}},
    {0x1fbc, {0x0391, 0x0399}, {0x1fbc}},
    {0x1fc2, {0x1fca, 0x0399}, {0x1fca, 0x0345}},
    {0x1fc3, {0x0397, 0x0399}, {0x1fcc}},
    {0x1fc4, {0x0389, 0x0399}, {0x0389, 0x0345}},
    {0x1fc6, {0x0397, 0x0342}, {0x0397, 0x0342}},
    {0x1fc7, {0x0397, 0x0342, 0x0399}, {0x0397, 0x0342, 0x0345}},
    {0x1fcc, {0x0397, 0x0399}, {0x1fcc}},
    {0x1fd2, {0x0399, 0x0308, 0x0300}, {0x0399, 0x0308, 0x0300}},
    {0x1fd3, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x1fd6, {0x0399, 0x0342}, {0x0399, 0x0342}},
    {0x1fd7, {0x0399, 0x0308, 0x0342}, {0x0399, 0x0308, 0x0342}},
    {0x1fe2, {0x03a5, 0x0308, 0x0300}, {0x03a5, 0x0308, 0x0300}},
    {0x1fe3, {0x03a5, 0x0308, 0x0301}, {0x03a5, 0x0308, 0x0301}},
    {0x1fe4, {0x03a1, 0x0313}, {0x03a1, 0x0313}},
    {0x1fe6, {0x03a5, 0x0342}, {0x03a5, 0x0342}},
    {0x1fe7, {0x03a5, 0x0308, 0x0342}, {0x03a5, 0x0308, 0x0342}},
    {0x1ff2, {0x1ffa, 0x0399}, {0x1ffa, 0x0345}},
    {0x1ff3, {0x03a9, 0x0399}, {0x1ffc}},
    {0x1ff4, {0x038f, 0x0399}, {0x038f, 0x0345}},
    {0x1ff6, {0x03a9, 0x0342}, {0x03a9, 0x0342}},
    {0x1ff7, {0x03a9, 0x0342, 0x0399}, {0x03a9, 0x0342, 0x0345}},
    {0x1ffc, {0x03a9, 0x0399}, {0x1ffc}},
    {0xfb00, {0x0046, 0x0046}, {0x0046, 0x0066}},
    {0xfb01, {0x0046, 0x0049}, {0x0046, 0x0069}},
    {0xfb02, {0x0046, 0x004c}, {0x0046, 0x006c}},
    {0xfb03, {0x0046, 0x0046, 0x0049}, {0x0046, 0x0066, 0x0069}},
    {0xfb04, {0x0046, 0x0046, 0x004c}, {0x0046, 0x0066, 0x006c}},
    {0xfb05, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xfb06, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xfb13, {0x0544, 0x0546}, {0x0544, 0x0576}},
    {0xfb14, {0x0544, 0x0535}, {0x0544, 0x0565}},
    {0xfb15, {0x0544, 0x053b}, {0x0544, 0x056b}},
    {0xfb16, {0x054e, 0x0546}, {0x054e, 0x0576}},
    {0xfb17, {0x0544, 0x053d}, {0x0544, 0x056d}},
};

enum {
    N_SPECIAL_CASES = sizeof special_cases / sizeof *special_cases,
    SIGMA = 0x03a3,
    SMALL_SIGMA = 0x03c3,
    FINAL_SIGMA = 0x03c2
};

static utf8proc_category_t category(uint32_t code) { return utf8proc_category((utf8proc_int32_t)code); }

bool unicode_is_space(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

bool unicode_is_printable(uint32_t code)
{
    if (code < 0x7f)
        return code >= 0x20;
    switch (category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

bool unicode_is_alpha(uint32_t code)
{
    const utf8proc_category_t c = category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool unicode_is_decimal(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

bool unicode_is_digit(uint32_t code)
{
    return unicode_is_decimal(code) || code == 0xb2 || code == 0xb3 || code == 0xb9 || (code >= 0x2070 && code <= 0x2089) ||
           (code >= 0x2460 && code <= 0x2468) || (code >= 0x2776 && code <= 0x277e);
}

bool unicode_is_numeric(uint32_t code)
{
    const utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool unicode_is_word(uint32_t code) { return code == '_' || unicode_is_alpha(code) || unicode_is_numeric(code); }

bool unicode_is_upper(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LU; }

bool unicode_is_lower(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_LL || code == 0xaa || code == 0xba || (code >= 0x2b0 && code <= 0x2b8) ||
           (code >= 0x24d0 && code <= 0x24e9);
}

bool unicode_is_title(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LT; }

bool unicode_is_cased(uint32_t code) { return unicode_is_upper(code) || unicode_is_lower(code) || unicode_is_title(code); }

/* Characters that do not end a word when its last sigma is looked for. */
static bool is_case_ignorable(uint32_t code)
{
    const utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_LM ||
           c == UTF8PROC_CATEGORY_SK || code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x2019;
}

static int special_case(uint32_t out[3], uint32_t code, enum letter_case to)
{
    for (int i = 0; i < N_SPECIAL_CASES; i++) {
        if (special_cases[i].code != code)
            continue;
        const uint16_t *mapped = to == CASE_UPPER ? special_cases[i].upper : special_cases[i].title;
        int n = 0;
        while (n < 3 && mapped[n] != 0) {
            out[n] = mapped[n];
            n++;
        }
        return n;
    }
    return 0;
}

int unicode_change_case(uint32_t out[3], uint32_t code, enum letter_case to)
{
    const utf8proc_int32_t c = (utf8proc_int32_t)code;
    if (code >= 0x80 && (to == CASE_UPPER || to == CASE_TITLE)) {
        const int n = special_case(out, code, to);
        if (n > 0)
            return n;
    }
    if (to == CASE_LOWER && code == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    if (to == CASE_FOLD) {
        utf8proc_int32_t folded[4];
        int boundary = 0;
        const utf8proc_ssize_t n = utf8proc_decompose_char(c, folded, 4, UTF8PROC_CASEFOLD, &boundary);
        for (utf8proc_ssize_t i = 0; i < n && i < 3; i++)
            out[i] = (uint32_t)folded[i];
        return n > 3 || n < 1 ? 0 : (int)n;
    }
    out[0] = (uint32_t)(to == CASE_UPPER ? utf8proc_toupper(c) : to == CASE_LOWER ? utf8proc_tolower(c) : utf8proc_totitle(c));
    return 1;
}

/* Whether the sigma at byte `at` (`n` bytes) ends a word: a cased letter before it, none behind. */
static bool is_final_sigma(const struct text *t, size_t at, size_t n)
{
    bool cased = false;
    size_t step;
    for (size_t i = at; i > 0;) {
        do
            i--;
        while (i > 0 && ((unsigned char)t->s[i] & 0xc0) == 0x80);
        const uint32_t code = text_code(t, i, &step);
        if (is_case_ignorable(code))
            continue;
        cased = unicode_is_cased(code);
        break;
    }
    if (!cased)
        return false;
    for (size_t i = at + n; i < t->n; i += step) {
        const uint32_t code = text_code(t, i, &step);
        if (!is_case_ignorable(code))
            return !unicode_is_cased(code);
    }
    return true;
}

static void add_changed(struct jinja *j, struct text_buffer *b, const struct text *t, size_t at, size_t n, enum letter_case to)
{
    uint32_t out[3];
    const uint32_t code = text_code(t, at, &n);
    if (code == SIGMA && to == CASE_LOWER) {
        text_add_code(j, b, is_final_sigma(t, at, n) ? FINAL_SIGMA : SMALL_SIGMA, text_origin(t, at));
        return;
    }
    const int n_out = unicode_change_case(out, code, to);
    for (int i = 0; i < n_out; i++)
        text_add_code(j, b, out[i], text_origin(t, at));
}

const struct text *text_change_case(struct jinja *j, const struct text *t, enum letter_case to)
{
    struct text_buffer *b = text_begin(j);
    bool in_word = false;
    jinja_work(j, t->n / 8);
    for (size_t at = 0, n; at < t->n; at += n) {
        const uint32_t code = text_code(t, at, &n);
        add_changed(j, b, t, at, n, to == CASE_TITLE && in_word ? CASE_LOWER : to);
        in_word = unicode_is_cased(code);
    }
    return text_end(j, b);
}

const struct text *text_capitalize(struct jinja *j, const struct text *t)
{
    struct text_buffer *b = text_begin(j);
    jinja_work(j, t->n / 8);
    for (size_t at = 0, n; at < t->n; at += n) {
        text_code(t, at, &n);
        add_changed(j, b, t, at, n, at == 0 ? CASE_TITLE : CASE_LOWER);
    }
    return text_end(j, b);
}

static bool is_in(struct jinja *j, const struct text *t, size_t at, size_t n, const struct text *set)
{
    size_t step;
    jinja_work(j, set != NULL ? set->n / 8 : 0);
    if (set == NULL)
        return unicode_is_space(text_code(t, at, &step));
    for (size_t i = 0; i < set->n; i += step) {
        text_code(set, i, &step);
        if (step == n && memcmp(set->s + i, t->s + at, n) == 0)
            return true;
    }
    return false;
}

void text_strip(struct jinja *j, const struct text *t, const struct text *set, bool left, bool right, size_t *from, size_t *to)
{
    size_t start = 0, end = t->n, n;
    jinja_work(j, t->n / JINJA_WORK_BYTES);
    while (left && start < end) {
        text_code(t, start, &n);
        if (!is_in(j, t, start, n, set))
            break;
        start += n;
    }
    while (right && end > start) {
        size_t last = end - 1;
        while (last > start && ((unsigned char)t->s[last] & 0xc0) == 0x80)
            last--;
        if (!is_in(j, t, last, end - last, set))
            break;
        end = last;
    }
    *from = start;
    *to = end;
}
