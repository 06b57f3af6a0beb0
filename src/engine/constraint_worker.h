/* constraint_worker.h: the thread on which a store's constraints are compiled. */
#ifndef ENGINE_CONSTRAINT_WORKER_H
#define ENGINE_CONSTRAINT_WORKER_H

#include "engine/constraint_store.h"

bool constraint_worker_init(struct constraint_store *store); /* lock and conditions; false: the system has none */
/* Queue the entry. NO_MEMORY: no thread could be started, nothing changed. */
enum mr_status constraint_worker_add(struct constraint_store *store, struct stored_constraint *c, struct mr_error *err);
/* Take the entry out of the queue. false: it is no longer there, the worker has it or has had it. */
bool constraint_worker_remove(struct constraint_store *store, struct stored_constraint *c);
/* End the thread, behind what it is compiling; what waits stays uncompiled. */
void constraint_worker_release(struct constraint_store *store);

#endif
