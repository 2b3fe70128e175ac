/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The replay log: an entry for each load and each replay, under keys of this device. A caller does
 * gr_log_open once, puts the log into the policy of gr_load, and appends an entry after each load and each
 * replay. The core says what is loaded and what is copied, by functions of its own.
 *
 * Keys follow from the device's secret each time that one is needed, and are wiped before anything goes out:
 * no pointer or length that a fault has changed finds one in memory that is copied. struct gr_log lies in
 * secure memory, and gr_log_close wipes it.
 */
#ifndef GRAMOPHONE_LOG_H
#define GRAMOPHONE_LOG_H

#include "crypto.h"
#include "gramophone_log.h"
#include "log_crypto.h"
#include "replayer.h"
#include "tell.h"

enum { GR_DIGEST_BYTES = 32, GR_SECRET_BYTES = 32, GR_TRACE_ID_BYTES = 16, GR_INFO_MAX = 31 };

/* What the platform does for the log. */
struct gr_log_port {
    /* Keep the tail where the normal world cannot change it; then hand the entry out. False: one of the two
     * cannot be done. */
    bool (*keep)(void *ctx, const struct gr_log_entry *entry, const struct gr_log_tail *tail);
    /* The device's secret, from where it is kept. False: there is none. */
    bool (*secret)(void *ctx, uint8_t secret[GR_SECRET_BYTES]);
    void *ctx;
};

struct gr_log {
    struct gr_log_port port;
    struct gr_log_tail tail;
    uint8_t firmware[GR_DIGEST_BYTES];
    /* Of the latest trace whose signature was good; zeros before. */
    uint8_t subject[GR_DIGEST_BYTES], trace_id[GR_TRACE_ID_BYTES];
    uint32_t security_version;
#ifdef GRAMOPHONE_TRUST
    uint32_t policy_version;         /* of the trust policy under which it was accepted */
    uint8_t policy[GR_DIGEST_BYTES]; /* SHA-256 of that policy */
#endif
    uint32_t status; /* of the latest replay */
    /* Of the latest replay; zeros unless it succeeded. */
    uint8_t inputs[GR_DIGEST_BYTES], outputs[GR_DIGEST_BYTES];
    uint8_t prologue[GR_DIGEST_BYTES];
    struct gr_hash in, out;
    bool failed; /* a hash or a key could not be computed: there are no more entries or attestations */
};

/* Write the entry of a boot. `tail` is what the platform kept, its boots counted up. False: the log cannot be
 * kept, and nothing is to be replayed. */
GR_API bool gr_log_open(struct gr_log *log, const struct gr_log_port *port, const struct gr_log_tail *tail,
                        const uint8_t firmware[GR_DIGEST_BYTES]);

/* A key for one use. A fault in a pointer to it writes the key elsewhere: a few bytes off it stays inside of
 * this, further off `bytes` stays blank. So whoever derives a key begins with zeros, looks at `bytes` where
 * it lies, publishes nothing when it is blank, and wipes all of it. It has a frame of its own, too
 * (GR_NOINLINE): with a stack pointer that a fault has moved, it does not get back to what publishes. */
struct gr_log_key {
    uint8_t before[GR_DIGEST_BYTES], bytes[GR_DIGEST_BYTES], after[GR_DIGEST_BYTES];
};

/* Whether 32 bytes are all the same. */
GR_API bool gr_log_is_blank(const uint8_t *bytes);

/* A key of this device's, for a purpose of at most GR_INFO_MAX bytes. False: the device has no secret, or the
 * library failed. */
GR_API bool gr_log_derive(const struct gr_log *log, const char *info, uint32_t bytes, struct gr_log_key *key);

/* Write an entry on what the report says; false as for gr_log_open. */
GR_API bool gr_log_append(struct gr_log *log, enum gr_log_kind kind, const struct gr_report *report);

/* Wipe it. */
GR_API void gr_log_close(struct gr_log *log);

#endif
