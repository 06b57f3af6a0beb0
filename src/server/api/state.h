/* state.h: what the server is and does: GET /version and /load as vLLM has them, /props and /slots as llama-server does. */
#ifndef SERVER_API_STATE_H
#define SERVER_API_STATE_H

struct exchange;

void state_version(struct exchange *x);
void state_load(struct exchange *x);  /* requests that run or wait */
void state_props(struct exchange *x); /* of the model */
void state_slots(struct exchange *x); /* places in the batch; fail_on_no_slot=1: 503 where none is free */

#endif
