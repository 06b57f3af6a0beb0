/* chat_messages.h: the messages of a request in the OpenAI form, checked and brought into the form that a template takes. */
#ifndef TEXT_CHAT_MESSAGES_H
#define TEXT_CHAT_MESSAGES_H

#include "text/chat_template.h"

/* What a template takes, found out by rendering small chats with it. */
struct chat_traits {
    bool takes_parts;          /* content may be a list of parts; else parts are joined into one string */
    bool takes_text_arguments; /* the arguments of a tool call may be JSON text; else they must be an object */
};
struct chat_traits chat_traits_probe(const struct chat_template *t);

/* A new array (json_decref it) made of the request's messages:
 * keys whose value is null are dropped; content that is missing becomes "" where the assistant called tools or reasoned;
 * text parts are joined unless the template takes parts; arguments of tool calls become objects unless the template takes
 * text; reasoning (reasoning_content, thinking or reasoning) is given under the first two of these names.
 * BAD_INPUT names the field: "messages[2].content[0].type: ...". */
enum mr_status chat_messages_normalise(json_t **out, const json_t *messages, struct chat_traits traits, struct mr_error *err);

#endif
