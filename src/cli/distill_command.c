/* distill_command.c: `millrace distill`. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/read_input.h"
#include "compress/distill_job.h"
#include "train/loss.h"

struct distill_arguments {
    const char *student, *teacher, *file, *out, *cache, *checkpoint, *lora_targets;
    int type, precision, heads, heads_count, lora, threads, tokens, batch, accumulate, held_out, top_k;
    int64_t steps, warmup, seed, checkpoint_every, report_every, measure_every;
    float rate, floor, decay, clip, ce, kl, hidden, temperature, lora_alpha;
    size_t memory;
    bool json;
};

static const char *const precisions[] = {"fp32", "bf16", NULL};
static const char *const types[] = {"f32", "f16", "bf16", NULL};
static const char *const kinds[] = {"none", "medusa", "eagle", NULL};
enum {
    KIND_MEDUSA = 1,
    KIND_EAGLE
};
static const enum quant_type quant_of[] = {QUANT_F32, QUANT_F16, QUANT_BF16};

#define FIELD(f)  .offset = offsetof(struct distill_arguments, f)
#define STRING    .parse = argument_string
#define INT(l, h) .parse = argument_int, .low = (l), .high = (h)
#define LONG      .parse = argument_int64, .low = 0, .high = 1e15
#define REAL(l)   .parse = argument_float, .low = (l), .high = 1e6

static const struct argument model_rows[] = {
    {.name = "model", .letter = 'm', .value = "FILE", .help = "The student: a GGUF file", STRING, FIELD(student)},
    {.name = "teacher", .value = "FILE", .help = "The teacher; without it the text alone teaches", STRING, FIELD(teacher)},
    {.name = "file", .letter = 'f', .value = "FILE", .help = "The text; - reads standard input", STRING, FIELD(file)},
    {.name = "output", .letter = 'o', .value = "FILE", .help = "Where the trained student goes", STRING, FIELD(out)},
    {.name = "type",
     .value = "TYPE",
     .help = "Its weights: f32, f16 or bf16 (default: f16)",
     .parse = argument_choice,
     .choice = types,
     FIELD(type)},
    {.name = "heads",
     .value = "KIND",
     .help = "Train heads for speculation beside the model, which stands still: medusa or eagle; the output holds them alone",
     .parse = argument_choice,
     .choice = kinds,
     FIELD(heads)},
    {.name = "heads-count",
     .value = "N",
     .help = "Heads of Medusa, which guess one token further ahead each (default: 3)",
     INT(1, DRAFT_HEADS_MAX),
     FIELD(heads_count)},
    {.name = "lora",
     .value = "RANK",
     .help = "Train an adapter of this rank (LoRA) on the model, which stands still; the output holds the adapter alone",
     INT(1, LORA_RANK_MAX),
     FIELD(lora)},
    {.name = "lora-targets",
     .value = "LIST",
     .help = "Products that it adds to, of q,k,v,o,gate,up,down (default: all)",
     STRING,
     FIELD(lora_targets)},
    {.name = "lora-alpha",
     .value = "A",
     .help = "It adds A / RANK of B (A x) (default: twice the rank)",
     REAL(0),
     FIELD(lora_alpha)},
    {0}};

static const struct argument loss_rows_of[] = {
    {.name = "ce",
     .value = "W",
     .help = "Weight of the cross-entropy (default: 0.5; 1 without a teacher; eagle: 0)",
     REAL(0),
     FIELD(ce)},
    {.name = "kl",
     .value = "W",
     .help = "Weight of the divergence from the teacher (default: 0.5; eagle: 0.1)",
     REAL(0),
     FIELD(kl)},
    {.name = "hidden",
     .value = "W",
     .help = "Weight of the mean square between the hidden states; needs equal widths (default: 0; eagle: 1, of its features)",
     REAL(0),
     FIELD(hidden)},
    {.name = "temperature", .value = "T", .help = "Of both distributions (default: 1)", REAL(0.01), FIELD(temperature)},
    {.name = "top-k",
     .value = "N",
     .help = "Tokens of the teacher's distribution that are kept, the rest as one (default: 32)",
     INT(1, LOSS_K_MAX),
     FIELD(top_k)},
    {.name = "teacher-cache", .value = "FILE", .help = "Keep what the teacher says of each window", STRING, FIELD(cache)},
    {0}};

static const struct argument training_rows[] = {
    {.name = "steps",
     .value = "N",
     .help = "Steps (default: 1000)",
     .parse = argument_int64,
     .low = 1,
     .high = 1e12,
     FIELD(steps)},
    {.name = "tokens", .value = "N", .help = "Tokens of a window (default: 512)", INT(2, 1 << 20), FIELD(tokens)},
    {.name = "batch", .value = "N", .help = "Windows that pass at a time (default: 2)", INT(1, DISTILL_MAX_SEQ), FIELD(batch)},
    {.name = "accumulate", .value = "N", .help = "Such passes in a step (default: 4)", INT(1, 1 << 20), FIELD(accumulate)},
    {.name = "rate", .value = "R", .help = "Highest learning rate (default: 5e-4)", REAL(0), FIELD(rate)},
    {.name = "rate-floor",
     .value = "F",
     .help = "Share of it at the end, after half a cosine (default: 0.1)",
     REAL(0),
     FIELD(floor)},
    {.name = "warmup", .value = "N", .help = "Steps that the rate rises (default: 50)", LONG, FIELD(warmup)},
    {.name = "decay", .value = "D", .help = "Decay of matrices (default: 0.1)", REAL(0), FIELD(decay)},
    {.name = "clip", .value = "C", .help = "Longest gradient; 0: any (default: 1)", REAL(0), FIELD(clip)},
    {.name = "seed", .value = "N", .help = "Order of the windows (default: 0)", LONG, FIELD(seed)},
    {.name = "held-out",
     .value = "N",
     .help = "Windows at the end that are measured only (default: 8)",
     INT(0, 1 << 20),
     FIELD(held_out)},
    {.name = "memory",
     .value = "SIZE",
     .help = "For activations; with less, layers are computed twice (default: 4GB)",
     .parse = argument_size,
     .low = 0,
     .high = 1e15,
     FIELD(memory)},
    {.name = "precision",
     .value = "P",
     .help = "Of products: fp32, or bf16 operands with f32 sums and weights; slower where the CPU does not multiply bf16 "
             "(default: fp32)",
     .parse = argument_choice,
     .choice = precisions,
     FIELD(precision)},
    {.name = "threads",
     .letter = 't',
     .value = "N",
     .help = "Threads that compute (default: one for each CPU); results do not depend on it",
     INT(1, 1024),
     FIELD(threads)},
    {.name = "checkpoint",
     .value = "FILE",
     .help = "Keep the run's state there; the same command resumes it",
     STRING,
     FIELD(checkpoint)},
    {.name = "checkpoint-every",
     .value = "N",
     .help = "Steps between checkpoints (default: 100)",
     LONG,
     FIELD(checkpoint_every)},
    {.name = "report-every", .value = "N", .help = "Steps between lines of progress (default: 10)", LONG, FIELD(report_every)},
    {.name = "measure-every",
     .value = "N",
     .help = "Steps between measurements on the held-out windows (default: 100)",
     LONG,
     FIELD(measure_every)},
    {.name = "json", .help = "Print the curve as JSON when all is done", .parse = argument_flag, FIELD(json)},
    {0}};

static bool report(void *context, const struct curve_point *p)
{
    (void)context;
    fprintf(stderr, "step %lld  loss %.4f  ce %.4f  kl %.4f  right %.1f %%  rate %.2e  %.0f tokens/s", (long long)p->step,
            (double)p->loss, (double)p->cross_entropy, (double)p->divergence, 100 * (double)p->accuracy, (double)p->rate,
            p->tokens_per_s);
    if (p->mfu > 0)
        fprintf(stderr, "  MFU %.1f %%", 100 * p->mfu);
    if (p->held_cross_entropy >= 0)
        fprintf(stderr, "  held out: ce %.4f  right %.2f %%  as the teacher %.2f %%", (double)p->held_cross_entropy,
                100 * (double)p->held_accuracy, 100 * (double)p->held_agreement);
    for (int i = 0; i < DRAFT_HEADS_MAX && p->held_head[i] >= 0; i++)
        fprintf(stderr, "%s %.2f %%", i == 0 ? "  each head" : ",", 100 * (double)p->held_head[i]);
    fputc('\n', stderr);
    return !interrupt_seen();
}

static bool go_on(void *context)
{
    (void)context;
    return !interrupt_seen();
}

static json_t *heads_json(const struct curve_point *p)
{
    json_t *heads = json_array();
    for (int i = 0; i < DRAFT_HEADS_MAX && p->held_head[i] >= 0; i++)
        json_array_append_new(heads, json_real((double)p->held_head[i]));
    return heads;
}

static json_t *point_json(const struct curve_point *p)
{
    json_t *o = json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "step", (json_int_t)p->step, "tokens",
                          (json_int_t)p->n_token, "seconds", p->seconds, "rate", (double)p->rate, "gradient_norm",
                          (double)p->norm, "loss", (double)p->loss, "cross_entropy", (double)p->cross_entropy, "divergence",
                          (double)p->divergence, "accuracy", (double)p->accuracy, "agreement", (double)p->agreement,
                          "tokens_per_s", p->tokens_per_s, "mfu", p->mfu);
    if (o != NULL && p->held_cross_entropy >= 0)
        json_object_set_new(o, "held_out",
                            json_pack("{s:f, s:f, s:f, s:f, s:o}", "cross_entropy", (double)p->held_cross_entropy, "divergence",
                                      (double)p->held_divergence, "accuracy", (double)p->held_accuracy, "agreement",
                                      (double)p->held_agreement, "accuracy_of_heads", heads_json(p)));
    return o;
}

static json_t *curve_json(const struct curve *c, int64_t first_step)
{
    json_t *points = json_array();
    for (size_t i = 0; i < c->n; i++)
        json_array_append_new(points, point_json(&c->point[i]));
    return json_pack("{s:I, s:o}", "resumed_at_step", (json_int_t)first_step, "curve", points);
}

/* The weights that were not given follow from what teaches; for EAGLE those of its paper, section 4.2. */
static void set_loss(struct distill_options *o, const struct distill_arguments *a)
{
    const bool is_eagle = a->heads == KIND_EAGLE, is_taught = a->teacher != NULL;
    o->ce_weight = a->ce >= 0 ? a->ce : is_eagle ? 0 : is_taught ? 0.5f : 1;
    o->kl_weight = a->kl >= 0 ? a->kl : is_eagle ? 0.1f : is_taught ? 0.5f : 0;
    o->hidden_weight = a->hidden >= 0 ? a->hidden : is_eagle ? 1 : 0;
}

static struct distill_job job_of(const struct distill_arguments *a, const struct string_buffer *text)
{
    struct distill_options o = distill_defaults();
    o.n_seq = a->batch;
    o.accumulate = a->accumulate;
    o.n_step = a->steps;
    o.rate = a->rate;
    o.floor = a->floor;
    o.n_warmup = a->warmup;
    o.adamw.decay = a->decay;
    o.adamw.clip = a->clip;
    set_loss(&o, a);
    o.k = a->top_k;
    o.temperature = a->temperature;
    o.cache = a->cache;
    o.checkpoint = a->checkpoint;
    o.checkpoint_every = a->checkpoint_every;
    o.report_every = a->report_every;
    o.measure_every = a->measure_every;
    o.memory_bytes = a->memory;
    o.is_bf16 = a->precision == 1;
    o.report = report;
    o.go_on = go_on;
    return (struct distill_job){.student = a->student,
                                .teacher = a->teacher,
                                .n_head = a->heads == KIND_MEDUSA ? a->heads_count : 0,
                                .is_eagle = a->heads == KIND_EAGLE,
                                .lora_rank = a->lora,
                                .lora_alpha = a->lora_alpha,
                                .lora_targets = a->lora_targets,
                                .text = text->s != NULL ? text->s : "",
                                .n_text = text->n,
                                .out = a->out,
                                .type = quant_of[a->type],
                                .n_tok = a->tokens,
                                .n_held_out = a->held_out,
                                .seed = (uint64_t)a->seed,
                                .threads = a->threads,
                                .cpu = getenv("MILLRACE_CPU"),
                                .wants_peak = true,
                                .options = o};
}

static int run(const struct distill_arguments *a, const char *command)
{
    struct string_buffer text;
    struct curve curve = {0};
    struct mr_error err = {{0}};
    int64_t first_step = 0;
    string_buffer_init(&text);
    enum mr_status status = read_input(&text, a->file, &err);
    if (status == MR_OK) {
        struct distill_job job = job_of(a, &text);
        status = distill_job_run(&job, &curve, &first_step, &err);
    }
    string_buffer_release(&text);
    int end = status == MR_OK ? EXIT_SUCCESS : output_fail_status(command, status, &err);
    if (status == MR_OK && a->json)
        end = output_json(command, curve_json(&curve, first_step), JSON_INDENT(1));
    free(curve.point);
    return end;
}

int command_distill(int argc, char **argv)
{
    struct distill_arguments a = {.type = 1,
                                  .heads_count = 3,
                                  .tokens = 512,
                                  .batch = 2,
                                  .accumulate = 4,
                                  .held_out = 8,
                                  .top_k = 32,
                                  .steps = 1000,
                                  .warmup = 50,
                                  .checkpoint_every = 100,
                                  .report_every = 10,
                                  .measure_every = 100,
                                  .rate = 5e-4f,
                                  .floor = 0.1f,
                                  .decay = 0.1f,
                                  .clip = 1,
                                  .ce = -1,
                                  .kl = -1,
                                  .hidden = -1,
                                  .temperature = 1,
                                  .memory = (size_t)4 << 30};
    const struct argument_group groups[] = {
        {"Models and text:", model_rows, &a}, {"Loss:", loss_rows_of, &a}, {"Training:", training_rows, &a}};
    const struct command_line line = {
        .summary = "Train a model on a text, with a teacher that knows it better: a pruned model learns again what it lost, a "
                   "small one what a large one says. In f32 or bf16 on the CPU.",
        .example =
            "  millrace distill -m pruned.gguf --teacher models/SmolLM2-135M-Instruct.Q4_1.gguf -f text.txt \\\n"
            "      -o student.gguf --checkpoint run.ckpt --teacher-cache teacher.cache\n"
            "  millrace distill -m models/SmolLM2-135M-Instruct.Q4_1.gguf -f text.txt -o heads.gguf --heads medusa\n"
            "  millrace distill -m models/SmolLM2-135M-Instruct.Q4_1.gguf -f text.txt -o adapter.gguf --lora 16 --rate 2e-4",
        .group = groups,
        .n_groups = 3};
    const int stop = arguments_parse(argc, argv, &line);
    if (stop != ARGUMENTS_GO_ON)
        return stop;
    if (a.student == NULL)
        return arguments_fail(argv[0], "-m, --model: a student is required");
    if (a.file == NULL)
        return arguments_fail(argv[0], "-f, --file: a text is required");
    if (a.out == NULL)
        return arguments_fail(argv[0], "-o, --output: a file is required");
    if (a.lora == 0 && (a.lora_targets != NULL || a.lora_alpha > 0))
        return arguments_fail(argv[0], "--lora-targets and --lora-alpha go with --lora RANK");
    interrupt_install();
    return run(&a, argv[0]);
}
