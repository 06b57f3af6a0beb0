/* completion.h: POST /completion: a text is continued, as llama-server has it. */
#ifndef SERVER_API_COMPLETION_H
#define SERVER_API_COMPLETION_H

struct exchange;

void completion_create(struct exchange *x);

#endif
