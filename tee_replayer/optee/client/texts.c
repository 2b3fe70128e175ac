/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of results. Those of the replayer's statuses are in replayer.h. */
#include <tee_client_api.h>

#include "gramophone_ta.h"
#include "gramophone_tee.h"

struct text {
    uint32_t value;
    const char *text;
};

static const struct text results[] = {
#define STATUS_TEXT(name, value, text) {GRAMOPHONE_RESULT(value), text},
    GR_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
        {GRAMOPHONE_TA_ERROR_OLDER, "a newer version of this trace has been replayed before"},
    {GRAMOPHONE_TA_ERROR_TRACE, "the TA's policy does not name this trace"},
    {GRAMOPHONE_TA_ERROR_COUNTER, "the TA cannot keep the trace's version: no secure storage"},
    {GRAMOPHONE_TA_ERROR_POLICY, "a trace has been replayed under a newer version of the trust policy"},
    {GRAMOPHONE_TA_ERROR_LOG, "the TA cannot keep where the replay log ends: no secure storage"},
    {TEEC_ERROR_GENERIC, "an error without a name (at opening: the GPU or the secure memory is not mapped)"},
    {TEEC_ERROR_ACCESS_DENIED, "access denied, by the TA's policy or since only the TA may call the "
                               "pseudo-TA (of a slot: its network is "
                               "not this session's)"},
    {TEEC_ERROR_CANCEL, "the call was cancelled"},
    {TEEC_ERROR_ACCESS_CONFLICT, "something else uses what is needed"},
    {TEEC_ERROR_EXCESS_DATA, "more data than the command takes"},
    {TEEC_ERROR_BAD_FORMAT, "malformed data"},
    {TEEC_ERROR_BAD_PARAMETERS,
     "parameters that the command does not take, or data of another size than the slot"},
    {TEEC_ERROR_BAD_STATE, "out of turn: no trace is loaded, none has run, or a request waits"},
    {TEEC_ERROR_ITEM_NOT_FOUND, "there is no such thing"},
    {TEEC_ERROR_NOT_IMPLEMENTED, "not implemented"},
    {TEEC_ERROR_NOT_SUPPORTED, "not supported"},
    {TEEC_ERROR_NO_DATA, "no data"},
    {TEEC_ERROR_OUT_OF_MEMORY, "out of memory: the trace, or its inputs and outputs, may be too large"},
    {TEEC_ERROR_BUSY, "another session has the GPU, or the network"},
    {TEEC_ERROR_COMMUNICATION, "the call did not get through"},
    {TEEC_ERROR_SECURITY, "refused for a security reason (a TA with a wrong signature, for example)"},
    {TEEC_ERROR_SHORT_BUFFER, "no room for the answer"},
    {TEEC_ERROR_TARGET_DEAD, "the TA has crashed"},
};

static const struct text origins[] = {
    {TEEC_ORIGIN_API, "the client library"},
    {TEEC_ORIGIN_COMMS, "the way to the TEE"},
    {TEEC_ORIGIN_TEE, "the TEE"},
    {TEEC_ORIGIN_TRUSTED_APP, "the TA"},
};

static const char *find(const struct text *texts, size_t count, uint32_t value, const char *otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (texts[i].value == value)
            return texts[i].text;
    return otherwise;
}

const char *gramophone_tee_text(uint32_t result)
{
    return find(results, sizeof results / sizeof *results, result, "an unknown result");
}

const char *gramophone_tee_origin_text(uint32_t origin)
{
    return find(origins, sizeof origins / sizeof *origins, origin, "an unknown origin");
}
