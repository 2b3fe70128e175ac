/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replays for programs of the normal world: the pseudo-TA's commands over libteec.
 *
 *     gramophone_tee_open, gramophone_tee_load,
 *     then as often as wanted { _set_input for each input, _run, _get_output for each output },
 * gramophone_tee_close
 *
 * A session has the GPU to itself until it is closed (more can be open where there is a queue: _submit). It
 * belongs to one thread at a time; the library has no other state. Each function returns a TEEC_Result: 0
 * (TEEC_SUCCESS), or an error that gramophone_tee_text describes. `origin` takes who gave it (TEEC_ORIGIN_*),
 * and may be NULL.
 *
 * Data is copied through a piece of shared memory; the caller's own memory is not shared.
 */
#ifndef GRAMOPHONE_TEE_H
#define GRAMOPHONE_TEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gramophone_pta.h"
#include "gramophone_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whom to call: the TA, whose policy says who may replay what (../ta/policy.h), or the pseudo-TA itself. */
enum gramophone_tee_via { GRAMOPHONE_TEE_VIA_TA, GRAMOPHONE_TEE_VIA_PTA };

/* As whom; the kernel vouches for it. GlobalPlatform's TEEC_LOGIN_*. */
enum gramophone_tee_login {
    GRAMOPHONE_TEE_LOGIN_PUBLIC = 0,
    GRAMOPHONE_TEE_LOGIN_USER = 1,
    GRAMOPHONE_TEE_LOGIN_GROUP = 2
};

struct gramophone_tee;

/* Open a session. `group` is the group's id with GRAMOPHONE_TEE_LOGIN_GROUP. On an error *tee is NULL. */
uint32_t gramophone_tee_open(struct gramophone_tee **tee, enum gramophone_tee_via via,
                             enum gramophone_tee_login login, uint32_t group, uint32_t *origin);

/* Close it: the trace is unloaded, the GPU reset. NULL is taken. */
void gramophone_tee_close(struct gramophone_tee *tee);

/* Send a signed trace, have it verified and loaded. A device with the feature `streaming` reads it again
 * while it replays: `data` must stay as it is until the next load, or the session's end. */
uint32_t gramophone_tee_load(struct gramophone_tee *tee, const void *data, size_t bytes, uint32_t *origin);

/* The manifest of the loaded trace. */
uint32_t gramophone_tee_trace(struct gramophone_tee *tee, struct gr_manifest *manifest, uint32_t *origin);

/* What the loaded trace takes and gives. Slots are counted from 0. */
uint32_t gramophone_tee_slot_count(struct gramophone_tee *tee, uint32_t *count, uint32_t *origin);
uint32_t gramophone_tee_slot(struct gramophone_tee *tee, uint32_t slot, struct gramophone_slot *info,
                             uint32_t *origin);

/* Give an input or a parameter its value, for all following runs: all of the slot, dense and in C order.
 * TEEC_ERROR_BAD_PARAMETERS, and nothing is set, when `bytes` is not the slot's size. */
uint32_t gramophone_tee_set_input(struct gramophone_tee *tee, uint32_t slot, const void *data, size_t bytes,
                                  uint32_t *origin);

/* Replay once. */
uint32_t gramophone_tee_run(struct gramophone_tee *tee, uint32_t *origin);

/* Where joint traces are taken (gramophone_pta.h): networks, counted from 0. Choosing one makes it this
 * session's; _load has chosen the first. TEEC_ERROR_BUSY: another session has it. TEEC_ERROR_NOT_SUPPORTED:
 * the replayer takes no joint traces. */
uint32_t gramophone_tee_network(struct gramophone_tee *tee, uint32_t network, struct gramophone_network *info,
                                uint32_t *origin);
uint32_t gramophone_tee_network_count(struct gramophone_tee *tee, uint32_t *count, uint32_t *origin);
uint32_t gramophone_tee_choose(struct gramophone_tee *tee, uint32_t network, uint32_t *origin);

/* With a queue, instead of _run: ask for a replay that is done within so many microseconds (UINT64_MAX:
 * whenever there is time), then _step until `waits` is false. Each step is one piece of what is first,
 * whosever it is; the result is that of the replay once it is over. Other sessions may have steps in between.
 */
uint32_t gramophone_tee_submit(struct gramophone_tee *tee, uint64_t within_us, uint32_t *origin);
uint32_t gramophone_tee_step(struct gramophone_tee *tee, bool *waits, uint32_t *origin);

/* Give the GPU to the normal world until the next step, run or load of any session. */
uint32_t gramophone_tee_yield(struct gramophone_tee *tee, uint32_t *origin);

/* What the last run computed: all of an output slot. TEEC_ERROR_BAD_PARAMETERS as for an input. */
uint32_t gramophone_tee_get_output(struct gramophone_tee *tee, uint32_t slot, void *data, size_t bytes,
                                   uint32_t *origin);

/* How the last load or run went; also after one that failed. */
uint32_t gramophone_tee_log(struct gramophone_tee *tee, struct gr_report *report, uint32_t *origin);

/* Forget inputs, outputs and working memory, before another user's data: as after _load, without its cost. */
uint32_t gramophone_tee_forget(struct gramophone_tee *tee, uint32_t *origin);

/* Of a device with a replay log, by the TA (docs/LOG.md); TEEC_ERROR_NOT_SUPPORTED: it has none. Sizes of an
 * entry, and of what takes any attestation. */
enum { GRAMOPHONE_TEE_ENTRY_BYTES = 240, GRAMOPHONE_TEE_ATTESTATION_BYTES = 1024 };

/* Entries that nobody has taken yet, one after the other, as many as there is room for; the device gives each
 * once, and replays nothing when too many wait. TEEC_ERROR_SHORT_BUFFER: not even one fits. */
uint32_t gramophone_tee_entries(struct gramophone_tee *tee, void *data, size_t room, size_t *bytes,
                                uint32_t *origin);

/* An attestation of this session's last run, on a verifier's nonce of 8 to 64 bytes. */
uint32_t gramophone_tee_attest(struct gramophone_tee *tee, const void *nonce, size_t nonce_bytes, void *data,
                               size_t room, size_t *bytes, uint32_t *origin);

/* The key that verifies them: P-256, 04 || x || y. */
uint32_t gramophone_tee_device_key(struct gramophone_tee *tee, uint8_t key[65], uint32_t *origin);

/* Unload the trace; the session stays. */
uint32_t gramophone_tee_unload(struct gramophone_tee *tee, uint32_t *origin);

/* Text for a TEEC_Result and for an origin; never NULL. */
const char *gramophone_tee_text(uint32_t result);
const char *gramophone_tee_origin_text(uint32_t origin);

#ifdef __cplusplus
}
#endif

#endif
