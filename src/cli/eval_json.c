/* eval_json.c: the members that docs/compression.md lists. */
#include "cli/eval_json.h"

#include <stdlib.h>

#include "measure/continuation.h"

static json_t *mean(const struct token_mean *m) { return json_pack("{s:f,s:f}", "mean", m->mean, "stderr", m->error); }

static json_t *rate(const struct task_rate *r)
{
    return json_pack("{s:f,s:f,s:[f,f]}", "rate", r->rate, "stderr", r->error, "interval", r->low, r->high);
}

static json_t *text_json(const struct evaluation *e)
{
    const struct perplexity *p = &e->text;
    json_t *o =
        json_pack("{s:f,s:I,s:o}", "perplexity", p->perplexity, "n_tokens", (json_int_t)p->n_tokens, "nll", mean(&p->nll));
    if (o != NULL && e->has_base) {
        json_object_set_new(o, "base_perplexity", json_real(p->base_perplexity));
        json_object_set_new(o, "nll_change", mean(&p->change));
        json_object_set_new(o, "kl", mean(&p->kl));
        json_object_set_new(o, "same_top", mean(&p->same_top));
    }
    return o;
}

static json_t *task_json(const struct task_result *t)
{
    json_t *o = json_object();
    if (t->n_choice_items > 0) {
        json_object_set_new(o, "n_choice_items", json_integer(t->n_choice_items));
        json_object_set_new(o, "acc", rate(&t->acc));
        json_object_set_new(o, "acc_norm", rate(&t->acc_norm));
    }
    if (t->n_generated_items > 0) {
        json_object_set_new(o, "n_generated_items", json_integer(t->n_generated_items));
        json_object_set_new(o, "exact_match", rate(&t->exact));
    }
    return o;
}

static json_t *one(const struct evaluation *e)
{
    json_t *o = json_pack("{s:s,s:s,s:I,s:I}", "model", e->name, "precision", e->precision, "file_bytes",
                          (json_int_t)e->file_bytes, "weight_bytes", (json_int_t)e->weight_bytes);
    if (e->has_text)
        json_object_set_new(o, "text", text_json(e));
    if (e->n_task > 0) {
        json_t *tasks = json_object();
        for (int i = 0; i < e->n_task; i++)
            json_object_set_new(tasks, e->task_name[i], task_json(&e->task[i]));
        json_object_set_new(o, "tasks", tasks);
    }
    return o;
}

json_t *eval_json(const struct evaluation *e, int n)
{
    json_t *all = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(all, one(&e[i]));
    return all;
}

static json_t *responses(const struct task_sample *s)
{
    json_t *all = json_array();
    if (s->score == NULL)
        json_array_append_new(all, json_string(s->answer));
    for (int i = 0; s->score != NULL && i < s->of->n_choice; i++)
        json_array_append_new(all, json_pack("[f,b]", s->score[i].log_p, (int)s->score[i].is_greedy));
    return all;
}

void eval_sample_line(struct string_buffer *out, const char *model, const char *task, const struct task_sample *s)
{
    json_t *o = json_pack("{s:s,s:s,s:i,s:o}", "model", model, "task", task, "doc_id", s->item, "filtered_resps", responses(s));
    if (s->score != NULL) {
        json_object_set_new(o, "target", json_integer(s->of->gold));
        json_object_set_new(o, "acc", json_integer(s->is_right));
        json_object_set_new(o, "acc_norm", json_integer(s->is_right_norm));
    } else {
        json_object_set_new(o, "target", json_string(s->of->target));
        json_object_set_new(o, "exact_match", json_integer(s->is_right));
    }
    char *line = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(10));
    out->failed = out->failed || line == NULL;
    if (line != NULL)
        string_buffer_printf(out, "%s\n", line);
    free(line);
    json_decref(o);
}
