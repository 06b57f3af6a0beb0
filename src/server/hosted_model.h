/* hosted_model.h: a model from its file to a warm engine. */
#ifndef SERVER_HOSTED_MODEL_H
#define SERVER_HOSTED_MODEL_H

#include "server/server.h"

/* Load the settings' model, its template and prompts to pin, start its engine, and have it answer one token. Release it on
 * failure, too. */
enum mr_status hosted_model_open(struct hosted_model *m, const struct server_settings *settings,
                                 bool (*progress)(void *context, size_t done, size_t total), void *context,
                                 struct mr_error *err);
void hosted_model_release(struct hosted_model *m);

#endif
