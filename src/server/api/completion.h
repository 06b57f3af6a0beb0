/* completion.h: POST /completion and /infill: a text is continued, or its middle written, as llama-server has it. */
#ifndef SERVER_API_COMPLETION_H
#define SERVER_API_COMPLETION_H

struct exchange;

void completion_create(struct exchange *x);
void completion_infill(struct exchange *x);

#endif
