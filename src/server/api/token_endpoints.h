/* token_endpoints.h: POST /tokenize, /detokenize and /apply-template: texts and token ids, nothing generated. */
#ifndef SERVER_API_TOKEN_ENDPOINTS_H
#define SERVER_API_TOKEN_ENDPOINTS_H

struct exchange;

void tokenize_text(struct exchange *x);
void tokenize_back(struct exchange *x);
void tokenize_template(struct exchange *x);

#endif
