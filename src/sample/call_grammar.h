/* call_grammar.h: answers that call functions, as a grammar: names from the list only, arguments by their JSON schemas, written
 * in the format of the model (text/call_format.h). */
#ifndef SAMPLE_CALL_GRAMMAR_H
#define SAMPLE_CALL_GRAMMAR_H

#include "sample/constraint_compile.h"

/* text: {"format": NAME, "tools": [...] as OpenAI's API has them, "choice": "auto", "required" or {"name": NAME}, "parallel":
 * BOOL, "reasoning": the marker that opens it or null, "begun": BOOL}. auto: free text without the marker that opens calls,
 * then calls, either of which may be absent; else calls alone. Reasoning may come before, where the format has it, and must end
 * first where the prompt has opened it. BAD_INPUT, NO_SUPPORT: the message names the field, and in a schema the pointer and
 * keyword. */
enum mr_status calls_compile(struct grammar_builder *b, const char *text, size_t n, uint32_t *root, struct mr_error *err);

/* Whether tools are such a list: names of 1 to 64 letters, digits, _, - and ., none twice, parameters of type object. */
enum mr_status calls_check_tools(const char *tools, size_t n, struct mr_error *err);

#endif
