/* SPDX-License-Identifier: BSD-2-Clause */
/* One object, whose identifier is shorter than those of the counters (rollback.c). */
#include "log_tail.h"

#ifdef GRAMOPHONE_LOG
#include "gramophone_ta.h"
#include "policy.h"

static const char identifier[] = "gramophone log";
static struct gr_log_tail kept; /* as the storage has it */

/* Zeros when there is none yet. */
static TEE_Result read_kept(void)
{
    TEE_ObjectHandle object = TEE_HANDLE_NULL;
    size_t bytes = 0;
    TEE_Result result = TEE_OpenPersistentObject(POLICY_STORAGE, identifier, sizeof identifier - 1,
                                                 TEE_DATA_FLAG_ACCESS_READ, &object);
    TEE_MemFill(&kept, 0, sizeof kept);
    if (result == TEE_ERROR_ITEM_NOT_FOUND)
        return TEE_SUCCESS;
    if (result != TEE_SUCCESS)
        return result;
    result = TEE_ReadObjectData(object, &kept, sizeof kept, &bytes);
    TEE_CloseObject(object);
    return result == TEE_SUCCESS && bytes != sizeof kept ? TEE_ERROR_CORRUPT_OBJECT : result;
}

/* As a whole or not at all, as in rollback.c. */
static TEE_Result write_kept(const struct gr_log_tail *tail)
{
    TEE_ObjectHandle object = TEE_HANDLE_NULL;
    const TEE_Result result = TEE_CreatePersistentObject(
        POLICY_STORAGE, identifier, sizeof identifier - 1,
        TEE_DATA_FLAG_ACCESS_READ | TEE_DATA_FLAG_ACCESS_WRITE | TEE_DATA_FLAG_OVERWRITE, TEE_HANDLE_NULL,
        tail, sizeof *tail, &object);
    if (result == TEE_SUCCESS) {
        TEE_CloseObject(object);
        kept = *tail;
    }
    return result;
}

static TEE_Result exchange(TEE_TASessionHandle pta, uint32_t command, uint32_t type, struct gr_log_tail *tail)
{
    TEE_Param params[TEE_NUM_PARAMS] = {0};
    const uint32_t types =
        TEE_PARAM_TYPES(type, TEE_PARAM_TYPE_NONE, TEE_PARAM_TYPE_NONE, TEE_PARAM_TYPE_NONE);
    uint32_t origin = 0;
    params[0].memref.buffer = tail;
    params[0].memref.size = sizeof *tail;
    const TEE_Result result = TEE_InvokeTACommand(pta, TEE_TIMEOUT_INFINITE, command, types, params, &origin);
    return result == TEE_SUCCESS && params[0].memref.size != sizeof *tail ? TEE_ERROR_GENERIC : result;
}

TEE_Result log_tail_keep(TEE_TASessionHandle pta)
{
    struct gr_log_tail now;
    if (exchange(pta, GRAMOPHONE_LOG_TAIL, TEE_PARAM_TYPE_MEMREF_OUTPUT, &now) != TEE_SUCCESS)
        return GRAMOPHONE_TA_ERROR_LOG;
    if (!TEE_MemCompare(&now, &kept, sizeof now) || write_kept(&now) == TEE_SUCCESS)
        return TEE_SUCCESS;
    return GRAMOPHONE_TA_ERROR_LOG;
}

TEE_Result log_tail_open(TEE_TASessionHandle pta)
{
    if (read_kept() != TEE_SUCCESS)
        return GRAMOPHONE_TA_ERROR_LOG;
    const TEE_Result result = exchange(pta, GRAMOPHONE_LOG_OPEN, TEE_PARAM_TYPE_MEMREF_INPUT, &kept);
    return result == TEE_SUCCESS ? log_tail_keep(pta) : result;
}
#endif
