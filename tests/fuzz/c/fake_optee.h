/* SPDX-License-Identifier: BSD-2-Clause */
/* What the pseudo-TA uses of OP-TEE's kernel API (names and numbers: GlobalPlatform TEE Internal Core API).
 */
#ifndef GRAMOPHONE_FUZZ_FAKE_OPTEE_H
#define GRAMOPHONE_FUZZ_FAKE_OPTEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t TEE_Result;
typedef struct {
    uint32_t timeLow;
    uint16_t timeMid, timeHiAndVersion;
    uint8_t clockSeqAndNode[8];
} TEE_UUID;
typedef union {
    struct {
        void *buffer;
        size_t size;
    } memref;
    struct {
        uint32_t a, b;
    } value;
} TEE_Param;

#define TEE_NUM_PARAMS 4
#define TEE_PARAM_TYPE_NONE 0u
#define TEE_PARAM_TYPE_VALUE_INPUT 1u
#define TEE_PARAM_TYPE_VALUE_OUTPUT 2u
#define TEE_PARAM_TYPE_MEMREF_INPUT 5u
#define TEE_PARAM_TYPE_MEMREF_OUTPUT 6u
#define TEE_PARAM_TYPES(a, b, c, d) ((a) | (b) << 4 | (c) << 8 | (d) << 12)
#define TEE_PARAM_TYPE_GET(types, i) ((types) >> (i)*4 & 15)
#define TEE_SUCCESS 0u
#define TEE_ERROR_GENERIC 0xffff0000u
#define TEE_ERROR_ACCESS_DENIED 0xffff0001u
#define TEE_ERROR_EXCESS_DATA 0xffff0004u
#define TEE_ERROR_BAD_PARAMETERS 0xffff0006u
#define TEE_ERROR_BAD_STATE 0xffff0007u
#define TEE_ERROR_ITEM_NOT_FOUND 0xffff0008u
#define TEE_ERROR_NOT_SUPPORTED 0xffff000au
#define TEE_ERROR_OUT_OF_MEMORY 0xffff000cu
#define TEE_ERROR_BUSY 0xffff000du
#define TEE_ERROR_SHORT_BUFFER 0xffff0010u

#ifndef __unused
#define __unused __attribute__((unused))
#endif
#define __maybe_unused __attribute__((unused))
#define ARRAY_SIZE(x) (sizeof(x) / sizeof *(x))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define ROUNDUP(v, size) (((v) + (size)-1) & ~((__typeof__(v))(size)-1))

static inline uint64_t reg_pair_to_64(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

static inline void enter_user_access(void) {}
static inline void exit_user_access(void) {}

struct pseudo_ta_head {
    TEE_UUID uuid;
    const char *name;
    uint32_t flags;
    TEE_Result (*open_session_entry_point)(uint32_t types, TEE_Param params[4], void **session);
    void (*close_session_entry_point)(void *session);
    TEE_Result (*invoke_command_entry_point)(void *session, uint32_t command, uint32_t types,
                                             TEE_Param params[4]);
};
#define PTA_DEFAULT_FLAGS 0u
extern const struct pseudo_ta_head fuzz_pta;
#define pseudo_ta_register(...) const struct pseudo_ta_head fuzz_pta = {__VA_ARGS__}

#endif
