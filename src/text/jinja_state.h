/* jinja_state.h: what a compilation or a render carries along: its memory, its bounds and the way out of a failure.
 * A failure unwinds with longjmp to the function that holds the state (as Lua does): everything that is allocated on the
 * way lies in the arena, so nothing leaks, and values can be returned as values. */
#ifndef TEXT_JINJA_STATE_H
#define TEXT_JINJA_STATE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum {
    JINJA_MAX_BYTES = 16 << 20,       /* of one string, and of the output */
    JINJA_MAX_MEMORY = 256 << 20,     /* of one render */
    JINJA_MAX_SOURCE = 1 << 20,       /* of a template */
    JINJA_MAX_NESTING = 200,          /* of a template's syntax */
    JINJA_MAX_DEPTH = 1000,           /* of evaluation: nested expressions, macros, recursive loops and values together */
    JINJA_MAX_WORK = 6 * 1000 * 1000, /* evaluated nodes and visited elements, and JINJA_WORK_BYTES copied bytes each */
    JINJA_WORK_BYTES = 64
};

struct dict;
struct text_buffer;

struct jinja {
    struct arena arena;
    jmp_buf failed;
    enum mr_status status;
    struct mr_error *err;
    int line;          /* of the template */
    int64_t work_left; /* units */
    int depth;
    const struct dict *context; /* the variables of the render */
    struct text_buffer *out;    /* where output goes */
    int64_t now;                /* seconds since the epoch */
};

/* Never NULL, not zeroed. */
void *jinja_alloc(struct jinja *j, size_t n);
void *jinja_alloc_array(struct jinja *j, size_t n, size_t size);

/* Fail with BAD_INPUT and "line N: message". */
_Noreturn void jinja_fail(struct jinja *j, const char *fmt, ...) MR_PRINTF(2, 3);

/* Fail with BAD_INPUT and a message of the template's own. */
_Noreturn void jinja_raise(struct jinja *j, const char *message, size_t n);

/* Run work(j, context); false: it failed, and the state's status and error say how. */
bool jinja_guard(struct jinja *j, void (*work)(struct jinja *j, void *context), void *context);

/* Count work; fails when the budget is spent. */
void jinja_work(struct jinja *j, size_t units);

/* One level deeper, until jinja_leave; fails when it is too deep. */
void jinja_enter(struct jinja *j);
void jinja_leave(struct jinja *j);

#endif
