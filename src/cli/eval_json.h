/* eval_json.h: evaluations as JSON. */
#ifndef CLI_EVAL_JSON_H
#define CLI_EVAL_JSON_H

#include <jansson.h>

#include "measure/evaluation.h"

/* An array of an object for each model; NULL: no memory. */
json_t *eval_json(const struct evaluation *e, int n);

#endif
