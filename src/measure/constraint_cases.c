/* constraint_cases.c: JSON objects, lists, strings, patterns, recursion, an expression and a grammar. */
#include "measure/constraint_cases.h"

#define PERSON                                                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":0,"         \
    "\"maximum\":150},\"email\":{\"type\":\"string\",\"format\":\"email\"},\"tags\":{\"type\":\"array\",\"items\":{"           \
    "\"type\":\"string\"},\"maxItems\":10},\"role\":{\"enum\":[\"admin\",\"user\",\"guest\"]},\"score\":{\"type\":\"number\"," \
    "\"minimum\":0,\"maximum\":1},\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"zip\":{" \
    "\"type\":\"string\",\"pattern\":\"^[0-9]{5}$\"}},\"required\":[\"street\",\"zip\"],\"additionalProperties\":false}},"     \
    "\"required\":[\"name\",\"age\",\"email\",\"tags\",\"role\",\"score\",\"address\"],\"additionalProperties\":false}"
#define PERSON_TEXT                                                                                                               \
    "{\"name\": \"Jane Maria Doe, née Müller\", \"age\": 42, \"email\": \"jane.doe@example.org\", \"tags\": [\"first tag\", "   \
    "\"日本語\", \"a longer tag with several words in it\"], \"role\": \"user\", \"score\": 0.875, \"address\": {\"street\": " \
    "\"12 Long Street, Flat 3\", \"zip\": \"01234\"}}"

const struct constraint_case constraint_cases[CONSTRAINT_CASES] = {
    {"json_object", CONSTRAINT_JSON_OBJECT, "",
     "{\n  \"title\": \"A report about rivers\",\n  \"pages\": [1, 2, 3.5e3, null],\n  \"nested\": {\"deep\": [[\"x\"], "
     "{}]}\n}"},
    {"person", CONSTRAINT_JSON_SCHEMA, PERSON, PERSON_TEXT},
    {"list of persons", CONSTRAINT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":" PERSON "}",
     "[" PERSON_TEXT ", " PERSON_TEXT "]"},
    {"string of 20 to 200", CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":20,\"maxLength\":250}",
     "\"A sentence of ordinary length, which says nothing but that it is here, and that it goes on for a while, until at last "
     "it comes to an end, or nearly so, because two hundred and fifty characters are not that many.\""},
    {"pattern", CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z]+( [A-Za-z]+)*$\"}",
     "\"The quick brown fox jumps over the lazy dog again and again\""},
    {"tree", CONSTRAINT_JSON_SCHEMA,
     "{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"c\":{\"type\":\"array\",\"items\":{"
     "\"$ref\":\"#/$defs/t\"}}},\"required\":[\"v\",\"c\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/t\"}",
     "{\"v\":1,\"c\":[{\"v\":23,\"c\":[]},{\"v\":-456,\"c\":[{\"v\":7,\"c\":[{\"v\":8,\"c\":[]}]}]}]}"},
    {"regex", CONSTRAINT_REGEX, "(yes|no|maybe), because [a-z ,]{10,80}\\.",
     "maybe, because it has been raining all day, as it does here."},
    {"JSON as GBNF", CONSTRAINT_GRAMMAR,
     "root ::= object\nvalue ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
     "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
     "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
     "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\" ws\n"
     "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n"
     "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
     "{\"title\": \"A report about rivers\", \"pages\": [1, 2, 3.5e3, null], \"nested\": {\"deep\": [[\"x\"], {}]}}"},
};
