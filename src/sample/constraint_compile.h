/* constraint_compile.h: the languages that a builder's rules come from. */
#ifndef SAMPLE_CONSTRAINT_COMPILE_H
#define SAMPLE_CONSTRAINT_COMPILE_H

#include "sample/grammar_builder.h"

/* GBNF. *root: the rule of that name. BAD_INPUT names the line and the rule. */
enum mr_status gbnf_compile(struct grammar_builder *b, const char *text, size_t n, uint32_t *root, struct mr_error *err);

/* A pattern of ECMA-262 that the whole answer matches. BAD_INPUT, NO_SUPPORT: the message gives the place in the pattern. */
enum mr_status regex_compile(struct grammar_builder *b, const char *pattern, size_t n, uint32_t *root, struct mr_error *err);

/* A JSON Schema, draft 2020-12. BAD_INPUT, NO_SUPPORT: the message gives the JSON pointer and the keyword. */
enum mr_status schema_compile(struct grammar_builder *b, const char *text, size_t n, uint32_t *root, struct mr_error *err);

#endif
