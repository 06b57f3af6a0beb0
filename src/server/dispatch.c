/* dispatch.c: one thread in epoll_wait. It holds its own lock only to look exchanges up, never while it works on one. */
#include "server/dispatch.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread_start.h"
#include "server/connections.h"
#include "server/engine_link.h"
#include "server/exchange_state.h"
#include "server/id_map.h"

enum {
    LINKS_MAX = 64,
    EVENTS_AT_ONCE = 64,
    TICK_MS = 1000
};

/* What epoll tells: an exchange's serial number, counted from FIRST_SERIAL on, a link's index, or this. */
enum {
    WAKE = LINKS_MAX,
    FIRST_SERIAL
};

struct dispatch {
    pthread_t thread;
    int epoll_fd, wake_fd;
    pthread_mutex_t link_lock; /* of link; taken before an exchange's lock */
    struct engine_link *link[LINKS_MAX];
    pthread_mutex_t lock; /* of what follows */
    struct id_map exchanges;
    uint64_t last_serial;
    struct connections *connections;
    bool stop, is_closed;
};

static bool watch(const struct dispatch *d, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event event = {.events = events, .data = {.u64 = what}};
    return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Held for the caller; NULL: not there any more. */
static struct exchange *find(struct dispatch *d, uint64_t serial)
{
    pthread_mutex_lock(&d->lock);
    struct exchange *x = id_map_find(&d->exchanges, serial);
    if (x != NULL)
        exchange_hold(x);
    pthread_mutex_unlock(&d->lock);
    return x;
}

static void take_events(struct dispatch *d, struct engine_link *l)
{
    struct mr_event event;
    int64_t retry_after_ms;
    while (engine_link_next_event(l, &event, &retry_after_ms)) {
        struct exchange *x = find(d, event.request >> DISPATCH_REQUEST_BITS);
        if (x == NULL)
            continue;
        pthread_mutex_lock(&x->lock);
        exchange_take_event(x, (int)(event.request & ((1u << DISPATCH_REQUEST_BITS) - 1)), &event, retry_after_ms);
        pthread_mutex_unlock(&x->lock);
        exchange_drop(x);
    }
}

static void take_events_of(struct dispatch *d, int i)
{
    pthread_mutex_lock(&d->link_lock);
    if (d->link[i] != NULL)
        take_events(d, d->link[i]);
    pthread_mutex_unlock(&d->link_lock);
}

void dispatch_leave(struct dispatch *d, uint64_t serial)
{
    struct exchange *x = find(d, serial);
    if (x == NULL)
        return;
    pthread_mutex_lock(&x->lock);
    exchange_leave(x);
    pthread_mutex_unlock(&x->lock);
    exchange_drop(x);
}

/* All exchanges, held; *n of them. Where memory is short there are none: the next tick comes. */
static struct exchange **hold_all(struct dispatch *d, size_t *n)
{
    *n = 0;
    pthread_mutex_lock(&d->lock);
    struct exchange **all = mem_array(d->exchanges.n, sizeof(struct exchange *));
    for (size_t i = 0; all != NULL && i < d->exchanges.capacity; i++) {
        if (d->exchanges.entry[i].id == 0)
            continue;
        all[*n] = d->exchanges.entry[i].value;
        exchange_hold(all[(*n)++]);
    }
    pthread_mutex_unlock(&d->lock);
    return all;
}

void dispatch_each(struct dispatch *d, void (*fn)(struct exchange *x))
{
    size_t n;
    struct exchange **all = hold_all(d, &n);
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&all[i]->lock);
        fn(all[i]);
        pthread_mutex_unlock(&all[i]->lock);
        exchange_drop(all[i]);
    }
    free(all);
}

static void tick_one(struct exchange *x) { exchange_tick(x, clock_us()); }

/* Returns whether there is anything to keep time for. */
static bool tick(struct dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    const bool any = d->connections != NULL && connections_expire(d->connections, clock_us());
    const bool generates = d->exchanges.n > 0;
    pthread_mutex_unlock(&d->lock);
    if (generates)
        dispatch_each(d, tick_one);
    return any || generates;
}

static void take_told(struct dispatch *d, const struct epoll_event *event)
{
    eventfd_t n;
    const uint64_t what = event->data.u64;
    if (what == WAKE)
        (void)eventfd_read(d->wake_fd, &n);
    else if (what < LINKS_MAX)
        take_events_of(d, (int)what);
    else
        dispatch_leave(d, what);
}

static void *run(void *context)
{
    struct dispatch *d = context;
    struct epoll_event told[EVENTS_AT_ONCE];
    int64_t next_us = 0;
    bool is_busy = true;
    for (;;) {
        const int n = epoll_wait(d->epoll_fd, told, EVENTS_AT_ONCE, is_busy ? TICK_MS : -1);
        for (int i = 0; i < n; i++)
            take_told(d, &told[i]);
        pthread_mutex_lock(&d->lock);
        const bool stop = d->stop;
        pthread_mutex_unlock(&d->lock);
        if (stop)
            return NULL;
        const int64_t now = clock_us();
        if (is_busy && now < next_us)
            continue;
        next_us = now + TICK_MS * 1000;
        is_busy = tick(d);
    }
}

enum mr_status dispatch_create(struct dispatch **out, struct mr_error *err)
{
    *out = NULL;
    struct dispatch *d = mem_zero_array(1, sizeof *d);
    if (d == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the server");
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->link_lock, NULL);
    d->last_serial = FIRST_SERIAL - 1;
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    d->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (d->epoll_fd >= 0 && d->wake_fd >= 0 && watch(d, d->wake_fd, EPOLLIN, WAKE) && thread_start(&d->thread, run, d)) {
        *out = d;
        return MR_OK;
    }
    if (d->epoll_fd >= 0)
        close(d->epoll_fd);
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    free(d);
    return mr_fail(err, MR_NO_MEMORY, "the thread of events could not be started");
}

void dispatch_free(struct dispatch *d)
{
    if (d == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_mutex_unlock(&d->lock);
    dispatch_wake(d);
    pthread_join(d->thread, NULL);
    id_map_release(&d->exchanges);
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->link_lock);
    close(d->epoll_fd);
    close(d->wake_fd);
    free(d);
}

enum mr_status dispatch_add_link(struct dispatch *d, struct engine_link *l, struct mr_error *err)
{
    int i = 0;
    pthread_mutex_lock(&d->link_lock);
    while (i < LINKS_MAX && d->link[i] != NULL)
        i++;
    if (i < LINKS_MAX)
        d->link[i] = l;
    pthread_mutex_unlock(&d->link_lock);
    if (i == LINKS_MAX)
        return mr_fail(err, MR_NO_SUPPORT, "more than %d engines", LINKS_MAX);
    return watch(d, engine_link_event_fd(l), EPOLLIN, (uint64_t)i) ? MR_OK : mr_fail(err, MR_IO, "an engine cannot be watched");
}

void dispatch_remove_link(struct dispatch *d, struct engine_link *l)
{
    if (l == NULL)
        return;
    epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, engine_link_event_fd(l), NULL);
    pthread_mutex_lock(&d->link_lock);
    for (int i = 0; i < LINKS_MAX; i++)
        if (d->link[i] == l)
            d->link[i] = NULL;
    pthread_mutex_unlock(&d->link_lock);
}

void dispatch_set_connections(struct dispatch *d, struct connections *c)
{
    pthread_mutex_lock(&d->lock);
    d->connections = c;
    pthread_mutex_unlock(&d->lock);
}

void dispatch_wake(struct dispatch *d) { eventfd_write(d->wake_fd, 1); }

enum mr_status dispatch_add(struct dispatch *d, struct exchange *x)
{
    if (x->is_watched)
        return MR_OK;
    pthread_mutex_lock(&d->lock);
    const bool was_empty = d->exchanges.n == 0;
    x->serial = ++d->last_serial;
    x->is_watched = !d->is_closed && id_map_add(&d->exchanges, x->serial, x);
    pthread_mutex_unlock(&d->lock);
    if (!x->is_watched)
        return MR_NO_MEMORY;
    exchange_hold(x);
    if (x->fd >= 0)
        watch(d, x->fd, EPOLLRDHUP | EPOLLONESHOT, x->serial);
    if (was_empty)
        dispatch_wake(d);
    return MR_OK;
}

void dispatch_remove(struct dispatch *d, struct exchange *x)
{
    if (!x->is_watched)
        return;
    x->is_watched = false;
    if (x->fd >= 0)
        epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, x->fd, NULL);
    pthread_mutex_lock(&d->lock);
    id_map_remove(&d->exchanges, x->serial);
    pthread_mutex_unlock(&d->lock);
    exchange_drop(x); /* whoever calls holds it, too */
}

void dispatch_close(struct dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    d->is_closed = true;
    pthread_mutex_unlock(&d->lock);
}

int dispatch_n_exchanges(struct dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    const int n = (int)d->exchanges.n;
    pthread_mutex_unlock(&d->lock);
    return n;
}
