/* jinja_state.c: memory, bounds and failure of one compilation or render. */
#include "text/jinja_state.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/memory.h"

static _Noreturn void give_up(struct jinja *j, enum mr_status status)
{
    j->status = status;
    longjmp(j->failed, 1);
}

void *jinja_alloc(struct jinja *j, size_t n)
{
    void *p = arena_alloc(&j->arena, n);
    if (p != NULL)
        return p;
    if (n > j->arena.limit || j->arena.limit - j->arena.used < 2 * n + (1 << 20))
        jinja_fail(j, "the template needs more than %zu bytes of memory", j->arena.limit);
    mr_fail(j->err, MR_NO_MEMORY, "no memory for the chat template");
    give_up(j, MR_NO_MEMORY);
}

void *jinja_alloc_array(struct jinja *j, size_t n, size_t size)
{
    size_t bytes;
    size_mul(&bytes, n, size); /* SIZE_MAX where it does not fit: above the limit */
    return jinja_alloc(j, bytes);
}

void jinja_fail(struct jinja *j, const char *fmt, ...)
{
    char message[MR_ERROR_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    mr_fail(j->err, MR_BAD_INPUT, "line %d: %s", j->line, message);
    give_up(j, MR_BAD_INPUT);
}

void jinja_raise(struct jinja *j, const char *message, size_t n)
{
    mr_fail(j->err, MR_BAD_INPUT, "%.*s", (int)(n < MR_ERROR_MAX ? n : MR_ERROR_MAX), message);
    give_up(j, MR_BAD_INPUT);
}

bool jinja_guard(struct jinja *j, void (*work)(struct jinja *j, void *context), void *context)
{
    if (setjmp(j->failed) != 0)
        return false;
    work(j, context);
    return true;
}

void jinja_work(struct jinja *j, size_t units)
{
    if (units > (size_t)j->work_left) {
        j->work_left = 0;
        jinja_fail(j, "the template does too much work");
    }
    j->work_left -= (int64_t)units;
}

void jinja_enter(struct jinja *j)
{
    if (++j->depth > JINJA_MAX_DEPTH)
        jinja_fail(j, "nested too deeply");
}

void jinja_leave(struct jinja *j) { j->depth--; }
