/* call_parser.h: splits an answer into reasoning, content and calls while it comes, byte by byte: however the text is cut into
 * pieces, what comes out joins to the same. It never fails for what an answer says: what it cannot read is content.
 * A call is complete only when its object is, and its arguments are JSON; one that the end of the answer cuts never is, and
 * what the end cuts in front of its arguments is no content either. Blanks beside markers belong to nobody.
 * Threads: each parser belongs to one. */
#ifndef TEXT_CALL_PARSER_H
#define TEXT_CALL_PARSER_H

#include "base/string_buffer.h"
#include "text/call_format.h"

enum call_piece_kind {
    CALL_PIECE_CONTENT,
    CALL_PIECE_REASONING,
    CALL_PIECE_NAME,      /* a call begins; the text is the function's name, whole */
    CALL_PIECE_ARGUMENTS, /* the next bytes of its arguments */
    CALL_PIECE_END        /* it is complete; no text */
};

struct call_piece {
    enum call_piece_kind kind;
    int call; /* of the answer, from 0 on; of the last three */
    const char *text;
    size_t n;
};

/* Takes pieces as they come; text is borrowed for the call. */
typedef void call_piece_fn(void *context, const struct call_piece *piece);

struct call_parser; /* opaque */

/* format NULL: no calls are looked for. reasoning NULL: none is; has_begun: the prompt has opened it. name[n_name]: the
 * functions there are, borrowed; n_name 0: any. */
struct call_parser_options {
    const struct call_format *format;
    const struct reasoning_format *reasoning;
    bool has_begun;
    bool must_call; /* no content stands in front of calls: what may be half a marker at the end is one */
    const char *const *name;
    size_t n_name;
};
enum mr_status call_parser_create(struct call_parser **out, const struct call_parser_options *options, call_piece_fn *emit,
                                  void *context, struct mr_error *err);
void call_parser_free(struct call_parser *p); /* takes NULL */

/* NO_MEMORY. */
enum mr_status call_parser_feed(struct call_parser *p, const char *text, size_t n, struct mr_error *err);
/* The answer has ended. *n_complete, *n_open (may be NULL): calls that are complete, and that are not. */
enum mr_status call_parser_end(struct call_parser *p, int *n_complete, int *n_open, struct mr_error *err);

#endif
