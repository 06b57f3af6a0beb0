/* pool_thread.c: the thread of a pool: it waits for the sockets, and takes what the processes say. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/status.h"
#include "server/pool_state.h"

enum {
    LOOK_MS = 100 /* while there is something to try again */
};

void pool_wake(const struct engine_pool *p) { eventfd_write(p->wake_fd, 1); }

static enum mr_status take_hello(struct pool_engine *e, const void *payload, size_t n, struct mr_error *err)
{
    struct frame_hello ours;
    frame_hello_make(&ours);
    if (n != sizeof ours || memcmp(payload, &ours, sizeof ours) != 0)
        return mr_fail(err, MR_BAD_FORMAT, "an engine process is of another version: the program was replaced, start it again");
    e->has_hello = true;
    return MR_OK;
}

static enum mr_status take_opened(struct engine_pool *p, struct pool_engine *e, struct mr_error *err)
{
    if (e->phase != POOL_OPENING)
        return mr_fail(err, MR_BAD_FORMAT, "an engine process opened its model twice");
    e->phase = POOL_STANDBY;
    if (e->index < 0) {
        p->n_failed = 0;
        return MR_OK;
    }
    if (frame_push(&e->out, FRAME_BEGIN, 0, e->index, 0) == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an engine process");
    e->phase = POOL_BEGINNING;
    return MR_OK;
}

static enum mr_status take_ready(struct engine_pool *p, struct pool_engine *e, int64_t n_ctx, struct mr_error *err)
{
    if (e->phase != POOL_BEGINNING || n_ctx < 1 || n_ctx > INT32_MAX || (p->n_ctx != 0 && n_ctx != p->n_ctx))
        return mr_fail(err, MR_BAD_FORMAT, "an engine process is ready with a context of %lld tokens", (long long)n_ctx);
    e->phase = POOL_ACTIVE;
    p->n_ctx = (int32_t)n_ctx;
    p->n_failed = 0;
    if (e->for_us > 0)
        p->counts.take_over_us = clock_us() - e->for_us;
    if (!pool_tell_orders(p, e))
        return mr_fail(err, MR_NO_MEMORY, "no memory for an engine process");
    pthread_cond_broadcast(&p->changed);
    pool_assign_waiting(p);
    pool_fill(p, clock_us());
    return MR_OK;
}

static enum mr_status take_stats(struct engine_pool *p, struct pool_engine *e, const void *payload, size_t n,
                                 struct mr_error *err)
{
    struct mr_engine_stats all, mine;
    if (n != sizeof mine)
        return mr_fail(err, MR_BAD_FORMAT, "an engine process tells no statistics");
    memcpy(&mine, payload, sizeof mine);
    if ((unsigned)mine.tier >= MR_N_TIERS || mine.n_steps < e->stats.n_steps || mine.n_running < 0 || mine.n_waiting < 0)
        return mr_fail(err, MR_BAD_FORMAT, "an engine process tells wrong statistics");
    const bool is_step = mine.n_steps > e->stats.n_steps;
    e->stats = mine;
    pool_stats(p, &all);
    if (is_step && p->stepped != NULL)
        p->stepped(p->context, &all);
    return MR_OK;
}

/* What it says itself of its end. */
static enum mr_status take_failure(struct pool_engine *e, const struct frame_head *head, const char *message,
                                   struct mr_error *err)
{
    const bool is_status = head->value > MR_OK && head->value <= MR_BUSY;
    e->failure_status = is_status ? (enum mr_status)head->value : MR_IO;
    return mr_fail(err, e->failure_status, "%.*s", head->bytes < MR_ERROR_MAX ? (int)head->bytes : MR_ERROR_MAX, message);
}

static enum mr_status take_frame(struct engine_pool *p, int slot, const struct frame_head *head, const void *payload,
                                 struct mr_error *err)
{
    struct pool_engine *e = &p->engine[slot];
    const size_t n = (size_t)head->bytes;
    enum mr_status status;
    if (!e->has_hello)
        return head->kind == FRAME_HELLO ? take_hello(e, payload, n, err)
                                         : mr_fail(err, MR_BAD_FORMAT, "an engine process does not say what it is");
    switch ((enum frame_kind)head->kind) {
    case FRAME_OPENED:
        return take_opened(p, e, err);
    case FRAME_READY:
        return take_ready(p, e, head->value, err);
    case FRAME_FAILED:
        return take_failure(e, head, payload, err);
    case FRAME_EVENT:
        pool_take_event(p, slot, head, payload, &status, err);
        return status;
    case FRAME_STATS:
        return take_stats(p, e, payload, n, err);
    case FRAME_DONE:
        pool_take_done(p, e, head, payload);
        return MR_OK;
    case FRAME_HELLO:
    case FRAME_CONFIG:
    case FRAME_BEGIN:
    case FRAME_REQUEST:
    case FRAME_CANCEL:
    case FRAME_ORDER:
    case FRAME_KIND_END:
        break;
    }
    return mr_fail(err, MR_BAD_FORMAT, "a frame of kind %d is not for the server", head->kind);
}

static enum mr_status take_frames(struct engine_pool *p, int slot, struct mr_error *err)
{
    struct frame_head head;
    const void *payload;
    enum mr_status status;
    while ((status = frame_next(&p->engine[slot].in, &head, &payload, err)) == MR_OK)
        MR_TRY(take_frame(p, slot, &head, payload, err));
    return status == MR_NOT_FOUND ? MR_OK : status;
}

static void serve(struct engine_pool *p, int slot, short told)
{
    struct pool_engine *e = &p->engine[slot];
    struct mr_error err = {{0}};
    enum mr_status status = MR_OK;
    if (told & (POLLIN | POLLHUP | POLLERR)) {
        status = frame_receive(&e->in, e->fd, &err);
        if (status == MR_OK)
            status = take_frames(p, slot, &err);
    }
    if (status != MR_OK)
        pool_lose(p, slot, err.message);
}

static void send_all(struct engine_pool *p)
{
    struct mr_error err = {{0}};
    for (int i = 0; i < p->n_engine; i++)
        if (p->engine[i].phase != POOL_FREE && frame_send(&p->engine[i].out, p->engine[i].fd, &err) != MR_OK)
            pool_lose(p, i, err.message);
}

/* fd[0] is that of wakes, slot[i] belongs to fd[i + 1]. */
static nfds_t list_fds(const struct engine_pool *p, struct pollfd *fd, int *slot)
{
    nfds_t n = 0;
    fd[0] = (struct pollfd){.fd = p->wake_fd, .events = POLLIN};
    for (int i = 0; i < p->n_engine; i++) {
        const struct pool_engine *e = &p->engine[i];
        if (e->phase == POOL_FREE)
            continue;
        slot[n++] = i;
        fd[n] = (struct pollfd){.fd = e->fd, .events = (short)(POLLIN | (frame_buffer_is_empty(&e->out) ? 0 : POLLOUT))};
    }
    return n + 1;
}

static bool has_to_look(const struct engine_pool *p)
{
    return p->n_corpse > 0 || p->n_waiting > 0 || pool_n_living(p) != p->options.config.n_active + p->options.n_standby;
}

void *pool_thread_run(void *context)
{
    struct engine_pool *p = context;
    struct pollfd fd[POOL_ENGINES_MAX + 1];
    int slot[POOL_ENGINES_MAX];
    eventfd_t n;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        pool_bury(p);
        pool_fill(p, clock_us());
        pool_assign_waiting(p);
        if (p->n_failed >= POOL_FAILURES_MAX)
            pool_fail_waiting(p);
        send_all(p);
        const nfds_t n_fd = list_fds(p, fd, slot);
        const int timeout_ms = has_to_look(p) ? LOOK_MS : -1;
        if (!record_queue_is_empty(&p->events))
            eventfd_write(p->event_fd, 1);
        pthread_mutex_unlock(&p->lock);
        const int n_told = poll(fd, n_fd, timeout_ms);
        pthread_mutex_lock(&p->lock);
        if (n_told > 0 && fd[0].revents != 0)
            (void)eventfd_read(p->wake_fd, &n);
        for (nfds_t i = 1; n_told > 0 && i < n_fd; i++)
            if (fd[i].revents != 0 && p->engine[slot[i - 1]].fd == fd[i].fd)
                serve(p, slot[i - 1], fd[i].revents);
    }
    pool_end(p);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
