/* SPDX-License-Identifier: BSD-2-Clause */
/* The replay log: keys, entries, and what the core says for them. */
#include "log.h"
#include "internal.h"

bool gr_log_is_blank(const uint8_t *bytes)
{
    uint8_t differences = 0;
    for (uint32_t i = 1; i < GR_DIGEST_BYTES; i++)
        differences |= bytes[i] ^ bytes[0];
    return !differences;
}

/* HKDF-Expand of RFC 5869 for one block: HMAC(secret, info || 1). Verifiers derive keys in the same way. */
GR_NOINLINE bool gr_log_derive(const struct gr_log *log, const char *info, uint32_t bytes,
                               struct gr_log_key *key)
{
    struct gr_log_key secret = {{0}, {0}, {0}};
    uint8_t text[GR_INFO_MAX + 1];
    if (bytes > GR_INFO_MAX)
        return false;
    memcpy(text, info, bytes);
    text[bytes] = 1;
    const bool good = log->port.secret(log->port.ctx, secret.bytes) && !gr_log_is_blank(secret.bytes) &&
                      gr_hmac(secret.bytes, text, bytes + 1, key->bytes);
    gr_wipe(&secret, sizeof secret);
    return good;
}

/* Whether HMAC is what it must be: a known answer, because an instruction that stays changed makes each MAC
 * wrong, or one that others can compute. */
GR_NOINLINE static bool is_hmac_known(void)
{
    static const uint8_t zeros[GR_SECRET_BYTES] = {0},
                         known[8] = {0xa8, 0x8e, 0x21, 0xbe, 0xfb, 0xb3, 0xf7, 0xd3};
    uint8_t mac[GR_DIGEST_BYTES] = {0};
    return gr_hmac(zeros, "gramophone log", 14, mac) && gr_is_same(mac, known, sizeof known);
}

/* Give an entry its MAC. */
GR_NOINLINE static bool seal(const struct gr_log *log, struct gr_log_entry *e)
{
    static const char info[] = "gramophone log";
    struct gr_log_key key = {{0}, {0}, {0}};
    const bool good = gr_log_derive(log, info, sizeof info - 1, &key) && !gr_log_is_blank(key.bytes) &&
                      gr_hmac(key.bytes, e, offsetof(struct gr_log_entry, mac), e->mac);
    gr_wipe(&key, sizeof key);
    return good;
}

/* Whether it is the entry that was asked for, and says of no load or replay that it went well without a
 * trace. Looked at once more when all is written: one fault must not make another entry of it. */
static bool is_asked_for(const volatile struct gr_log_entry *e, enum gr_log_kind kind,
                         const uint8_t subject[GR_DIGEST_BYTES])
{
    return e->kind == kind &&
           (kind == GR_LOG_KIND_BOOT || e->status != GR_STATUS_OK || !gr_log_is_blank(subject));
}

bool gr_log_open(struct gr_log *log, const struct gr_log_port *port, const struct gr_log_tail *tail,
                 const uint8_t firmware[GR_DIGEST_BYTES])
{
    const struct gr_report report = {.status = GR_STATUS_OK};
    memset(log, 0, sizeof *log);
    log->failed = !is_hmac_known();
    log->port = *port;
    log->tail = *tail;
    memcpy(log->firmware, firmware, GR_DIGEST_BYTES);
    return gr_log_append(log, GR_LOG_KIND_BOOT, &report);
}

/* In pieces so small that compilers copy them without a length: with a flipped bit, the length of a memcpy
 * would take along what lies behind the tail. */
GR_INLINE void copy_tail(struct gr_log_tail *to, const struct gr_log_tail *from)
{
    to->entries = from->entries;
    to->boots = from->boots;
    memcpy(to->hash, from->hash, 16);
    memcpy(to->hash + 16, from->hash + 16, sizeof to->hash - 16);
}

/* noipa: audit-firmware looks for the calls that write each kind of entry (GF701), so neither may this
 * function become a part of its callers nor its parameters change. clang has no such attribute. */
#ifdef __clang__
__attribute__((noinline))
#else
__attribute__((noipa))
#endif
bool gr_log_append(struct gr_log *log, enum gr_log_kind kind, const struct gr_report *report)
{
    struct gr_log_entry e;
    struct gr_log_tail tail;
    copy_tail(&tail, &log->tail);
    memset(&e, 0, sizeof e);
    e.magic = GR_LOG_ENTRY_MAGIC;
    e.sequence = tail.entries;
    e.boot = tail.boots;
    e.kind = kind;
    e.status = (uint32_t)report->status;
    e.phase = (uint32_t)report->phase;
    e.action = report->action;
    e.op = report->op;
    e.offset = report->offset;
    e.expected = report->expected;
    e.seen = report->seen;
    e.retries = report->retries;
    memcpy(e.previous, tail.hash, sizeof e.previous);
    if (kind == GR_LOG_KIND_BOOT) {
        memcpy(e.subject, log->firmware, sizeof e.subject);
    } else {
        memcpy(e.subject, log->subject, sizeof e.subject);
        memcpy(e.trace_id, log->trace_id, sizeof e.trace_id);
        e.security_version = log->security_version;
    }
#ifdef GRAMOPHONE_TRUST
    if (kind == GR_LOG_KIND_LOAD) {
        memcpy(e.inputs, log->policy, sizeof e.inputs);
        memcpy(e.outputs, &log->policy_version, sizeof log->policy_version);
    }
#endif
    if (kind == GR_LOG_KIND_REPLAY) {
        log->status = e.status;
        if (report->status != GR_STATUS_OK) {
            memset(log->inputs, 0, sizeof log->inputs);
            memset(log->outputs, 0, sizeof log->outputs);
        }
        memcpy(e.inputs, log->inputs, sizeof e.inputs);
        memcpy(e.outputs, log->outputs, sizeof e.outputs);
    }
    if (log->failed || !is_asked_for(&e, kind, log->subject) || !seal(log, &e) ||
        !gr_sha256(&e, sizeof e, tail.hash)) {
        log->failed = true;
        gr_wipe(&e, sizeof e); /* a key may have been written to it */
        return false;
    }
    tail.entries++;
    copy_tail(&log->tail, &tail);
    return log->port.keep(log->port.ctx, &e, &tail);
}

void gr_log_close(struct gr_log *log)
{
    uint8_t digest[GR_DIGEST_BYTES];
    (void)gr_hash_end(&log->in, digest); /* what a library holds for them */
    (void)gr_hash_end(&log->out, digest);
    gr_wipe(log, sizeof *log);
}

void gr_log_begin(struct gr_log *log)
{
    memset(log->subject, 0, sizeof log->subject);
    memset(log->trace_id, 0, sizeof log->trace_id);
    memset(log->inputs, 0, sizeof log->inputs);
    memset(log->outputs, 0, sizeof log->outputs);
    log->security_version = 0;
    log->status = 0;
#ifdef GRAMOPHONE_TRUST
    memset(log->policy, 0, sizeof log->policy);
    log->policy_version = 0;
#endif
}

#ifdef GRAMOPHONE_TRUST
void gr_log_policy(struct gr_log *log, const uint8_t *policy, uint32_t bytes, uint32_t version)
{
    if (!gr_sha256(policy, bytes, log->policy))
        log->failed = true;
    log->policy_version = version;
}
#endif

void gr_log_trace(struct gr_log *log, const uint8_t *head, uint32_t head_bytes, const uint8_t *manifest)
{
    if (!gr_sha256(head, head_bytes, log->subject))
        log->failed = true;
    memcpy(log->trace_id, manifest + GR_MANIFEST_AT_TRACE_ID, sizeof log->trace_id);
    log->security_version = gr_load32(gr_aligned(manifest) + GR_MANIFEST_AT_SECURITY_VERSION);
}

#ifdef GRAMOPHONE_LOG_HASHES
void gr_log_part(struct gr_log *log, enum gr_log_part part)
{
    bool good = true;
    switch (part) {
    case GR_LOG_PROLOGUE: good = gr_hash_begin(&log->in); break;
    case GR_LOG_PROLOGUE_DONE: good = gr_hash_end(&log->in, log->prologue); break;
    case GR_LOG_REPLAY:
        good = gr_hash_begin(&log->in) && gr_hash_begin(&log->out) &&
               gr_hash_add(&log->in, log->prologue, sizeof log->prologue);
        break;
    case GR_LOG_REPLAY_DONE:
        good = gr_hash_end(&log->in, log->inputs) && gr_hash_end(&log->out, log->outputs);
        break;
    }
    if (!good)
        log->failed = true;
}

void gr_log_slot(struct gr_log *log, uint32_t slot, uint64_t bytes, bool to_gpu)
{
    const uint64_t record[] = {slot, bytes};
    gr_log_bytes(log, (const uint8_t *)record, sizeof record, to_gpu);
}

void gr_log_bytes(struct gr_log *log, const uint8_t *data, uint64_t bytes, bool to_gpu)
{
    if (!gr_hash_add(to_gpu ? &log->in : &log->out, data, (size_t)bytes))
        log->failed = true;
}
#endif /* GRAMOPHONE_LOG_HASHES */
