/* web_page.h: the handlers of GET / and GET /web/{name}. */
#ifndef SERVER_API_WEB_PAGE_H
#define SERVER_API_WEB_PAGE_H

struct exchange;

void web_page_index(struct exchange *x);
void web_page_file(struct exchange *x);

#endif
