/* family.c: the table of families. */
#include "model/family.h"

#include <string.h>

static const struct family *const families[] = {
    &family_llama, &family_qwen2, &family_qwen3, &family_gemma3, &family_olmoe, &family_gpt2,
};

enum {
    N_FAMILIES = sizeof families / sizeof *families
};

const struct family *family_at(int i) { return i >= 0 && i < N_FAMILIES ? families[i] : NULL; }

const struct family *family_find(struct gguf_string arch)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (strlen(families[i]->arch) == arch.n && memcmp(families[i]->arch, arch.s, arch.n) == 0)
            return families[i];
    return NULL;
}
