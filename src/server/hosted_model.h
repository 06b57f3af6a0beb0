/* hosted_model.h: a model from its file to a warm engine, and back. */
#ifndef SERVER_HOSTED_MODEL_H
#define SERVER_HOSTED_MODEL_H

#include "server/server.h"

struct server_settings;

/* Open its file, template and prompts to pin, start its engine, have it answer one token, and tell its metrics. Unload it on
 * failure, too. */
enum mr_status hosted_model_load(struct hosted_model *m, struct server *s,
                                 bool (*progress)(void *context, size_t done, size_t total), void *context,
                                 struct mr_error *err);
/* Engine processes with the settings, which were read again, take the place of those of the model, which is loaded. On failure
 * those stay. */
enum mr_status hosted_model_renew(struct hosted_model *m, const struct server_settings *s, struct mr_error *err);
/* Free what an engine takes and keep a standby, which answers soon after the next hosted_model_load. false: there is none, or
 * the weights are not a file's that other programs could use the memory of: unload it. */
bool hosted_model_rest(struct hosted_model *m, const struct server_settings *s);
void hosted_model_unload(struct hosted_model *m);  /* nothing where it is not loaded */
void hosted_model_release(struct hosted_model *m); /* unloads it, and forgets its name */

/* Whether engines are processes. */
bool hosted_model_has_pool(const struct server_settings *s);

#endif
