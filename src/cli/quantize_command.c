/* quantize_command.c: `millrace quantize`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "compress/quantize.h"

struct quantize_arguments {
    const char *type, *head, *embedding, *importance;
    struct argument_list tensors;
    int threads;
    bool pure, requantize, json;
};

#define FIELD(f) offsetof(struct quantize_arguments, f)

static const struct argument quantize_argument[] = {
    {.name = "type",
     .value = "TYPE",
     .help = "A mix (q4_k_m, q5_k_s, ...) or a block type (q8_0, bf16, ...); default q4_k_m",
     .parse = argument_string,
     .offset = FIELD(type)},
    {.name = "imatrix",
     .value = "FILE",
     .help = "Statistics of activations: errors count where they matter",
     .parse = argument_string,
     .offset = FIELD(importance)},
    {.name = "tensor",
     .value = "REGEX=TYPE",
     .help = "Tensors whose names match get this block type; may be given more than once, the first that matches counts",
     .parse = argument_append,
     .offset = FIELD(tensors)},
    {.name = "output-type", .value = "TYPE", .help = "Of output.weight", .parse = argument_string, .offset = FIELD(head)},
    {.name = "token-embedding-type",
     .value = "TYPE",
     .help = "Of token_embd.weight; one that is the output, too, takes the wider of both",
     .parse = argument_string,
     .offset = FIELD(embedding)},
    {.name = "pure", .help = "The same type everywhere, no mix", .parse = argument_flag, .offset = FIELD(pure)},
    {.name = "requantize",
     .help = "Take tensors of fewer than 8 bits as input, too: their errors add up",
     .parse = argument_flag,
     .offset = FIELD(requantize)},
    {.name = "threads",
     .letter = 't',
     .value = "N",
     .help = "Threads (default: one for each CPU)",
     .parse = argument_int,
     .offset = FIELD(threads),
     .low = 1,
     .high = 1024},
    {.name = "json", .help = "Print what became of each tensor as JSON", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

struct listener {
    struct progress_bar bar;
    json_t *tensors; /* NULL: nobody wants them */
};

static void list_unfit(struct listener *l, const struct quantize_step *s)
{
    if (s->to == s->wanted)
        return;
    progress_bar_end(&l->bar);
    fprintf(stderr, "%.*s: rows do not fit %s, it becomes %s\n", (int)(s->name.n < 128 ? s->name.n : 128), s->name.s,
            s->wanted->name, s->to->name);
}

static bool go_on(void *context, const struct quantize_step *s)
{
    struct listener *l = context;
    if (l->tensors == NULL)
        list_unfit(l, s);
    else
        json_array_append_new(l->tensors, json_pack("{s:s%,s:s,s:s,s:s,s:I,s:b,s:f}", "name", s->name.s, s->name.n, "from",
                                                    s->from->name, "wanted", s->wanted->name, "type", s->to->name, "bytes",
                                                    (json_int_t)s->bytes, "importance", s->has_importance, "error", s->error));
    return progress_bar_show(&l->bar, "quantising", s->done, s->n);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* "REGEX=TYPE", cut in place at the last sign. */
static int read_rule(struct quantize_rule *rule, char *pattern, size_t n, const char *text, const char *command)
{
    const char *equals = strrchr(text, '=');
    if (equals == NULL || equals == text || (size_t)(equals - text) >= n)
        return arguments_fail(command, "--tensor: '%s' is not REGEX=TYPE", text);
    snprintf(pattern, n, "%.*s", (int)(equals - text), text);
    *rule = (struct quantize_rule){pattern, quant_find_name(equals + 1)};
    if (rule->type == NULL)
        return arguments_fail(command, "--tensor: there is no block type '%s'", equals + 1);
    return ARGUMENTS_GO_ON;
}

static int read_type(const struct quant **out, const char *name, const char *option, const char *command)
{
    *out = name != NULL ? quant_find_name(name) : NULL;
    if (name != NULL && *out == NULL)
        return arguments_fail(command, "%s: there is no block type '%s'", option, name);
    return ARGUMENTS_GO_ON;
}

static int list_mixes(const char *type, const char *command)
{
    char names[512] = "";
    for (int i = 0; mix_at(i) != NULL; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? ", " : "", mix_name(mix_at(i)));
    return arguments_fail(command, "--type: there is no '%s'; there are %s", type, names);
}

static int report(const struct quantize_result *r, json_t *tensors, double seconds, const char *command)
{
    if (tensors != NULL)
        return output_json(command,
                           json_pack("{s:i,s:i,s:i,s:i,s:I,s:I,s:f,s:O}", "n_tensors", r->n_tensor, "n_quantized",
                                     r->n_quantized, "n_unfit", r->n_unfit, "n_importance", r->n_importance, "bytes_in",
                                     (json_int_t)r->bytes_in, "bytes_out", (json_int_t)r->bytes_out, "seconds", seconds,
                                     "tensors", tensors),
                           JSON_INDENT(1));
    printf("%.1f MB become %.1f MB in %.1f s: %d of %d tensors quantised, %d with statistics, %d in another type than asked "
           "for\n",
           (double)r->bytes_in / 1e6, (double)r->bytes_out / 1e6, seconds, r->n_quantized, r->n_tensor, r->n_importance,
           r->n_unfit);
    return EXIT_SUCCESS;
}

static int run(const struct quantize_arguments *a, struct quantize_options *o, const char *in, const char *to,
               const char *command)
{
    struct mr_error err = {{0}};
    struct column_weights *importance = NULL;
    struct quantize_result result;
    struct listener l = {.tensors = a->json ? json_array() : NULL};
    const int64_t begin = clock_us();
    interrupt_install();
    progress_bar_begin(&l.bar);
    enum mr_status status = a->importance != NULL ? column_weights_read(&importance, a->importance, &err) : MR_OK;
    o->importance = importance;
    o->go_on = go_on;
    o->context = &l;
    if (status == MR_OK)
        status = quantize(&result, in, to, o, &err);
    progress_bar_end(&l.bar);
    column_weights_free(importance);
    const int code = status == MR_OK ? report(&result, l.tensors, (double)(clock_us() - begin) * 1e-6, command)
                                     : output_fail_status(command, status, &err);
    json_decref(l.tensors);
    return code;
}

int command_quantize(int argc, char **argv)
{
    static char pattern[ARGUMENT_LIST_MAX][256];
    struct quantize_rule rule[ARGUMENT_LIST_MAX];
    const char *operand[2] = {NULL, NULL};
    struct quantize_arguments a = {.type = "q4_k_m"};
    const struct argument_group group = {"Options:", quantize_argument, &a};
    const struct command_line line = {
        .operands = "IN OUT",
        .summary = "Write a model with smaller block types. Scales are searched for the least error, weighed by statistics of "
                   "activations where there are any.",
        .example = "  millrace quantize model-f16.gguf model-q4_k_m.gguf --type q4_k_m --imatrix statistics.gguf\n"
                   "  millrace quantize model-f16.gguf out.gguf --type q4_0 --tensor 'ffn_down=q8_0'",
        .operand = operand,
        .min_operands = 2,
        .max_operands = 2,
        .group = &group,
        .n_groups = 1};
    int stop = arguments_parse(argc, argv, &line);
    if (stop != ARGUMENTS_GO_ON)
        return stop;
    struct quantize_options o = {.mix = mix_find(a.type),
                                 .is_pure = a.pure,
                                 .rule = rule,
                                 .n_rule = a.tensors.n,
                                 .requantize = a.requantize,
                                 .threads = a.threads};
    if (o.mix == NULL)
        return list_mixes(a.type, argv[0]);
    for (int i = 0; i < a.tensors.n && stop == ARGUMENTS_GO_ON; i++)
        stop = read_rule(&rule[i], pattern[i], sizeof pattern[i], a.tensors.s[i], argv[0]);
    if (stop == ARGUMENTS_GO_ON)
        stop = read_type(&o.head, a.head, "--output-type", argv[0]);
    if (stop == ARGUMENTS_GO_ON)
        stop = read_type(&o.embedding, a.embedding, "--token-embedding-type", argv[0]);
    if (stop != ARGUMENTS_GO_ON)
        return stop;
    if (same_file(operand[0], operand[1]))
        return arguments_fail(argv[0], "OUT is the file IN; give it another name");
    return run(&a, &o, operand[0], operand[1], argv[0]);
}
