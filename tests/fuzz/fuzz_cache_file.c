/* fuzz_cache_file.c: any bytes as the record of a block: one is right only as a whole, under its own name. */
#include <stdlib.h>
#include <string.h>

#include "cache/block_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct block_name name;
    const struct prefix_key model = {{1}}, key = {{2}};
    const size_t n = size > BLOCK_RECORD_HEADER ? size - BLOCK_RECORD_HEADER : 0;
    uint8_t *record = malloc(size + BLOCK_RECORD_HEADER); /* its own, so that reading past the end shows */
    check(record != NULL);
    if (size > 0)
        memcpy(record, data, size);
    block_name_make(&name, &model, &key, size > 0 ? data[0] % KV_MAX_GROUPS : 0);
    const bool is_right = block_record_check(record, size, &name, n, NULL) == MR_OK;
    memset(record, 0, BLOCK_RECORD_HEADER);
    if (size < BLOCK_RECORD_HEADER) {
        check(!is_right);
    } else {
        block_record_seal(record, &name, n); /* what is right is what sealing the same contents gives */
        check(is_right == (memcmp(record, data, size) == 0));
        check(block_record_check(record, size, &name, n, NULL) == MR_OK);
        check(block_record_check(record, size - 1, &name, n, NULL) != MR_OK);
        record[size - 1] ^= 1;
        check(block_record_check(record, size, &name, n, NULL) != MR_OK);
    }
    free(record);
    return 0;
}
