/* files.h: /v1/files, as OpenAI has them: inputs and outputs of batches. */
#ifndef SERVER_API_FILES_H
#define SERVER_API_FILES_H

struct exchange;

void files_create(struct exchange *x); /* a form (upload.h) */
void files_list(struct exchange *x);
void files_get(struct exchange *x);
void files_content(struct exchange *x);
void files_delete(struct exchange *x);

#endif
