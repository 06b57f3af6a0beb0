/* jinja_method_is.c: Python's str.isalpha and its kin. */
#include "text/jinja_method.h"
#include "text/jinja_unicode.h"

typedef bool code_test_fn(uint32_t code);

static bool all_codes(struct jinja *j, const struct text *t, code_test_fn *test)
{
    jinja_work(j, t->n / 8);
    for (size_t at = 0, n; at < t->n; at += n) {
        if (!test(text_code(t, at, &n)))
            return false;
    }
    return true;
}

static bool is_alnum(uint32_t code) { return unicode_is_alpha(code) || unicode_is_numeric(code); }
static bool is_ascii(uint32_t code) { return code < 0x80; }
static bool is_not_upper(uint32_t code) { return !unicode_is_upper(code) && !unicode_is_title(code); }
static bool is_not_lower(uint32_t code) { return !unicode_is_lower(code) && !unicode_is_title(code); }
static bool is_not_cased(uint32_t code) { return !unicode_is_cased(code); }

static struct value not_empty(struct jinja *j, const struct call *c, code_test_fn *test)
{
    return value_bool(c->self.text->n > 0 && all_codes(j, c->self.text, test));
}

static struct value isalnum_(struct jinja *j, const struct call *c) { return not_empty(j, c, is_alnum); }
static struct value isalpha_(struct jinja *j, const struct call *c) { return not_empty(j, c, unicode_is_alpha); }
static struct value isdecimal_(struct jinja *j, const struct call *c) { return not_empty(j, c, unicode_is_decimal); }
static struct value isdigit_(struct jinja *j, const struct call *c) { return not_empty(j, c, unicode_is_digit); }
static struct value isnumeric_(struct jinja *j, const struct call *c) { return not_empty(j, c, unicode_is_numeric); }
static struct value isspace_(struct jinja *j, const struct call *c) { return not_empty(j, c, unicode_is_space); }
static struct value isascii_(struct jinja *j, const struct call *c) { return value_bool(all_codes(j, c->self.text, is_ascii)); }

static struct value isprintable_(struct jinja *j, const struct call *c)
{
    return value_bool(all_codes(j, c->self.text, unicode_is_printable));
}

static bool has_case(struct jinja *j, const struct text *t) { return !all_codes(j, t, is_not_cased); }

static struct value islower_(struct jinja *j, const struct call *c)
{
    return value_bool(all_codes(j, c->self.text, is_not_upper) && has_case(j, c->self.text));
}

static struct value isupper_(struct jinja *j, const struct call *c)
{
    return value_bool(all_codes(j, c->self.text, is_not_lower) && has_case(j, c->self.text));
}

static struct value istitle_(struct jinja *j, const struct call *c)
{
    const struct text *t = c->self.text;
    bool in_word = false, found = false;
    jinja_work(j, t->n / 8);
    for (size_t at = 0, n; at < t->n; at += n) {
        const uint32_t code = text_code(t, at, &n);
        const bool starts = unicode_is_upper(code) || unicode_is_title(code);
        if ((starts && in_word) || (unicode_is_lower(code) && !in_word))
            return value_bool(false);
        in_word = unicode_is_cased(code);
        found = found || in_word;
    }
    return value_bool(found);
}

static struct value isidentifier_(struct jinja *j, const struct call *c)
{
    size_t n;
    const struct text *t = c->self.text;
    return value_bool(t->n > 0 && !unicode_is_numeric(text_code(t, 0, &n)) && all_codes(j, t, unicode_is_word));
}

const struct builtin text_tests[] = {
    {"isalnum", isalnum_, ""},
    {"isalpha", isalpha_, ""},
    {"isascii", isascii_, ""},
    {"isdecimal", isdecimal_, ""},
    {"isdigit", isdigit_, ""},
    {"isidentifier", isidentifier_, ""},
    {"islower", islower_, ""},
    {"isnumeric", isnumeric_, ""},
    {"isprintable", isprintable_, ""},
    {"isspace", isspace_, ""},
    {"istitle", istitle_, ""},
    {"isupper", isupper_, ""},
    {NULL, NULL, NULL},
};
