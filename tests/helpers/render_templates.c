/* render_templates.c: renders chat templates for the tests in Python.
 * Reads one JSON object a line, {"template", "variables", "now"}, and answers each with a line {"text", "runs": [[bytes,
 * "template" or "caller"], ...]} or {"error", "stage": "compile" or "render"}. A template equal to the one before is not
 * compiled again. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_template.h"

static json_t *answer_error(const char *stage, const struct mr_error *err)
{
    return json_pack("{s:s, s:s}", "error", err->message, "stage", stage);
}

static json_t *answer_text(const struct rendered *r)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < r->n_run; i++)
        json_array_append_new(runs,
                              json_pack("[I, s]", (json_int_t)r->run[i].n, r->run[i].match_control ? "template" : "caller"));
    return json_pack("{s:s%, s:o}", "text", r->text.n > 0 ? r->text.s : "", r->text.n, "runs", runs);
}

struct cached {
    char *source;
    struct chat_template *t;
};

static bool compile(struct cached *c, const char *source, struct mr_error *err)
{
    if (c->source != NULL && strcmp(c->source, source) == 0)
        return c->t != NULL;
    free(c->source);
    chat_template_free(c->t);
    c->source = strdup(source);
    return chat_template_create(&c->t, source, strlen(source), err) == MR_OK;
}

static json_t *answer(struct cached *c, const json_t *job)
{
    struct mr_error err = {""};
    struct rendered r;
    const char *source = json_string_value(json_object_get(job, "template"));
    if (!compile(c, source, &err)) {
        free(c->source);
        c->source = NULL;
        return answer_error("compile", &err);
    }
    if (chat_template_render(c->t, json_object_get(job, "variables"), json_integer_value(json_object_get(job, "now")), &r,
                             &err) != MR_OK)
        return answer_error("render", &err);
    json_t *line = answer_text(&r);
    rendered_release(&r);
    return line;
}

int main(void)
{
    struct cached c = {NULL, NULL};
    json_t *job;
    while ((job = json_loadf(stdin, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL)) != NULL) {
        json_t *line = answer(&c, job);
        if (line == NULL || json_dumpf(line, stdout, JSON_ENSURE_ASCII) != 0)
            return 1;
        putchar('\n');
        json_decref(line);
        json_decref(job);
    }
    free(c.source);
    chat_template_free(c.t);
    return 0;
}
