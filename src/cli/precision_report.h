/* precision_report.h: what precision_ladder.h measured, for people and for the server. */
#ifndef CLI_PRECISION_REPORT_H
#define CLI_PRECISION_REPORT_H

#include <jansson.h>

#include "base/string_buffer.h"

/* Markdown: the table, what to deploy, what the figures mean. */
void precision_report(const json_t *state, struct string_buffer *out);

/* What each step is worth over the bytes of its weights, as SVG. The state has a step. */
void precision_plot(const json_t *state, struct string_buffer *out);

/* For `millrace serve --config`. folder: of the models. Nothing where no step is to be deployed. */
void precision_deployment(const json_t *state, const char *folder, struct string_buffer *out);

#endif
