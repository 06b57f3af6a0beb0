/* ops_cpu.c: the cpu back end: memory, and rows over threads. */
#include "ops/ops_cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cpu.h"
#include "base/memory.h"

enum {
    HUGE_PAGE = 2 << 20
};

enum mr_status cpu_buffer_create(struct device *d, struct buffer **out, size_t bytes, struct mr_error *err)
{
    *out = NULL;
    struct cpu_buffer *b = calloc(1, sizeof *b);
    if (b == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a buffer");
    void *memory =
        mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(b);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a buffer of %zu bytes", bytes);
    }
    if (bytes >= HUGE_PAGE)
        madvise(memory, bytes, MADV_HUGEPAGE); /* fewer misses of the TLB; a refusal does no harm */
    *b = (struct cpu_buffer){.buffer = {.device = d, .bytes = bytes}, .memory = memory};
    *out = &b->buffer;
    return MR_OK;
}

enum mr_status cpu_buffer_borrow(struct device *d, struct buffer **out, const void *memory, size_t bytes, struct mr_error *err)
{
    struct cpu_buffer *b = calloc(1, sizeof *b);
    *out = NULL;
    if (b == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a buffer");
    *b = (struct cpu_buffer){.buffer = {.device = d, .bytes = bytes}, .memory = (char *)(uintptr_t)memory, .borrowed = true};
    *out = &b->buffer;
    return MR_OK;
}

void cpu_buffer_free(struct buffer *b)
{
    if (b == NULL)
        return;
    if (!((struct cpu_buffer *)b)->borrowed)
        munmap(((struct cpu_buffer *)b)->memory, b->bytes > 0 ? b->bytes : 1);
    free(b);
}

void cpu_upload(struct device *d, const struct tensor *to, const float *from)
{
    (void)d;
    const size_t n = (size_t)to->n_col;
    for (int r = 0; r < to->n_row; r++)
        memcpy(cpu_row(to, r), from + (size_t)r * n, n * sizeof *from);
}

void cpu_download(struct device *d, float *to, const struct tensor *from)
{
    (void)d;
    const size_t n = (size_t)from->n_col;
    for (int r = 0; r < from->n_row; r++)
        memcpy(to + (size_t)r * n, cpu_row(from, r), n * sizeof *to);
}

void cpu_move(struct device *d, struct buffer *b, size_t to, size_t from, size_t bytes)
{
    (void)d;
    memmove(cpu_address(b, to), cpu_address(b, from), bytes);
}

void cpu_read(struct device *d, void *to, const struct buffer *b, size_t from, size_t bytes)
{
    (void)d;
    memcpy(to, cpu_address(b, from), bytes);
}

void cpu_write(struct device *d, struct buffer *b, size_t to, const void *from, size_t bytes)
{
    (void)d;
    memcpy(cpu_address(b, to), from, bytes);
}

struct row_pieces {
    struct cpu_device *device;
    cpu_rows_fn *f;
    const void *context;
    int n_row;
    int n_piece;
};

static void run_row_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct row_pieces *p = context;
    const int first = (int)((int64_t)p->n_row * piece / p->n_piece), end = (int)((int64_t)p->n_row * (piece + 1) / p->n_piece);
    p->f(p->device, p->context, first, end);
}

void cpu_for_rows(struct cpu_device *d, cpu_rows_fn *f, const void *context, int n_row, int row_work)
{
    const int64_t work = (int64_t)n_row * row_work, most = work / CPU_MIN_WORK, least = work / CPU_MAX_WORK,
                  wanted = 4 * (int64_t)d->n_thread > least ? 4 * (int64_t)d->n_thread : least;
    int64_t n_piece = most < wanted ? most : wanted;
    n_piece = n_piece < n_row ? n_piece : n_row;
    struct row_pieces p = {d, f, context, n_row, n_piece > 1 ? (int)n_piece : 1};
    pool_run(d->pool, run_row_piece, &p, p.n_piece);
}

void cpu_quantize_rows(struct cpu_device *d, const struct activation_view *x, int first, int end)
{
    if (x->q8.buffer == NULL)
        return;
    for (int r = first; r < end; r++)
        d->kernels.quantize_q8(cpu_row(&x->q8, r), cpu_row(&x->f32, r), x->f32.n_col);
    const int32_t *fine = cpu_fine_rows(x);
    for (int i = cpu_lower_bound(fine, x->q8_rest.n_row, first); i < x->q8_rest.n_row && fine[i] < end; i++) {
        const int r = fine[i];
        d->kernels.quantize_q8_rest(cpu_row(&x->q8_rest, i), cpu_row(&x->q8, r), cpu_row(&x->f32, r), x->f32.n_col);
    }
}

static void enter_layer(struct device *d, int layer)
{
    (void)d;
    (void)layer;
}

static const struct ops cpu_ops = {
    .enter_layer = enter_layer,
    .buffer_create = cpu_buffer_create,
    .buffer_borrow = cpu_buffer_borrow,
    .buffer_free = cpu_buffer_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .move = cpu_move,
    .read = cpu_read,
    .write = cpu_write,
    .weight_plan = cpu_weight_plan,
    .weight_pack = cpu_weight_pack,
    .weight_kernel_name = cpu_weight_kernel_name,
    .embed = cpu_embed,
    .gather_rows = cpu_gather_rows,
    .norm = cpu_norm,
    .quantize = cpu_quantize,
    .matmul = cpu_matmul,
    .rope_angles = cpu_rope_angles,
    .rope_store = cpu_rope_store,
    .attention = cpu_attention,
    .glu = cpu_glu,
    .soft_cap = cpu_soft_cap,
    .is_finite = cpu_is_finite,
    .route = cpu_route,
    .gather_slots = cpu_gather_slots,
    .matmul_experts = cpu_matmul_experts,
    .mix_experts = cpu_mix_experts,
};

enum mr_status cpu_device_create(struct device **out, struct thread_pool *pool, unsigned cpu_features, struct mr_error *err)
{
    *out = NULL;
    struct cpu_device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the cpu device");
    d->device = (struct device){.ops = &d->ops, .name = "cpu", .multiplies_bf16 = (cpu_features & CPU_AVX512_BF16) != 0};
    d->ops = cpu_ops;
    d->pool = pool;
    d->n_thread = pool_n_thread(pool);
    kernels_select(&d->kernels, cpu_features);
    d->attention = mem_aligned(64, (size_t)d->n_thread * sizeof *d->attention);
    d->partial = mem_aligned(64, CPU_PARTIAL_FLOATS * sizeof *d->partial);
    d->rest = mem_aligned(64, (size_t)d->n_thread * CPU_REST_ROWS * CPU_REST_OUTS * sizeof *d->rest);
    d->gather = mem_aligned(64, (size_t)d->n_thread * CPU_GATHER_FLOATS * sizeof *d->gather);
    if (d->attention == NULL || d->partial == NULL || d->rest == NULL || d->gather == NULL) {
        cpu_device_free(&d->device);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the cpu device");
    }
    *out = &d->device;
    return MR_OK;
}

void cpu_device_set_fusion(struct device *device, bool on)
{
    device->unfused = !on;
    cpu_of(device)->ops = cpu_ops;
    if (!on)
        cpu_ops_unfuse(&cpu_of(device)->ops);
}

void cpu_device_set_tiling(struct device *device, bool on) { cpu_of(device)->untiled = !on; }

void cpu_device_free(struct device *device)
{
    if (device == NULL)
        return;
    struct cpu_device *d = cpu_of(device);
    free(d->attention);
    free(d->partial);
    free(d->rest);
    free(d->gather);
    free(d);
}

const char *cpu_device_isa(const struct device *device) { return ((const struct cpu_device *)device)->kernels.isa; }
