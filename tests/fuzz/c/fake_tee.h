/* SPDX-License-Identifier: BSD-2-Clause */
/* What the user TA uses of a TEE's API (names and numbers: GlobalPlatform TEE Internal Core API 1.3.1). */
#ifndef GRAMOPHONE_FUZZ_FAKE_TEE_H
#define GRAMOPHONE_FUZZ_FAKE_TEE_H

#include "fake_optee.h"

typedef struct fuzz_session *TEE_TASessionHandle;
typedef struct fuzz_object *TEE_ObjectHandle;
typedef uintptr_t TEE_PropSetHandle;
typedef struct {
    uint32_t login;
    TEE_UUID uuid;
} TEE_Identity;

#define TEE_HANDLE_NULL 0
#define TEE_TIMEOUT_INFINITE 0xffffffffu
#define TEE_PROPSET_CURRENT_CLIENT ((TEE_PropSetHandle)0xfffffffe)
#define TEE_LOGIN_USER 1u
#define TEE_LOGIN_TRUSTED_APP 0xf0000000u
#define TEE_STORAGE_PRIVATE 1u
#define TEE_OBJECT_ID_MAX_LEN 64
#define TEE_DATA_FLAG_ACCESS_READ 1u
#define TEE_DATA_FLAG_ACCESS_WRITE 2u
#define TEE_DATA_FLAG_OVERWRITE 0x400u
#define TEE_ERROR_BAD_FORMAT 0xffff0005u
#define TEE_ERROR_CORRUPT_OBJECT 0xf0100001u

TEE_Result TEE_GetPropertyAsIdentity(TEE_PropSetHandle set, const char *name, TEE_Identity *identity);
TEE_Result TEE_OpenTASession(const TEE_UUID *uuid, uint32_t timeout, uint32_t types, TEE_Param params[4],
                             TEE_TASessionHandle *session, uint32_t *origin);
void TEE_CloseTASession(TEE_TASessionHandle session);
TEE_Result TEE_InvokeTACommand(TEE_TASessionHandle session, uint32_t timeout, uint32_t command,
                               uint32_t types, TEE_Param params[4], uint32_t *origin);
void TEE_MemMove(void *to, const void *from, size_t bytes);
int32_t TEE_MemCompare(const void *a, const void *b, size_t bytes);
TEE_Result TEE_OpenPersistentObject(uint32_t storage, const void *name, size_t bytes, uint32_t flags,
                                    TEE_ObjectHandle *object);
TEE_Result TEE_ReadObjectData(TEE_ObjectHandle object, void *data, size_t bytes, size_t *count);
TEE_Result TEE_CreatePersistentObject(uint32_t storage, const void *name, size_t bytes, uint32_t flags,
                                      TEE_ObjectHandle attributes, const void *data, size_t data_bytes,
                                      TEE_ObjectHandle *object);
void TEE_CloseObject(TEE_ObjectHandle object);

TEE_Result TA_CreateEntryPoint(void);
void TA_DestroyEntryPoint(void);
TEE_Result TA_OpenSessionEntryPoint(uint32_t types, TEE_Param params[4], void **session);
void TA_CloseSessionEntryPoint(void *session);
TEE_Result TA_InvokeCommandEntryPoint(void *session, uint32_t command, uint32_t types, TEE_Param params[4]);

#endif
