/* constraint_cases.h: constraints to measure with, each with a text that obeys. */
#ifndef MEASURE_CONSTRAINT_CASES_H
#define MEASURE_CONSTRAINT_CASES_H

#include "measure/constraint_bench.h"
#include "sample/constraint.h"

struct constraint_case {
    const char *name;
    enum constraint_kind kind;
    const char *source, *text;
};

enum {
    CONSTRAINT_CASE_PERSON = 1 /* an object of seven properties */
};
extern const struct constraint_case constraint_cases[CONSTRAINT_CASES];

#endif
