/* SPDX-License-Identifier: BSD-2-Clause */
/* How libFuzzer changes the core's inputs. */
#include "core.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Records are changed, doubled, moved, removed and added as a whole; in one record bytes change. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    const size_t most = max_size / RECORD_BYTES < MAX_RECORDS ? max_size / RECORD_BYTES : MAX_RECORDS;
    size_t count = size / RECORD_BYTES < most ? size / RECORD_BYTES : most;
    struct record *records = (struct record *)(void *)data;
    if (!most)
        return 0;
    const size_t at = count ? (seed >> 8) % count : 0, other = count ? (seed >> 16) % count : 0;
    switch (seed % 8) {
    case 0:
        if (count < most) { /* one more */
            memmove(records + at + 1, records + at, (count - at) * RECORD_BYTES);
            memset(&records[at], 0, RECORD_BYTES);
            records[at].kind = (uint8_t)(seed >> 4) % KINDS;
            LLVMFuzzerMutate((uint8_t *)&records[at] + 2, RECORD_BYTES - 2, RECORD_BYTES - 2);
            return (count + 1) * RECORD_BYTES;
        }
        break;
    case 1:
        if (count && count < most) { /* one twice */
            const struct record twice = records[at];
            memmove(records + other + 1, records + other, (count - other) * RECORD_BYTES);
            records[other] = twice;
            return (count + 1) * RECORD_BYTES;
        }
        break;
    case 2:
        if (count > 1) { /* one less */
            memmove(records + at, records + at + 1, (count - at - 1) * RECORD_BYTES);
            return (count - 1) * RECORD_BYTES;
        }
        break;
    case 3:
        if (count) { /* two exchanged */
            const struct record first = records[at];
            records[at] = records[other];
            records[other] = first;
        }
        break;
    default: break;
    }
    if (!count) {
        memset(records, 0, RECORD_BYTES);
        count = 1;
    }
    LLVMFuzzerMutate((uint8_t *)&records[at], RECORD_BYTES, RECORD_BYTES);
    return count * RECORD_BYTES;
}
