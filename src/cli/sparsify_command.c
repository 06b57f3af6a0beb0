/* sparsify_command.c: `millrace sparsify`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/calibrate_text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/read_input.h"
#include "compress/hessian.h"
#include "engine/loaded_model.h"
#include "quant/sparse.h"

struct sparsify_arguments {
    const char *calibrate, *importance, *type;
    int pattern, method, store, tokens, memory, threads;
    float ratio;
    bool json;
};

enum pattern {
    PATTERN_2_4,
    PATTERN_4_8,
    PATTERN_NONE
};

static const char *const patterns[] = {"2:4", "4:8", "unstructured", NULL};
static const char *const methods[] = {"magnitude", "wanda", "sparsegpt", NULL};
static const char *const stores[] = {"sparse", "dense", NULL};

enum {
    WINDOW = 512 /* tokens of a text that are read at a time */
};

#define FIELD(f) .offset = offsetof(struct sparsify_arguments, f)

static const struct argument sparsify_argument[] = {
    {.name = "pattern",
     .value = "PATTERN",
     .help = "2:4 or 4:8 (so many of each group stay), or unstructured (default: 2:4)",
     .parse = argument_choice,
     .choice = patterns,
     FIELD(pattern)},
    {.name = "ratio",
     .value = "R",
     .help = "Share of the weights that goes, for unstructured; 0.5 of patterns (default: 0.5)",
     .parse = argument_float,
     .low = 0.01,
     .high = 0.99,
     FIELD(ratio)},
    {.name = "method",
     .value = "HOW",
     .help = "Which weights go: magnitude, wanda (weight times the norm of its input) or sparsegpt (default: wanda)",
     .parse = argument_choice,
     .choice = methods,
     FIELD(method)},
    {.name = "calibrate",
     .value = "TEXT",
     .help = "Text for wanda and sparsegpt, of the kind that the model will be used for; - reads standard input",
     .parse = argument_string,
     FIELD(calibrate)},
    {.name = "imatrix",
     .value = "FILE",
     .help = "Or, for wanda, statistics of `millrace calibrate`",
     .parse = argument_string,
     FIELD(importance)},
    {.name = "tokens",
     .value = "N",
     .help = "Read no more than so many tokens of the text",
     .parse = argument_int,
     .low = CALIBRATE_TOKENS_MIN,
     .high = 1 << 30,
     FIELD(tokens)},
    {.name = "memory",
     .value = "MB",
     .help = "What sparsegpt may keep of the text at a time; less memory, more readings of it (default: 2048)",
     .parse = argument_int,
     .low = 1,
     .high = 1 << 20,
     FIELD(memory)},
    {.name = "type",
     .value = "TYPE",
     .help = "Of the weights that stay: bf16, q8_0 or q4_0 (default: the nearest to the input's)",
     .parse = argument_string,
     FIELD(type)},
    {.name = "store",
     .value = "HOW",
     .help = "sparse: what stays, faster and smaller; dense: zeros, too, an ordinary file (default: sparse)",
     .parse = argument_choice,
     .choice = stores,
     FIELD(store)},
    {.name = "threads",
     .letter = 't',
     .value = "N",
     .help = "Threads (default: one for each CPU)",
     .parse = argument_int,
     .low = 1,
     .high = 1024,
     FIELD(threads)},
    {.name = "json", .help = "Print what became of each tensor as JSON", .parse = argument_flag, FIELD(json)},
    {0}};

struct listener {
    struct progress_bar bar;
    json_t *tensors; /* NULL: nobody wants them */
};

static bool go_on(void *context, const struct sparsify_step *s)
{
    struct listener *l = context;
    if (l->tensors != NULL)
        json_array_append_new(l->tensors, json_pack("{s:s%,s:s,s:s,s:b,s:I,s:f}", "name", s->name.s, s->name.n, "from",
                                                    s->from->name, "type", s->to->name, "sparse", s->is_sparse, "bytes",
                                                    (json_int_t)s->bytes, "error", s->error));
    if (l->tensors == NULL && s->is_unfit) {
        progress_bar_end(&l->bar);
        fprintf(stderr, "%.*s: its rows are no multiple of 32 weights, it stays as it is\n",
                (int)(s->name.n < 128 ? s->name.n : 128), s->name.s);
    }
    return progress_bar_show(&l->bar, "sparsifying", s->done, s->n);
}

static int report(const struct sparsify_result *r, json_t *tensors, double seconds, const char *command)
{
    if (tensors != NULL)
        return output_json(command,
                           json_pack("{s:i,s:i,s:i,s:I,s:I,s:f,s:O}", "n_tensors", r->n_tensor, "n_sparse", r->n_sparse,
                                     "n_unfit", r->n_unfit, "bytes_in", (json_int_t)r->bytes_in, "bytes_out",
                                     (json_int_t)r->bytes_out, "seconds", seconds, "tensors", tensors),
                           JSON_INDENT(1));
    printf("%.1f MB become %.1f MB in %.1f s: %d of %d tensors lost weights\n", (double)r->bytes_in / 1e6,
           (double)r->bytes_out / 1e6, seconds, r->n_sparse, r->n_tensor);
    return EXIT_SUCCESS;
}

/* The model and the text that statistics come from, and what is read from them. */
struct reading {
    struct mr_model *model;
    struct string_buffer text;
    struct token_list tokens;
    struct perplexity_options windows;
    struct progress_bar bar;
    struct column_weights *statistics;
    struct hessians *hessians;
    struct sparsify_factors factors;
};

static enum mr_status open_reading(struct reading *r, const char *in, const struct sparsify_arguments *a, struct mr_error *err)
{
    struct model_arguments m = {.model = in, .threads = a->threads, .precision = MR_PRECISION_FP32};
    struct mr_options options;
    load_options(&options, &m);
    MR_TRY(read_input(&r->text, a->calibrate, err));
    return load_model(&r->model, &m, &options, err);
}

static void close_reading(struct reading *r)
{
    column_weights_free(r->statistics);
    hessians_free(r->hessians);
    token_list_release(&r->tokens);
    mr_model_close(r->model);
    string_buffer_release(&r->text);
}

/* For wanda: from a file, or from a text. */
static enum mr_status read_statistics(struct reading *r, const char *in, const struct sparsify_arguments *a,
                                      struct mr_error *err)
{
    struct calibration *c = NULL;
    struct perplexity of_text;
    if (a->importance != NULL)
        return column_weights_read(&r->statistics, a->importance, err);
    MR_TRY(open_reading(r, in, a, err));
    enum mr_status status = calibrate_text(&c, &of_text, r->model, &r->text, WINDOW, a->tokens, err);
    if (status == MR_OK)
        status = calibration_weights(&r->statistics, c, err);
    calibration_free(c);
    return status;
}

static bool go_on_reading(void *context, int64_t done, int64_t total)
{
    return progress_bar_show(context, "calibrating", done, total);
}

/* For sparsegpt: the text is read whenever the next matrices are wanted. */
static enum mr_status prepare_hessians(struct reading *r, const char *in, const struct sparsify_arguments *a,
                                       struct mr_error *err)
{
    MR_TRY(open_reading(r, in, a, err));
    const int trained = model_info(r->model->model)->n_ctx_train, n = WINDOW < trained ? WINDOW : trained;
    const struct text_run part = {.s = r->text.s != NULL ? r->text.s : "", .n = r->text.n, .match_control = true};
    MR_TRY(tokenizer_encode(r->model->tokenizer, &part, 1, 0, &r->tokens, err));
    r->windows = (struct perplexity_options){.window = n, .stride = n - 2, .go_on = go_on_reading, .context = &r->bar};
    const bool is_long = a->tokens > 0 && r->tokens.n > (size_t)a->tokens;
    const struct hessian_text text = {.model = r->model,
                                      .token = r->tokens.id,
                                      .n = is_long ? a->tokens : (int64_t)r->tokens.n,
                                      .windows = &r->windows,
                                      .memory = (size_t)a->memory << 20,
                                      .threads = a->threads};
    progress_bar_begin(&r->bar);
    r->factors = (struct sparsify_factors){hessians_find, NULL};
    MR_TRY(hessians_create(&r->hessians, &text, err));
    r->factors.context = r->hessians;
    return MR_OK;
}

static int run(const struct sparsify_arguments *a, struct sparsify_options *o, const char *in, const char *to,
               const char *command)
{
    struct mr_error err = {{0}};
    struct reading r = {0};
    struct sparsify_result result;
    struct listener l = {.tensors = a->json ? json_array() : NULL};
    const int64_t begin = clock_us();
    enum mr_status status = MR_OK;
    string_buffer_init(&r.text);
    interrupt_install();
    if (o->method == SPARSE_WANDA)
        status = read_statistics(&r, in, a, &err);
    if (o->method == SPARSE_SPARSEGPT)
        status = prepare_hessians(&r, in, a, &err);
    progress_bar_begin(&l.bar);
    o->statistics = r.statistics;
    o->factors = &r.factors;
    o->go_on = go_on;
    o->context = &l;
    if (status == MR_OK)
        status = sparsify(&result, in, to, o, &err);
    progress_bar_end(&l.bar);
    close_reading(&r);
    const int code = status == MR_OK ? report(&result, l.tensors, (double)(clock_us() - begin) * 1e-6, command)
                                     : output_fail_status(command, status, &err);
    json_decref(l.tensors);
    return code;
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Options that do not fit each other. */
static int check(const struct sparsify_arguments *a, const struct sparsify_options *o, const char *command)
{
    if (a->pattern == PATTERN_NONE && !o->is_dense)
        return arguments_fail(command,
                              "--pattern unstructured: kept weights at any place cost a product more than they save it, "
                              "so no type stores them; use 2:4 or 4:8, or --store dense for a file with zeros that is "
                              "neither smaller nor faster");
    if (a->pattern != PATTERN_NONE && fabsf(a->ratio - 0.5f) > 1e-6f)
        return arguments_fail(command, "--ratio: a pattern of %s drops 0.5; other shares need --pattern unstructured",
                              patterns[a->pattern]);
    if (o->method != SPARSE_MAGNITUDE && a->calibrate == NULL && (o->method != SPARSE_WANDA || a->importance == NULL))
        return arguments_fail(command, "--calibrate: %s needs a text%s", methods[a->method],
                              o->method == SPARSE_WANDA ? " (or --imatrix statistics)" : "");
    if (a->type != NULL && (o->type == NULL || quant_sparse_find(o->type, 2, 4) == NULL))
        return arguments_fail(command, "--type: '%s' is none of bf16, q8_0, q4_0", a->type);
    return ARGUMENTS_GO_ON;
}

int command_sparsify(int argc, char **argv)
{
    const char *operand[2] = {NULL, NULL};
    struct sparsify_arguments a = {.ratio = 0.5f, .method = SPARSE_WANDA, .memory = 2048};
    const struct argument_group group = {"Options:", sparsify_argument, &a};
    const struct command_line line = {
        .operands = "IN OUT",
        .summary = "Drop half of the weights of each small group in the matrices of the layers, and store the others only: one "
                   "answer is read from fewer bytes. `millrace distill` teaches a model what it lost, before.",
        .example = "  millrace sparsify model-bf16.gguf sparse.gguf --pattern 2:4 --method wanda --calibrate text.txt\n"
                   "  millrace sparsify model-bf16.gguf zeros.gguf --pattern unstructured --ratio 0.4 --store dense "
                   "--method magnitude",
        .operand = operand,
        .min_operands = 2,
        .max_operands = 2,
        .group = &group,
        .n_groups = 1};
    int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    struct sparsify_options o = {.method = (enum sparse_method)a.method,
                                 .kept = a.pattern == PATTERN_2_4 ? 2 : 4,
                                 .of = a.pattern == PATTERN_2_4   ? 4
                                       : a.pattern == PATTERN_4_8 ? 8
                                                                  : 0,
                                 .ratio = (double)a.ratio,
                                 .type = a.type != NULL ? quant_find_name(a.type) : NULL,
                                 .is_dense = a.store == 1,
                                 .threads = a.threads};
    status = check(&a, &o, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (same_file(operand[0], operand[1]))
        return arguments_fail(argv[0], "OUT is the file IN; give it another name");
    return run(&a, &o, operand[0], operand[1], argv[0]);
}
