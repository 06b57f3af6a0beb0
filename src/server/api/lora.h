/* lora.h: adapters: vLLM's POST /v1/load_lora_adapter and /v1/unload_lora_adapter, llama-server's GET and POST /lora-adapters;
 * and which of them a request uses. */
#ifndef SERVER_API_LORA_H
#define SERVER_API_LORA_H

#include "server/api/job.h"

void lora_load(struct exchange *x);
void lora_unload(struct exchange *x);
void lora_list(struct exchange *x);
void lora_scale(struct exchange *x);

/* llama-server's `lora`: [{"id", "scale"}], instead of the adapter that `model` names; with neither, what POST /lora-adapters
 * has set. */
void lora_fields_read(struct job *j);

#endif
