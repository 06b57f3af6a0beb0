/* slots.h: GET /slots, as llama-server has it: the places in the batch and what they are busy with. fail_on_no_slot: 503 where
 * none is free. */
#ifndef SERVER_API_SLOTS_H
#define SERVER_API_SLOTS_H

#include "server/exchange.h"

void slots_list(struct exchange *x);

#endif
