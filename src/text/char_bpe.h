/* char_bpe.h: what the byte pair encodings over characters share: cutting a text where no merge can cross, characters to
 * symbols, symbols to ids with byte fallback. The kinds differ in how they rank merges.
 * Threads: immutable after creation. */
#ifndef TEXT_CHAR_BPE_H
#define TEXT_CHAR_BPE_H

#include "text/merger.h"
#include "text/tokenizer_model.h"

struct char_bpe {
    const struct vocabulary *v;
    struct string_index by_piece; /* the tokens that running text is made of */
    uint8_t (*crosses)[256 / 8];  /* [256]: bit b of row a: some token holds the bytes a and b side by side */
};

/* false: no memory; release all the same. */
bool char_bpe_init(struct char_bpe *b, const struct vocabulary *v);
void char_bpe_release(struct char_bpe *b);

void *char_bpe_scratch_create(const void *model); /* NULL: no memory */
void char_bpe_scratch_free(void *scratch);

/* Merge the symbols of the piece at s. false: no memory. */
typedef bool char_bpe_merge_fn(const void *model, struct merger *merger, const char *s);

bool char_bpe_encode(const struct char_bpe *b, void *scratch, const struct text_segment *segment, char_bpe_merge_fn *merge,
                     const void *model, struct token_list *list);

#endif
