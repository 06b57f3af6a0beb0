/* task_read.c: samples as lm-eval writes them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "measure/task.h"

enum {
    CHOICES_MAX = 1024,
    UNTIL_MAX = 64,
    MAX_TOKENS_DEFAULT = 256 /* lm-eval's */
};

static char *copy(const char *s) { return mem_string(s, strlen(s)); }

static enum mr_status no_memory(struct mr_error *err) { return mr_fail(err, MR_NO_MEMORY, "no memory for the task"); }

/* The i-th pair of arguments: [context, continuation] of a list, or {"arg_0", "arg_1"} under the i-th key. */
static void pair_of(json_t *pair, json_t **first, json_t **second)
{
    const bool is_list = json_is_array(pair);
    *first = is_list ? json_array_get(pair, 0) : json_object_get(pair, "arg_0");
    *second = is_list ? json_array_get(pair, 1) : json_object_get(pair, "arg_1");
}

static int add_until(struct task_item *item, json_t *until)
{
    json_t *one;
    size_t i;
    const size_t n = json_is_array(until) ? json_array_size(until) : json_is_string(until);
    item->until = mem_zero_array(n + 1, sizeof *item->until);
    if (item->until == NULL || n > UNTIL_MAX)
        return -1;
    if (json_is_string(until))
        return (item->until[item->n_until++] = copy(json_string_value(until))) != NULL ? 0 : -1;
    json_array_foreach(until, i, one)
    {
        if (!json_is_string(one) || json_string_length(one) == 0)
            continue;
        item->until[item->n_until] = copy(json_string_value(one));
        if (item->until[item->n_until++] == NULL)
            return -1;
    }
    return 0;
}

static enum mr_status read_generation(struct task_item *item, json_t *prompt, json_t *options, json_t *target,
                                      struct mr_error *err)
{
    json_t *most = json_object_get(options, "max_gen_toks");
    if (!json_is_string(prompt) || !json_is_string(target))
        return mr_fail(err, MR_BAD_FORMAT, "a generated answer needs a prompt in 'arguments' and a text as 'target'");
    item->max_tokens = MAX_TOKENS_DEFAULT;
    if (json_is_integer(most) && json_integer_value(most) > 0 && json_integer_value(most) < 1 << 20)
        item->max_tokens = (int)json_integer_value(most);
    item->prompt = copy(json_string_value(prompt));
    item->target = copy(json_string_value(target));
    if (item->prompt == NULL || item->target == NULL || add_until(item, json_object_get(options, "until")) != 0)
        return no_memory(err);
    return MR_OK;
}

/* Without the blanks in front, which belong to the border and not to the answer. */
static const char *bare(const char *s) { return s + strspn(s, " "); }

/* A number, one in a text, or the text of a continuation. */
static int gold_of(const struct task_item *item, json_t *target)
{
    const char *text = json_string_value(target);
    char *end;
    if (json_is_integer(target))
        return json_integer_value(target) >= 0 && json_integer_value(target) < item->n_choice ? (int)json_integer_value(target)
                                                                                              : -1;
    for (int i = 0; text != NULL && i < item->n_choice; i++)
        if (strcmp(bare(text), bare(item->choice[i].continuation)) == 0)
            return i;
    const long n = text != NULL ? strtol(text, &end, 10) : -1;
    return text != NULL && *text != '\0' && *end == '\0' && n >= 0 && n < item->n_choice ? (int)n : -1;
}

static enum mr_status add_choice(struct task_item *item, json_t *pair, struct mr_error *err)
{
    json_t *context, *continuation;
    pair_of(pair, &context, &continuation);
    if (!json_is_string(context) || !json_is_string(continuation) || json_string_length(continuation) == 0)
        return mr_fail(err, MR_BAD_FORMAT, "'arguments': entry %d is no pair of a context and a continuation", item->n_choice);
    struct task_choice *c = &item->choice[item->n_choice++];
    c->context = copy(json_string_value(context));
    c->continuation = copy(json_string_value(continuation));
    return c->context != NULL && c->continuation != NULL ? MR_OK : no_memory(err);
}

static enum mr_status read_choices(struct task_item *item, json_t *arguments, json_t *target, struct mr_error *err)
{
    json_t *pair;
    size_t i;
    const char *key;
    const size_t n = json_is_array(arguments) ? json_array_size(arguments) : json_object_size(arguments);
    if (n > CHOICES_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "'arguments' has %zu entries, at most %d are read", n, CHOICES_MAX);
    item->choice = mem_zero_array(n, sizeof *item->choice);
    if (item->choice == NULL)
        return no_memory(err);
    json_array_foreach(arguments, i, pair) MR_TRY(add_choice(item, pair, err));
    json_object_foreach(arguments, key, pair) MR_TRY(add_choice(item, pair, err));
    item->gold = item->n_choice == 1 ? 0 : gold_of(item, target);
    return item->gold >= 0 ? MR_OK : mr_fail(err, MR_BAD_FORMAT, "'target' names none of the %d choices", item->n_choice);
}

static json_t *first_of(json_t *arguments)
{
    return json_is_array(arguments) ? json_array_get(arguments, 0) : json_object_iter_value(json_object_iter(arguments));
}

static enum mr_status read_item(struct task_item *item, json_t *line, struct mr_error *err)
{
    json_t *arguments = json_object_get(line, "arguments"), *target = json_object_get(line, "target"), *prompt, *options;
    if (first_of(arguments) == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "'arguments' is missing or empty");
    pair_of(first_of(arguments), &prompt, &options);
    return json_is_object(options) ? read_generation(item, prompt, options, target, err)
                                   : read_choices(item, arguments, target, err);
}

/* lm-eval writes a document once for each of its filters, filter by filter. */
static bool is_of_first_filter(json_t *line, char **first)
{
    const char *filter = json_string_value(json_object_get(line, "filter"));
    if (filter == NULL)
        return true;
    if (*first == NULL)
        *first = copy(filter);
    return *first == NULL || strcmp(*first, filter) == 0;
}

static enum mr_status add_line(struct task *t, size_t *capacity, const char *s, size_t n, char **filter, struct mr_error *err)
{
    json_error_t why;
    json_t *line = json_loadb(s, n, JSON_REJECT_DUPLICATES, &why);
    if (line == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "%s", why.text);
    enum mr_status status = MR_OK;
    if (is_of_first_filter(line, filter)) {
        if (!mem_grow(&t->item, capacity, (size_t)t->n + 1, sizeof *t->item)) {
            status = no_memory(err);
        } else {
            t->item[t->n] = (struct task_item){0};
            status = read_item(&t->item[t->n++], line, err);
        }
    }
    json_decref(line);
    return status;
}

static bool is_blank(const char *s, size_t n)
{
    while (n > 0 && (*s == ' ' || *s == '\t' || *s == '\r')) {
        s++;
        n--;
    }
    return n == 0;
}

enum mr_status task_read(struct task *out, const char *text, size_t n, struct mr_error *err)
{
    size_t capacity = 0;
    char *filter = NULL;
    enum mr_status status = MR_OK;
    int number = 1;
    *out = (struct task){0};
    for (size_t begin = 0; begin < n && status == MR_OK; number++) {
        const char *end = memchr(text + begin, '\n', n - begin);
        const size_t length = end != NULL ? (size_t)(end - text) - begin : n - begin;
        if (!is_blank(text + begin, length))
            status = add_line(out, &capacity, text + begin, length, &filter, err);
        if (status != MR_OK)
            mr_fail_in(err, status, "line %d", number);
        begin += length + 1;
    }
    free(filter);
    if (status == MR_OK && out->n == 0)
        status = mr_fail(err, MR_BAD_FORMAT, "there is no task in it");
    if (status != MR_OK)
        task_release(out);
    return status;
}

static void item_release(struct task_item *item)
{
    for (int i = 0; i < item->n_choice; i++) {
        free(item->choice[i].context);
        free(item->choice[i].continuation);
    }
    for (int i = 0; i < item->n_until; i++)
        free(item->until[i]);
    free(item->choice);
    free(item->until);
    free(item->prompt);
    free(item->target);
}

void task_release(struct task *t)
{
    for (int i = 0; i < t->n; i++)
        item_release(&t->item[i]);
    free(t->item);
    *t = (struct task){0};
}
