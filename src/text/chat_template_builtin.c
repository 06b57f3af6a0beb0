/* chat_template_builtin.c: chat templates by name, for files that hold none. */
#include <string.h>

#include "text/chat_template.h"

/* The system message, if there is one, becomes `system` and leaves the messages. */
#define TAKE_SYSTEM                                                                                                            \
    "{% set system = '' %}"                                                                                                    \
    "{% if messages and messages[0].role in ['system', 'developer'] %}"                                                        \
    "{% set system = messages[0].content | trim %}{% set messages = messages[1:] %}{% endif %}"
/* For formats that know only turns of user and assistant. */
#define ALTERNATE                                                                                                              \
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"                                                              \
    "{{ raise_exception('roles must alternate: user, assistant, user, ...') }}{% endif %}"

static const struct {
    const char *name, *source;
} builtin[] = {
    {"chatml", "{% for message in messages %}"
               "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"},
    {"command-r", "{{ bos_token }}{% for message in messages %}{{ '<|START_OF_TURN_TOKEN|>' + {'user': '<|USER_TOKEN|>', "
                  "'assistant': '<|CHATBOT_TOKEN|>'}.get(message.role, '<|SYSTEM_TOKEN|>') + (message.content | trim) + "
                  "'<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
                  "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"},
    {"gemma", TAKE_SYSTEM
     "{{ bos_token }}{% for message in messages %}" ALTERNATE
     "{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\n' + (system + '\n\n' if loop.first "
     "and system else '') + (message.content | trim) + '<end_of_turn>\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"},
    {"llama2",
     TAKE_SYSTEM "{% for message in messages %}" ALTERNATE "{% if message.role == 'user' %}"
                 "{{ bos_token + '[INST] ' + ('<<SYS>>\n' + system + '\n<</SYS>>\n\n' if loop.first and system else '') + "
                 "(message.content | trim) + ' [/INST]' }}"
                 "{% else %}{{ ' ' + (message.content | trim) + ' ' + eos_token }}{% endif %}{% endfor %}"},
    {"llama3",
     "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + "
     "(message.content | trim) + '<|eot_id|>' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"},
    {"mistral",
     TAKE_SYSTEM "{{ bos_token }}{% for message in messages %}" ALTERNATE "{% if message.role == 'user' %}"
                 "{{ '[INST] ' + (system + '\n\n' if loop.first and system else '') + (message.content | trim) + ' [/INST]' }}"
                 "{% else %}{{ ' ' + (message.content | trim) + eos_token }}{% endif %}{% endfor %}"},
    {"phi3", "{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"},
    {"vicuna", TAKE_SYSTEM
     "{{ bos_token }}{% if system %}{{ system + '\n\n' }}{% endif %}{% for message in messages %}" ALTERNATE
     "{{ 'USER: ' + (message.content | trim) + '\n' if message.role == 'user' else 'ASSISTANT: ' + (message.content | trim) + "
     "eos_token + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"},
    {"zephyr",
     "{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content + eos_token + '\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"},
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
