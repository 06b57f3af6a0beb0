/* chat_template_builtin.c: chat templates by name, for files that hold none. */
#include <string.h>

#include "text/chat_template.h"

#define LOOP(body) "{% for message in messages %}" body "{% endfor %}"
#define PROMPT(s)  "{% if add_generation_prompt %}{{ '" s "' }}{% endif %}"
/* The system message is taken out of the messages and kept in `system`. */
#define TAKE_SYSTEM                                                                                                            \
    "{% set system = '' %}{% if messages and messages[0].role == 'system' %}{% set system = messages[0].content | trim %}"     \
    "{% set messages = messages[1:] %}{% endif %}"
#define ALTERNATE                                                                                                              \
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"                                                              \
    "{{ raise_exception('after the system message, roles must alternate user, assistant, user ...') }}{% endif %}"

static const struct {
    const char *name, *source;
} builtin[] = {
    {"chatml", LOOP("{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}")
                   PROMPT("<|im_start|>assistant\\n")},
};

const char *chat_template_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++) {
        if (strcmp(name, builtin[i].name) == 0)
            return builtin[i].source;
    }
    return NULL;
}

const char *chat_template_builtin_at(int i)
{
    return i >= 0 && (size_t)i < sizeof builtin / sizeof *builtin ? builtin[i].name : NULL;
}
