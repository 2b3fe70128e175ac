/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may replay, and what: for the firmware engineer to edit.
 *
 * The kernel vouches for a client's identity, so a policy is as good as the kernel: it distinguishes the
 * normal world's programs, and does not keep a compromised kernel out. For Linux the identity of a user or a
 * group is the UUID, version 5, of "uid=N" or "gid=N" (N in hexadecimal) in a name space of its own
 * (drivers/tee/tee_core.c, tee_session_calc_client_uuid). In Python:
 *     uuid.uuid5(uuid.UUID("58ac9ca0-2086-4683-a1b8-ec4bc08e01b6"), f"uid={uid:x}")
 */
#ifndef GRAMOPHONE_POLICY_H
#define GRAMOPHONE_POLICY_H

#include <tee_internal_api.h>

struct policy_client {
    uint32_t login; /* TEE_LOGIN_* */
    bool anyone;    /* any client with this login, whatever its UUID */
    TEE_UUID uuid;
};

static const struct policy_client policy_clients[] = {
    /* the user root */
    {TEE_LOGIN_USER, false, {0xef0180a3, 0x13f3, 0x5d1c, {0xb7, 0xf5, 0x88, 0x8c, 0x0e, 0x21, 0x05, 0x9a}}},
    /* other TAs */
    {TEE_LOGIN_TRUSTED_APP, true, {0}},
};

/* Names of the traces that may be replayed; with none before the NULL, all that the
 * device's key has signed. */
static const char *const policy_traces[] = {NULL};

/*
 * Where the highest version of each trace is kept, and where the replay log ends. What OP-TEE has the normal
 * world keep (REE FS) is encrypted and authenticated, but the kernel can delete it, or put an earlier state
 * back; and OP-TEE reports a damaged object once, then removes it. There both hold against programs, not
 * against the kernel. With an RPMB (CFG_RPMB_FS, CFG_REE_FS_INTEGRITY_RPMB) they hold against it too. The
 * device's own minimum, of its device file, holds in any case.
 */
#define POLICY_STORAGE TEE_STORAGE_PRIVATE

#endif
