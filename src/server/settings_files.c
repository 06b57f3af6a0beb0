/* settings_files.c: whether the files that settings name are there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/hosted_model.h"
#include "server/keys.h"
#include "server/model_store.h"
#include "server/settings_state.h"
#include "text/chat_template.h"

static enum mr_status check_file(const char *key, const char *path, struct mr_error *err)
{
    if (path == NULL || access(path, R_OK) == 0)
        return MR_OK;
    return mr_fail(err, errno == ENOENT ? MR_NOT_FOUND : MR_IO, "%s: cannot read '%s': %s", key, path, strerror(errno));
}

static enum mr_status check_keys(const struct server_settings *v, struct mr_error *err)
{
    struct key_ring *ring;
    if (v->n_api_key == 0 && v->api_keys_file == NULL)
        return MR_OK;
    const enum mr_status status = key_ring_create(&ring, v->api_key, v->n_api_key, v->api_keys_file, err);
    key_ring_free(ring);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "server.api_keys_file");
}

/* Those that are loaded when they are asked for, too, and the draft model beside each. */
static enum mr_status check_models(const struct server_settings *v, struct mr_error *err)
{
    struct server s = {.settings = v};
    if (v->model == NULL && v->n_models == 0)
        return MR_OK;
    enum mr_status status = model_store_list(&s, err);
    if (status == MR_OK)
        status = model_store_check_drafts(&s, err);
    for (int i = 0; i < s.n_model; i++)
        hosted_model_release(&s.model[i]);
    free(s.model);
    return status;
}

enum mr_status settings_check_files(const struct settings *s, struct mr_error *err)
{
    const struct server_settings *v = &s->values;
    MR_TRY(check_file("model", v->model, err));
    if (v->chat_template != NULL && chat_template_builtin(v->chat_template) == NULL)
        MR_TRY(check_file("chat_template", v->chat_template, err));
    for (int i = 0; i < v->n_pin; i++)
        MR_TRY(check_file("prompt_cache.pin", v->pin[i], err));
    MR_TRY(check_file("speculation.draft_model", v->engine.draft_model, err));
    MR_TRY(check_models(v, err));
    MR_TRY(check_file("server.tls_certificate", v->tls_certificate, err));
    MR_TRY(check_file("server.tls_key", v->tls_key, err));
    return check_keys(v, err);
}
