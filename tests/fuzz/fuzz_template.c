/* fuzz_template.c: any bytes as a chat template, rendered with a fixed conversation. What renders must account for each
 * byte, and render the same again. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/chat_template.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *variables;

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \" h\\u00e9llo <b> "
    "5 \\n\"}, "
    "{\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"hm\", \"tool_calls\": [{\"id\": \"1\", \"type\": "
    "\"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, null], \"b\": \"x\"}}}]}, {\"role\": "
    "\"tool\", "
    "\"content\": [{\"type\": \"text\", \"text\": \"21\"}]}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": "
    "\"f\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"array\"}}}}}], \"documents\": null, "
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"n\": 7, \"f\": 2.5, \"s\": \"a,b c\", "
    "\"l\": [3, 1, 2], \"d\": {\"k\": 1, \"j\": {\"x\": []}}, \"z\": 0, \"t\": true, \"none\": null}";

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    variables = json_loads(conversation, 0, NULL);
    return variables != NULL ? 0 : 1;
}

static void check(const struct rendered *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_run; i++) {
        if (r->run[i].s != r->text.s + n || r->run[i].n == 0)
            abort();
        n += r->run[i].n;
    }
    if (n != r->text.n || !utf8_is_valid(r->text.s != NULL ? r->text.s : "", n))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chat_template *t;
    struct rendered r, again;
    struct mr_error err;
    if (chat_template_create(&t, (const char *)data, size, &err) != MR_OK)
        return 0;
    const enum mr_status status = chat_template_render(t, variables, 1700000000, &r, &err);
    if (status == MR_OK) {
        check(&r);
        if (r.text.n < 10000) {
            if (chat_template_render(t, variables, 1700000000, &again, &err) != MR_OK || again.text.n != r.text.n ||
                memcmp(again.text.n > 0 ? again.text.s : "", r.text.n > 0 ? r.text.s : "", r.text.n) != 0)
                abort();
            rendered_release(&again);
        }
    }
    rendered_release(&r);
    chat_template_free(t);
    return 0;
}
