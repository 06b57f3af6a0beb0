/* adapter_names.h: LoRA adapters by the names that requests give as `model`. Loading and unloading happen between two steps of
 * the engine. Threads: any. */
#ifndef SERVER_ADAPTER_NAMES_H
#define SERVER_ADAPTER_NAMES_H

#include <jansson.h>

#include "millrace.h"

struct server;
struct adapter_names;

enum {
    ADAPTER_NAMES_MAX = 256,
    ADAPTER_NAME_MAX = 128 /* bytes */
};

struct adapter_names *adapter_names_create(void); /* NULL: no memory */
void adapter_names_free(struct adapter_names *a); /* takes NULL */

/* BAD_INPUT: the name is a model's or another adapter's, or the file is no adapter of the model. */
enum mr_status adapter_names_load(struct server *s, const char *name, const char *path, struct mr_error *err);
/* Requests that run keep it. NOT_FOUND: no such name. */
enum mr_status adapter_names_unload(struct server *s, const char *name, struct mr_error *err);

/* The engine's id; 0: no such name. */
int32_t adapter_names_find(struct adapter_names *a, const char *name);
/* What requests use that say nothing of adapters: those of a scale other than 0. All begin with 0. Returns how many. */
int adapter_names_defaults(struct adapter_names *a, struct mr_adapter_use use[MR_ADAPTERS_MAX]);
/* Set these; all others become 0. NOT_FOUND: an id is nobody's. n is MR_ADAPTERS_MAX at most. */
enum mr_status adapter_names_set_defaults(struct adapter_names *a, const struct mr_adapter_use *use, int n,
                                          struct mr_error *err);
/* [{"id", "name", "path", "scale"}] */
json_t *adapter_names_json(struct adapter_names *a);

/* The settings' adapters, "FILE" or "NAME=FILE". */
enum mr_status adapter_names_load_all(struct server *s, struct mr_error *err);

#endif
