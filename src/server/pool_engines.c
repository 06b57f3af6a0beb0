/* pool_engines.c: processes start, take their places, and die. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/engine_spawn.h"
#include "server/pool_state.h"

enum {
    RETRY_US = 200000, /* after the first start that failed; twice as long after each more */
    RETRY_DOUBLINGS_MAX = 5,
    END_MS = 2000 /* for a process to end by itself */
};

/* Counts only grow; what is as it is now goes with the process. */
static void add_counts(struct mr_engine_stats *sum, const struct mr_engine_stats *s)
{
    sum->n_steps += s->n_steps;
    sum->step_us += s->step_us;
    sum->n_decode_rows += s->n_decode_rows;
    sum->n_prompt_rows += s->n_prompt_rows;
    sum->n_draft_rows += s->n_draft_rows;
    sum->guess_us += s->guess_us;
    sum->n_drafts_accepted += s->n_drafts_accepted;
    for (int i = 0; i < MR_N_SPECULATIONS; i++) {
        sum->drafts[i].n_drafted += s->drafts[i].n_drafted;
        sum->drafts[i].n_accepted += s->drafts[i].n_accepted;
    }
    sum->n_redone_rows += s->n_redone_rows;
    sum->n_preempted += s->n_preempted;
    sum->kv_bytes_copied += s->kv_bytes_copied;
    sum->n_looked_up += s->n_looked_up;
    sum->n_found += s->n_found;
    sum->n_refused += s->n_refused;
    sum->n_from_store += s->n_from_store;
    sum->n_exported += s->n_exported;
    sum->n_restored += s->n_restored;
    sum->n_resumed += s->n_resumed;
    sum->n_tier_damaged += s->n_tier_damaged;
    sum->n_tier_dropped += s->n_tier_dropped;
}

/* The process is gone, or goes, and its place is free. */
static void clear_slot(struct engine_pool *p, int slot)
{
    struct pool_engine *e = &p->engine[slot];
    kill(e->pid, SIGKILL);
    if (mem_grow(&p->corpse, &p->corpse_capacity, p->n_corpse + 1, sizeof *p->corpse))
        p->corpse[p->n_corpse++] = e->pid;
    else
        waitpid(e->pid, NULL, 0);
    close(e->fd);
    frame_buffer_release(&e->in);
    frame_buffer_release(&e->out);
    add_counts(&p->gone, &e->stats);
    e->stats = (struct mr_engine_stats){0};
    pool_drop_order(p, e);
    e->phase = POOL_FREE;
    e->retires = false;
    e->index = e->fd = -1;
}

/* -1: none. */
static int find(const struct engine_pool *p, enum pool_phase phase, int index)
{
    for (int i = 0; i < p->n_engine; i++)
        if (p->engine[i].phase == phase && p->engine[i].index == index)
            return i;
    return -1;
}

static bool has_index(const struct engine_pool *p, int index)
{
    for (int i = 0; i < p->n_engine; i++)
        if (p->engine[i].phase != POOL_FREE && p->engine[i].index == index)
            return true;
    return false;
}

static void note_failure(struct engine_pool *p, enum mr_status status, const struct mr_error *err)
{
    const int doublings = p->n_failed < RETRY_DOUBLINGS_MAX ? p->n_failed : RETRY_DOUBLINGS_MAX;
    p->next_start_us = clock_us() + ((int64_t)RETRY_US << doublings);
    p->n_failed++;
    p->failure_status = status;
    p->failure = *err;
    pthread_cond_broadcast(&p->changed);
    if (p->n_failed >= POOL_FAILURES_MAX)
        pool_fail_waiting(p);
}

static void start(struct engine_pool *p, int slot, int index)
{
    struct pool_engine *e = &p->engine[slot];
    struct mr_error err = {{0}};
    *e = (struct pool_engine){.index = index, .version = p->version, .fd = -1, .for_us = e->for_us};
    enum mr_status status = engine_spawn(&e->pid, &e->fd, p->options.model_fd, &err);
    if (status == MR_OK && !frame_feed(&e->out, p->config.bytes, p->config.tail))
        status = mr_fail(&err, MR_NO_MEMORY, "no memory for an engine process");
    e->phase = POOL_OPENING;
    if (status == MR_OK)
        return;
    if (e->fd >= 0)
        pool_lose(p, slot, err.message);
    else {
        e->phase = POOL_FREE;
        note_failure(p, status, &err);
    }
}

static bool begin(struct pool_engine *e, int index, int64_t for_us)
{
    e->index = index;
    e->for_us = for_us;
    if (e->phase != POOL_STANDBY) /* told once its model is open */
        return true;
    if (frame_push(&e->out, FRAME_BEGIN, 0, index, 0) == NULL)
        return false;
    e->phase = POOL_BEGINNING;
    return true;
}

/* Whoever is nearest to being ready becomes the index-th active one. */
static void fill_place(struct engine_pool *p, int index, int64_t now_us)
{
    static const enum pool_phase from[] = {POOL_STANDBY, POOL_OPENING};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        const int slot = find(p, from[i], -1);
        if (slot >= 0 && begin(&p->engine[slot], index, p->died_us[index]))
            return;
    }
    const int slot = find(p, POOL_FREE, -1);
    if (slot < 0 || now_us < p->next_start_us)
        return;
    p->engine[slot].for_us = p->died_us[index];
    start(p, slot, index);
}

/* The active one that has the index retires where it has an old config and a standby has the present one. */
static void retire(struct engine_pool *p, int index, int64_t now_us)
{
    const int slot = find(p, POOL_ACTIVE, index), next = find(p, POOL_STANDBY, -1);
    if (slot < 0 || next < 0 || p->engine[slot].version == p->version || p->engine[next].version != p->version)
        return;
    p->engine[slot].retires = true;
    p->engine[slot].index = -1;
    p->died_us[index] = now_us;
}

static bool all_active(const struct engine_pool *p)
{
    for (int i = 0; i < p->options.config.n_active; i++)
        if (find(p, POOL_ACTIVE, i) < 0)
            return false;
    return true;
}

bool pool_is_new(const struct engine_pool *p)
{
    for (int i = 0; i < p->options.config.n_active; i++) {
        const int slot = find(p, POOL_ACTIVE, i);
        if (slot < 0 || p->engine[slot].version != p->version)
            return false;
    }
    return true;
}

/* While places are empty those that retire still take requests. */
static void end_retired(struct engine_pool *p)
{
    for (int i = 0; i < p->n_engine && all_active(p); i++)
        if (p->engine[i].retires && p->engine[i].n_open == 0 &&
            p->engine[i].stats.n_running == 0) /* and has said what it did */
            clear_slot(p, i);
}

void pool_fill(struct engine_pool *p, int64_t now_us)
{
    int n_standby = 0, slot;
    end_retired(p);
    for (int i = 0; i < p->options.config.n_active && !p->rests; i++) {
        retire(p, i, now_us);
        if (!has_index(p, i))
            fill_place(p, i, now_us);
    }
    for (int i = 0; i < p->n_engine; i++)
        n_standby += p->engine[i].phase != POOL_FREE && p->engine[i].index < 0 && !p->engine[i].retires;
    /* A standby is started while nobody waits for an active one. */
    const bool may_start = p->rests || all_active(p);
    for (; may_start && n_standby < p->options.n_standby && now_us >= p->next_start_us; n_standby++)
        if ((slot = find(p, POOL_FREE, -1)) >= 0)
            start(p, slot, -1);
}

static void add_present(struct mr_engine_stats *sum, const struct mr_engine_stats *s, int n)
{
    sum->n_waiting += s->n_waiting;
    sum->n_running += s->n_running;
    sum->n_aside += s->n_aside;
    sum->kv_bytes += s->kv_bytes;
    sum->kv_bytes_in_use += s->kv_bytes_in_use;
    sum->kv_bytes_live += s->kv_bytes_live;
    sum->kv_bytes_cached += s->kv_bytes_cached;
    sum->load += s->load / n;
    sum->capacity += s->capacity;
    sum->bucket_size += s->bucket_size;
    sum->bucket_level += s->bucket_level;
    sum->batch_cap += s->batch_cap;
    sum->target_part += s->target_part / n;
    sum->latency_p99_ms = s->latency_p99_ms > sum->latency_p99_ms ? s->latency_p99_ms : sum->latency_p99_ms;
    sum->n_pinned = s->n_pinned;
    sum->n_pinned_tokens = s->n_pinned_tokens;
    sum->store_bytes += s->store_bytes;
    sum->reference_bytes += s->reference_bytes;
    sum->lookup_bytes += s->lookup_bytes;
    sum->tier = s->tier > sum->tier ? s->tier : sum->tier;
    sum->tier_host_bytes += s->tier_host_bytes;
    sum->tier_file_bytes += s->tier_file_bytes;
}

void pool_stats(const struct engine_pool *p, struct mr_engine_stats *out)
{
    *out = p->gone;
    for (int i = 0; i < p->n_engine; i++) {
        add_counts(out, &p->engine[i].stats);
        if (p->engine[i].phase == POOL_ACTIVE)
            add_present(out, &p->engine[i].stats, p->options.config.n_active);
    }
    out->n_waiting += p->n_waiting;
}

int pool_n_living(const struct engine_pool *p)
{
    int n = 0;
    for (int i = 0; i < p->n_engine; i++)
        n += p->engine[i].phase != POOL_FREE;
    return n;
}

void pool_end_standbys(struct engine_pool *p)
{
    for (int i = 0; i < p->n_engine; i++)
        if (p->engine[i].index < 0 && (p->engine[i].phase == POOL_OPENING || p->engine[i].phase == POOL_STANDBY))
            clear_slot(p, i);
}

void pool_lose(struct engine_pool *p, int slot, const char *why)
{
    struct pool_engine *e = &p->engine[slot];
    const bool was_ready = e->phase == POOL_ACTIVE || (e->phase == POOL_STANDBY && e->index < 0);
    struct mr_error err;
    if (e->phase == POOL_ACTIVE && e->index >= 0)
        p->died_us[e->index] = clock_us();
    clear_slot(p, slot);
    p->counts.n_died++;
    pool_lose_tickets(p, slot);
    if (!was_ready) {
        mr_fail(&err, MR_IO, "%s", why);
        note_failure(p, e->failure_status != MR_OK ? e->failure_status : MR_IO, &err);
    }
    pool_fill(p, clock_us());
    pool_assign_waiting(p);
}

void pool_rest(struct engine_pool *p)
{
    for (int i = 0; i < p->n_engine; i++)
        if (p->engine[i].phase != POOL_FREE && (p->engine[i].index >= 0 || p->engine[i].retires)) {
            clear_slot(p, i);
            pool_lose_tickets(p, i);
        }
    for (int i = 0; i < p->options.config.n_active; i++)
        p->died_us[i] = 0; /* who comes takes nobody's place */
}

void pool_bury(struct engine_pool *p)
{
    for (size_t i = 0; i < p->n_corpse;) {
        if (waitpid(p->corpse[i], NULL, WNOHANG) == 0)
            i++;
        else
            p->corpse[i] = p->corpse[--p->n_corpse];
    }
}

/* Closing the socket asks a process to end, which takes as long as what it still writes. */
void pool_end(struct engine_pool *p)
{
    const int64_t until_us = clock_us() + END_MS * 1000;
    for (int i = 0; i < p->n_engine; i++) {
        struct pool_engine *e = &p->engine[i];
        if (e->phase == POOL_FREE)
            continue;
        close(e->fd);
        while (waitpid(e->pid, NULL, WNOHANG) == 0) {
            if (clock_us() >= until_us)
                kill(e->pid, SIGKILL);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        frame_buffer_release(&e->in);
        frame_buffer_release(&e->out);
        e->phase = POOL_FREE;
    }
    for (size_t i = 0; i < p->n_corpse; i++)
        waitpid(p->corpse[i], NULL, 0);
    free(p->corpse);
    p->corpse = NULL;
}
