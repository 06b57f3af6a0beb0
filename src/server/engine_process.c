/* engine_process.c: one thread between the socket and the engine's queues. */
#include "server/engine_process.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/cpu_share.h"
#include "server/engine_config.h"
#include "server/engine_link.h"
#include "server/frame.h"
#include "server/wire.h"

enum {
    OUT_BYTES_MAX = 8 << 20 /* events wait in the engine's queue beyond it */
};

struct engine_process {
    int fd, step_fd; /* step_fd: a step was done */
    struct frame_buffer in, out;
    char *record; /* of the config, which borrows it */
    struct engine_config config;
    struct mr_model *model;
    struct engine_link *link;
    struct mr_engine_stats told;
    struct process_adapter {
        int32_t pools, own; /* ids */
    } * adapter;            /* n_adapter of them */
    int n_adapter;
    size_t adapter_capacity;
};

static enum mr_status push(struct engine_process *p, enum frame_kind kind, uint64_t ticket, int64_t value, const void *payload,
                           size_t n, struct mr_error *err)
{
    void *to = frame_push(&p->out, kind, ticket, value, n);
    if (to == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for what an engine process says");
    if (n > 0)
        memcpy(to, payload, n);
    return MR_OK;
}

static enum mr_status open_model(struct engine_process *p, const void *payload, size_t n, struct mr_error *err)
{
    if (p->model != NULL)
        return mr_fail(err, MR_BAD_FORMAT, "a model is open already");
    p->record = mem_array(n, 1);
    if (p->record == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the engine's options");
    memcpy(p->record, payload, n);
    MR_TRY(engine_config_read(&p->config, p->record, n, err));
    MR_TRY(mr_model_open(&p->model, p->config.path, &p->config.options, err));
    return push(p, FRAME_OPENED, 0, 0, NULL, 0, err);
}

static void see_step(void *context, const struct mr_engine_stats *stats)
{
    const struct engine_process *p = context;
    (void)stats;
    eventfd_write(p->step_fd, 1);
}

static enum mr_status begin(struct engine_process *p, int64_t index, struct mr_error *err)
{
    if (p->model == NULL || p->link != NULL || index < 0 || index >= p->config.n_active)
        return mr_fail(err, MR_BAD_FORMAT, "there is nothing to begin");
    cpu_share_take((int)index, p->config.n_active);
    if (p->config.mlock && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
        return mr_fail(err, MR_NO_SUPPORT, "mlock: %s; the limit is that of ulimit -l", strerror(errno));
    MR_TRY(warm_engine_create(&p->link, p->model, &p->config.options, &p->config.pins, err));
    engine_link_set_observer(p->link, see_step, p);
    return push(p, FRAME_READY, 0, engine_link_n_ctx(p->link), NULL, 0, err);
}

/* -1: none has this id of the pool's. */
static int find_adapter(const struct engine_process *p, int32_t id)
{
    int i = p->n_adapter - 1;
    while (i >= 0 && p->adapter[i].pools != id)
        i--;
    return i;
}

static enum mr_status submit(struct engine_process *p, uint64_t ticket, const void *record, size_t n, struct mr_error *err)
{
    struct wire_request request;
    struct mr_adapter_use use[MR_ADAPTERS_MAX];
    if (p->link == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "a request came before the engine was there");
    MR_TRY(wire_request_check(record, n, err));
    wire_request_read(&request, record);
    for (int32_t i = 0; i < request.request.n_adapter; i++) {
        const int found = find_adapter(p, request.request.adapter[i].adapter);
        use[i] = request.request.adapter[i];
        use[i].adapter = found >= 0 ? p->adapter[found].own : INT32_MAX; /* which nobody has */
    }
    request.request.adapter = use;
    return engine_link_submit(p->link, ticket, &request.request, err);
}

/* The order with ids of this process. */
static enum mr_status obey_order(struct engine_process *p, struct engine_order *o, struct mr_error *err)
{
    const int32_t id = o->adapter;
    const int found = find_adapter(p, id);
    o->model = p->model;
    if (o->kind == ENGINE_ORDER_LOAD_ADAPTER) {
        if (!mem_grow(&p->adapter, &p->adapter_capacity, (size_t)p->n_adapter + 1, sizeof *p->adapter))
            return mr_fail(err, MR_NO_MEMORY, "no memory for an adapter");
        MR_TRY(engine_link_order(p->link, o, err));
        p->adapter[p->n_adapter++] = (struct process_adapter){.pools = id, .own = o->adapter};
        return MR_OK;
    }
    if (o->kind == ENGINE_ORDER_UNLOAD_ADAPTER) {
        if (found < 0)
            return MR_OK; /* it could not be loaded */
        o->adapter = p->adapter[found].own;
        p->adapter[found] = p->adapter[--p->n_adapter];
    }
    return engine_link_order(p->link, o, err);
}

static enum mr_status take_order(struct engine_process *p, uint64_t serial, const void *record, size_t n, struct mr_error *err)
{
    struct engine_order o;
    struct mr_error why = {{0}};
    if (p->link == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "an order came before the engine was there");
    MR_TRY(engine_order_read(&o, record, n, err));
    const enum mr_status status = obey_order(p, &o, &why);
    return push(p, FRAME_DONE, serial, (int64_t)status, why.message, status == MR_OK ? 0 : strlen(why.message), err);
}

static enum mr_status obey(struct engine_process *p, const struct frame_head *head, const void *payload, struct mr_error *err)
{
    switch ((enum frame_kind)head->kind) {
    case FRAME_CONFIG:
        return open_model(p, payload, (size_t)head->bytes, err);
    case FRAME_BEGIN:
        return begin(p, head->value, err);
    case FRAME_REQUEST:
        return submit(p, head->ticket, payload, (size_t)head->bytes, err);
    case FRAME_CANCEL:
        if (p->link != NULL)
            engine_link_cancel(p->link, head->ticket);
        return MR_OK;
    case FRAME_ORDER:
        return take_order(p, head->ticket, payload, (size_t)head->bytes, err);
    case FRAME_HELLO:
    case FRAME_OPENED:
    case FRAME_READY:
    case FRAME_FAILED:
    case FRAME_EVENT:
    case FRAME_STATS:
    case FRAME_DONE:
    case FRAME_KIND_END:
        break;
    }
    return mr_fail(err, MR_BAD_FORMAT, "a frame of kind %d is not for an engine", head->kind);
}

static enum mr_status obey_all(struct engine_process *p, struct mr_error *err)
{
    struct frame_head head;
    const void *payload;
    enum mr_status status;
    while ((status = frame_next(&p->in, &head, &payload, err)) == MR_OK)
        MR_TRY(obey(p, &head, payload, err));
    return status == MR_NOT_FOUND ? MR_OK : status;
}

static enum mr_status tell_events(struct engine_process *p, struct mr_error *err)
{
    struct mr_event event;
    int64_t retry_after_ms;
    while (p->out.tail - p->out.head < OUT_BYTES_MAX && engine_link_next_event(p->link, &event, &retry_after_ms)) {
        void *to = frame_push(&p->out, FRAME_EVENT, event.request, retry_after_ms, wire_event_bytes(&event));
        if (to == NULL)
            return mr_fail(err, MR_NO_MEMORY, "no memory for an event");
        wire_event_write(to, &event);
    }
    return MR_OK;
}

/* Behind the events, so that who has heard of the end of an answer soon knows that it does not run any more. */
static enum mr_status tell_stats(struct engine_process *p, struct mr_error *err)
{
    struct mr_engine_stats stats;
    eventfd_t n;
    (void)eventfd_read(p->step_fd, &n);
    engine_link_stats(p->link, &stats);
    if (memcmp(&stats, &p->told, sizeof stats) == 0)
        return MR_OK;
    p->told = stats;
    return push(p, FRAME_STATS, 0, 0, &stats, sizeof stats, err);
}

static enum mr_status go_on(struct engine_process *p, struct mr_error *err)
{
    const bool is_full = p->out.tail - p->out.head >= OUT_BYTES_MAX;
    struct pollfd fd[] = {
        {.fd = p->fd, .events = (short)(POLLIN | (frame_buffer_is_empty(&p->out) ? 0 : POLLOUT))},
        {.fd = p->link != NULL && !is_full ? engine_link_event_fd(p->link) : -1, .events = POLLIN},
        {.fd = p->link != NULL && !is_full ? p->step_fd : -1, .events = POLLIN},
    };
    if (poll(fd, sizeof fd / sizeof *fd, -1) < 0)
        return errno == EINTR ? MR_OK : mr_fail(err, MR_IO, "an engine process cannot wait: %s", strerror(errno));
    if (fd[0].revents & (POLLIN | POLLHUP | POLLERR)) {
        MR_TRY(frame_receive(&p->in, p->fd, err));
        MR_TRY(obey_all(p, err));
    }
    if (p->link != NULL) {
        MR_TRY(tell_events(p, err));
        MR_TRY(tell_stats(p, err));
    }
    return frame_send(&p->out, p->fd, err);
}

static enum mr_status run(struct engine_process *p, struct mr_error *err)
{
    struct frame_hello hello;
    frame_hello_make(&hello);
    MR_TRY(push(p, FRAME_HELLO, 0, 0, &hello, sizeof hello, err));
    enum mr_status status;
    while ((status = go_on(p, err)) == MR_OK)
        ;
    return status;
}

/* The server hears why, if it still listens. */
static void tell_failure(struct engine_process *p, enum mr_status status, const struct mr_error *err)
{
    if (push(p, FRAME_FAILED, 0, (int64_t)status, err->message, strlen(err->message), NULL) == MR_OK)
        frame_send(&p->out, p->fd, NULL);
}

enum mr_status engine_process_run(int fd, struct mr_error *err)
{
    struct engine_process p = {.fd = fd, .step_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    enum mr_status status = p.step_fd >= 0 ? run(&p, err) : mr_fail(err, MR_NO_MEMORY, "the engine process has no descriptors");
    if (status != MR_IO || p.link == NULL) /* else the server has gone */
        tell_failure(&p, status, err);
    engine_link_free(p.link);
    mr_model_close(p.model);
    engine_config_release(&p.config);
    free(p.record);
    free(p.adapter);
    frame_buffer_release(&p.in);
    frame_buffer_release(&p.out);
    if (p.step_fd >= 0)
        close(p.step_fd);
    return status;
}
