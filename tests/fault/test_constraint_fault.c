/* test_constraint_fault.c: compiling and using a constraint with no memory is an error, and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fault/failing_malloc.h"
#include "sample/constraint.h"

struct attempt {
    struct constraint_source source;
    const char *text; /* read token by token, one byte each */
};

static enum mr_status use(struct mask_cache *m, const char *text)
{
    struct constraint_state *s, *copy = NULL;
    char forced[16];
    MR_TRY(constraint_state_create(&s, m, NULL));
    enum mr_status status = mask_cache_warm(m, 2000, NULL);
    for (; *text != '\0' && status == MR_OK; text++) {
        const uint64_t *mask;
        status = constraint_mask(&mask, s, NULL);
        if (status == MR_OK)
            status = constraint_accept(s, (unsigned char)*text, NULL);
    }
    if (status == MR_OK)
        status = constraint_state_copy(&copy, s, NULL);
    if (status == MR_OK)
        constraint_forced(copy, forced, sizeof forced);
    constraint_state_free(copy);
    constraint_state_free(s);
    return status;
}

static enum mr_status compile_and_use(void *context)
{
    static char bytes[128];
    const struct attempt *a = context;
    struct token_piece piece[128];
    struct constraint *c;
    struct token_trie *t = NULL;
    struct mask_cache *m = NULL;
    struct mr_error err;
    for (int i = 0; i < 128; i++) {
        bytes[i] = (char)i;
        piece[i] = (struct token_piece){&bytes[i], 1, false, i == 0};
    }
    enum mr_status status = constraint_create(&c, &a->source, &err);
    if (status == MR_OK)
        status = token_trie_create(&t, piece, 128, &err);
    if (status == MR_OK)
        status = mask_cache_create(&m, c, t, &err);
    if (status == MR_OK)
        status = use(m, a->text);
    mask_cache_free(m);
    token_trie_free(t);
    constraint_free(c);
    return status;
}

static void check(enum constraint_kind kind, const char *source, const char *text)
{
    struct attempt a = {{.kind = kind, .text = {source, strlen(source)}}, text};
    assert_true(check_every_allocation(compile_and_use, &a) > 50);
}

static void schemas(void **state)
{
    (void)state;
    check(CONSTRAINT_JSON_SCHEMA,
          "{\"type\":\"object\",\"properties\":{\"a\":{\"oneOf\":[{\"type\":\"integer\",\"minimum\":-3},{\"const\":\"x\"}]},"
          "\"b\":{"
          "\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\",\"pattern\":\"^[ab]+$\",\"maxLength\":3}],\"items\":false},"
          "\"c\":{\"type\":[\"string\",\"null\"],\"not\":{\"const\":\"q\"}}},\"required\":[\"a\"],\"patternProperties\":{\"^"
          "x\":{}}}",
          "{\"a\":-2,\"b\":[\"ab\"],\"c\":null}");
}

static void regular_expressions(void **state)
{
    (void)state;
    check(CONSTRAINT_REGEX, "(a|b[^c-z]){2,3}$", "abAa");
}

static void grammars(void **state)
{
    (void)state;
    check(CONSTRAINT_GRAMMAR, "root ::= (x \",\"){1,100} [^a]\nx ::= \"(\" x \")\" | \"\\u00e9\"? \"b\"", "((b)),b,c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schemas), cmocka_unit_test(regular_expressions),
                                       cmocka_unit_test(grammars)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
