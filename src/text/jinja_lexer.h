/* jinja_lexer.h: the tokens of a template, with trim_blocks and lstrip_blocks. */
#ifndef TEXT_JINJA_LEXER_H
#define TEXT_JINJA_LEXER_H

#include "text/jinja_value.h"

enum token_kind {
    TOKEN_END,
    TOKEN_DATA,        /* text outside tags: value */
    TOKEN_PRINT_BEGIN, /* {{ */
    TOKEN_PRINT_END,   /* }} */
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,   /* %} */
    TOKEN_NAME,        /* value: text */
    TOKEN_STRING,      /* value: text */
    TOKEN_NUMBER,      /* value: int or float */
    TOKEN_OPERATOR     /* op: OPERATOR of jinja_syntax.h */
};

struct token {
    enum token_kind kind;
    int line;
    int op;
    struct value value;
};

/* All tokens, TOKEN_END the last. */
struct token *jinja_lex(struct jinja *j, const char *source, size_t n);

#endif
