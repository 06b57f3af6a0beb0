/* model_names.c: the models that the settings name, by file, "NAME=FILE" or folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/string_buffer.h"
#include "engine/draft_model.h"
#include "server/hosted_model.h"
#include "server/model_store.h"
#include "server/settings.h"

enum {
    MODELS_MAX = 64 /* as many as metrics and dispatch have places */
};

/* "SmolLM2-135M-Instruct.Q4_1" of "models/SmolLM2-135M-Instruct.Q4_1.gguf". */
static size_t stem(const char **name, const char *path)
{
    const char *slash = strrchr(path, '/');
    *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(*name, '.');
    return dot != NULL && dot > *name ? (size_t)(dot - *name) : strlen(*name);
}

static enum mr_status add(struct server *s, const char *name, size_t n_name, const char *path, struct mr_error *err)
{
    struct stat what;
    for (int i = 0; i < s->n_model; i++)
        if (strlen(s->model[i].name) == n_name && memcmp(s->model[i].name, name, n_name) == 0)
            return mr_fail(err, MR_BAD_INPUT, "models: the name '%s' stands for '%s' and for '%s'", s->model[i].name,
                           s->model[i].path, path);
    if (s->n_model == MODELS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "models: more than %d", MODELS_MAX);
    if (stat(path, &what) != 0 || !S_ISREG(what.st_mode))
        return mr_fail(err, MR_NOT_FOUND, "models: '%s' is no file", path);
    struct hosted_model *m = &s->model[s->n_model++];
    *m = (struct hosted_model){.name = mem_string(name, n_name),
                               .path = mem_string(path, strlen(path)),
                               .created = (int64_t)what.st_mtime,
                               .file_bytes = (int64_t)what.st_size,
                               .shared_fd = -1};
    return m->name != NULL && m->path != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the models' names");
}

static bool is_model_file(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && name[0] != '.' && strcmp(name + n - 5, ".gguf") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int wanted(const struct dirent *e) { return is_model_file(e->d_name); }

/* Its *.gguf files, in the order of their names. */
static enum mr_status add_folder(struct server *s, const char *folder, struct mr_error *err)
{
    struct dirent **entry = NULL;
    const int n = scandir(folder, &entry, wanted, by_name);
    enum mr_status status =
        n < 0 ? mr_fail(err, MR_IO, "models: cannot read the folder '%s': %s", folder, strerror(errno)) : MR_OK;
    for (int i = 0; i < n; i++) {
        struct string_buffer path;
        const char *name;
        string_buffer_init(&path);
        string_buffer_printf(&path, "%s/%s", folder, entry[i]->d_name);
        if (status == MR_OK && path.failed)
            status = mr_fail(err, MR_NO_MEMORY, "no memory for the models' names");
        if (status == MR_OK) {
            const size_t n_name = stem(&name, path.s);
            status = add(s, name, n_name, path.s, err);
        }
        string_buffer_release(&path);
        free(entry[i]);
    }
    free(entry);
    return status;
}

static enum mr_status add_one(struct server *s, const char *text, struct mr_error *err)
{
    struct stat what;
    const char *name, *equals = strchr(text, '=');
    if (stat(text, &what) == 0 && S_ISDIR(what.st_mode))
        return add_folder(s, text, err);
    if (equals != NULL && equals > text)
        return add(s, text, (size_t)(equals - text), equals + 1, err);
    const size_t n_name = stem(&name, text);
    return add(s, name, n_name, text, err);
}

enum mr_status model_store_list(struct server *s, struct mr_error *err)
{
    const struct server_settings *settings = s->settings;
    const char *name;
    s->model = mem_zero_array(MODELS_MAX, sizeof *s->model);
    if (s->model == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the models");
    if (settings->model != NULL) {
        const size_t n_name = stem(&name, settings->model);
        if (settings->alias != NULL)
            MR_TRY(add(s, settings->alias, strlen(settings->alias), settings->model, err));
        else
            MR_TRY(add(s, name, n_name, settings->model, err));
        s->model->stays = true;
    }
    for (int i = 0; i < settings->n_models; i++)
        MR_TRY(add_one(s, settings->models[i], err));
    return s->n_model > 0 ? MR_OK : mr_fail(err, MR_NOT_FOUND, "models: there is none");
}

static enum mr_status check_all(const struct server *s, const struct tokenizer *draft, struct mr_error *err)
{
    for (int i = 0; i < s->n_model; i++) {
        struct mr_error found = {{0}};
        if (draft_model_check(draft, s->model[i].path, &found) == MR_BAD_INPUT)
            return mr_fail(err, MR_BAD_INPUT, "speculation.draft_model: draft model '%s' with '%s': %s",
                           s->settings->engine.draft_model, s->model[i].path, found.message);
    }
    return MR_OK;
}

enum mr_status model_store_check_drafts(const struct server *s, struct mr_error *err)
{
    struct gguf *file = NULL;
    struct tokenizer *draft = NULL;
    enum mr_status status = MR_OK;
    if (s->settings->engine.draft_model == NULL)
        return MR_OK;
    if (gguf_open(&file, s->settings->engine.draft_model, NULL) == MR_OK && tokenizer_create(&draft, file, NULL) == MR_OK)
        status = check_all(s, draft, err);
    tokenizer_free(draft);
    gguf_close(file);
    return status;
}
