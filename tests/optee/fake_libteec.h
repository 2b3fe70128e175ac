/* SPDX-License-Identifier: BSD-2-Clause */
/* How test_client_library.py sets the scene and looks. */
#ifndef FAKE_LIBTEEC_H
#define FAKE_LIBTEEC_H

#include <stdbool.h>
#include <stdint.h>

struct fake_call {
    uint32_t command, types, a, b;
    uint64_t bytes;
};

void fake_reset(uint32_t slot_bytes);
void fake_fail(uint32_t at, uint32_t result);
void fake_log(void);
void fake_share(uint32_t pieces);
void fake_stream(void);
void fake_sending(uint32_t looks);
void fake_answer_less(uint32_t bytes);
uint32_t fake_count(void);
const struct fake_call *fake_call(uint32_t index);
uint32_t fake_state(uint32_t which);
const uint8_t *fake_trace(void);
const uint8_t *fake_uuid(void);

#endif
