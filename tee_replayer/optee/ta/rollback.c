/* SPDX-License-Identifier: BSD-2-Clause */
/* One object for each trace's name; its identifier is the name as the manifest has it, padded with zeros.
 * That of the trust policy begins with a zero, and goes on, which no name does. */
#include "rollback.h"

#include "gramophone_ta.h"
#include "policy.h"

enum { NAME_BYTES = 64 };

_Static_assert(NAME_BYTES <= TEE_OBJECT_ID_MAX_LEN, "a trace's name can be an object's identifier");

struct counter {
    uint32_t version;
};

/* What was checked last; there is one trace at a time (gramophone_ta.c). */
struct checked {
    char name[NAME_BYTES];
    struct counter offered;
    bool is_higher; /* than what is kept */
};

static struct checked trace, policy;

/* The highest version; 0 when there is none yet. */
static TEE_Result read_counter(const char name[NAME_BYTES], struct counter *counter)
{
    TEE_ObjectHandle object = TEE_HANDLE_NULL;
    size_t bytes = 0;
    TEE_Result result =
        TEE_OpenPersistentObject(POLICY_STORAGE, name, NAME_BYTES, TEE_DATA_FLAG_ACCESS_READ, &object);
    if (result == TEE_ERROR_ITEM_NOT_FOUND) {
        counter->version = 0;
        return TEE_SUCCESS;
    }
    if (result != TEE_SUCCESS)
        return result;
    result = TEE_ReadObjectData(object, counter, sizeof *counter, &bytes);
    TEE_CloseObject(object);
    return result == TEE_SUCCESS && bytes != sizeof *counter ? TEE_ERROR_CORRUPT_OBJECT : result;
}

/* The object is replaced as a whole or not at all (GlobalPlatform
 * Internal Core API, TEE_DATA_FLAG_OVERWRITE). */
static TEE_Result write_counter(const char name[NAME_BYTES], const struct counter *counter)
{
    TEE_ObjectHandle object = TEE_HANDLE_NULL;
    const TEE_Result result = TEE_CreatePersistentObject(
        POLICY_STORAGE, name, NAME_BYTES,
        TEE_DATA_FLAG_ACCESS_READ | TEE_DATA_FLAG_ACCESS_WRITE | TEE_DATA_FLAG_OVERWRITE, TEE_HANDLE_NULL,
        counter, sizeof *counter, &object);
    if (result == TEE_SUCCESS)
        TEE_CloseObject(object);
    return result;
}

static TEE_Result check(struct checked *checked, const char name[NAME_BYTES], uint32_t version,
                        TEE_Result if_older)
{
    struct counter highest = {0};
    TEE_MemMove(checked->name, name, NAME_BYTES);
    checked->offered.version = version;
    checked->is_higher = false;
    if (read_counter(checked->name, &highest) != TEE_SUCCESS)
        return GRAMOPHONE_TA_ERROR_COUNTER;
    if (checked->offered.version < highest.version)
        return if_older;
    checked->is_higher = checked->offered.version > highest.version;
    return TEE_SUCCESS;
}

static TEE_Result raise(struct checked *checked)
{
    if (checked->is_higher && write_counter(checked->name, &checked->offered) != TEE_SUCCESS)
        return GRAMOPHONE_TA_ERROR_COUNTER;
    checked->is_higher = false;
    return TEE_SUCCESS;
}

/* Whether nothing follows a name's first zero: what does could be the policy's identifier. */
static bool is_name(const char name[NAME_BYTES])
{
    char behind = 0;
    bool has_ended = false;
    for (uint32_t i = 0; i < NAME_BYTES; i++) {
        has_ended |= !name[i];
        behind |= has_ended ? name[i] : 0;
    }
    return !behind;
}

TEE_Result rollback_check(const struct gr_manifest *manifest)
{
    policy.is_higher = false; /* of the trace before */
    trace.is_higher = false;
    if (!is_name(manifest->name))
        return TEE_ERROR_BAD_FORMAT;
    return check(&trace, manifest->name, manifest->security_version, GRAMOPHONE_TA_ERROR_OLDER);
}

TEE_Result rollback_check_policy(uint32_t version)
{
    static const char name[NAME_BYTES] = "\0trust policy";
    return check(&policy, name, version, GRAMOPHONE_TA_ERROR_POLICY);
}

TEE_Result rollback_raise(void)
{
    const TEE_Result result = raise(&policy);
    return result == TEE_SUCCESS ? raise(&trace) : result;
}
