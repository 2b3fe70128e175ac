/* SPDX-License-Identifier: BSD-2-Clause */
/* How test_ta.py sets the scene and looks. */
#ifndef FAKE_TEE_API_H
#define FAKE_TEE_API_H

#include <stdbool.h>
#include <stdint.h>

struct fake_call {
    uint32_t command, types, a, b;
    uint64_t bytes;
};

void fake_reset(void);
void fake_client(uint32_t login, const uint8_t uuid[16]);
void fake_manifest(const uint8_t *manifest);
void fake_trust(uint32_t version);
void fake_fail(uint32_t command, uint32_t result);
void fake_storage(uint32_t open_result, uint32_t create_result, uint32_t read_less);
void fake_slot(uint64_t bytes);
uint32_t fake_count(void);
const struct fake_call *fake_call(uint32_t index);
bool fake_loaded(void);
bool fake_open(void);
const uint8_t *fake_data(uint64_t *bytes);
uint32_t fake_objects(void);
void fake_boot(void);
uint64_t fake_tail(bool boots);

#endif
