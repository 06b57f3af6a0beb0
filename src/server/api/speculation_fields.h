/* speculation_fields.h: `speculation` and `prediction` of a request (docs/speculation.md). */
#ifndef SERVER_API_SPECULATION_FIELDS_H
#define SERVER_API_SPECULATION_FIELDS_H

#include "server/api/job.h"

/* The method by its name, and the text that the answer is expected to have much of, as in OpenAI's chat API: {"type":
 * "content", "content": a string or a list of text parts}. One that is longer than the context is cut; the header
 * x-millrace-prediction says so. */
void speculation_fields_read(struct job *j);

#endif
