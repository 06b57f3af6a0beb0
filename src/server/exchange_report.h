/* exchange_report.h: what an exchange tells the metrics and the board of slots. Its lock is held. */
#ifndef SERVER_EXCHANGE_REPORT_H
#define SERVER_EXCHANGE_REPORT_H

#include "server/exchange_state.h"

/* Room for the lives of n requests, before the first begins. */
enum mr_status exchange_report_prepare(struct exchange *x, int n);
/* The i-th request has been given to the engine. */
void exchange_report_begin(struct exchange *x, int i, const struct mr_request *request);
void exchange_report_event(struct exchange *x, int i, const struct mr_event *event);
/* Turned away before the engine saw it. */
void exchange_report_refused(struct exchange *x, enum mr_status status);
void exchange_report_first_byte(struct exchange *x);
/* Its requests have ended, or nobody waits for them. */
void exchange_report_answers(struct exchange *x);
/* The reply has gone out, or nobody waits for it. */
void exchange_report_done(struct exchange *x);

#endif
