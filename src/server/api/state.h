/* state.h: what the server is and does: GET /version and /load as vLLM has them, /props as llama-server does. */
#ifndef SERVER_API_STATE_H
#define SERVER_API_STATE_H

struct exchange;
struct hosted_model;

void state_version(struct exchange *x);
void state_load(struct exchange *x);  /* requests that run or wait */
void state_props(struct exchange *x); /* of the model */

/* The model of the query "model", taken: give it back. NULL: the reply says that there is none. */
struct hosted_model *state_wanted_model(struct exchange *x);

#endif
