/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of gramophone_pta.c, in a pseudo-TA with a replay log (docs/LOG.md).
 *
 * The log belongs to the boot: it outlives sessions. Its entries wait here until a client takes them; when
 * there is no room for another, nothing is loaded or replayed. The tail is kept by the TA, in the TEE's
 * secure storage, before it lets an entry, an attestation or an output out: so nobody else may open sessions.
 */
#ifndef GR_TA_ONLY
#error "with a replay log GRAMOPHONE_TA_ONLY must be y: the log's tail comes from the TA"
#endif
#ifdef CFG_WITH_PAGER
#error "with a replay log the core cannot be paged: its code could not be measured"
#endif

#include <kernel/linker.h>

enum { WAITING_MAX = 64 };

static struct {
    struct gr_log log;
    struct gr_log_entry waiting[WAITING_MAX]; /* a ring: `count` entries from `first` on */
    uint32_t first, count;
    bool open;
#ifdef GRAMOPHONE_ATTEST
    uint8_t nonce[GR_NONCE_MAX];
    uint8_t attestation[GR_ATTESTATION_MAX];
#endif
} evidence;

static bool keep_entry(void *ctx __unused, const struct gr_log_entry *entry,
                       const struct gr_log_tail *tail __unused)
{
    if (evidence.count >= WAITING_MAX)
        return false;
    evidence.waiting[(evidence.first + evidence.count) % WAITING_MAX] = *entry;
    evidence.count++;
    return true;
}

static bool give_secret(void *ctx __unused, uint8_t secret[GR_SECRET_BYTES])
{
    return gr_optee_secret(secret);
}

static bool log_is_ready(void)
{
    return evidence.open && evidence.count < WAITING_MAX;
}

/* An entry on what the report says; without one, there has been no load or replay. */
static TEE_Result log_append(enum gr_log_kind kind, TEE_Result result)
{
    return gr_log_append(&evidence.log, kind, &device.replayer.report) ? result : result_of(GR_STATUS_LOG);
}

/* What refuses a load or a replay, also in the report. */
static TEE_Result log_refuses(void)
{
    device.replayer.report = (struct gr_report){.status = GR_STATUS_LOG};
    return result_of(GR_STATUS_LOG);
}

/* For another user: attestations are of no earlier replay. */
static void log_forget_replay(void)
{
    evidence.log.status = 0;
    memset(evidence.log.inputs, 0, sizeof evidence.log.inputs);
    memset(evidence.log.outputs, 0, sizeof evidence.log.outputs);
}

static void log_forget_trace(void)
{
    gr_log_begin(&evidence.log);
}

/* The core's code and constants: none of them is relocated, and of the code only __text_data is written. */
static bool measure(uint8_t digest[GR_DIGEST_BYTES])
{
    struct gr_hash hash = {};
    return gr_hash_begin(&hash) &&
           gr_hash_add(&hash, __text_start, (size_t)(__text_data_start - __text_start)) &&
           gr_hash_add(&hash, __text_data_end, (size_t)(__text_end - __text_data_end)) &&
           gr_hash_add(&hash, __rodata_start, (size_t)(__rodata_end - __rodata_start)) &&
           gr_hash_end(&hash, digest);
}

static TEE_Result log_open(TEE_Param params[TEE_NUM_PARAMS])
{
    const struct gr_log_port port = {keep_entry, give_secret, NULL};
    uint8_t firmware[GR_DIGEST_BYTES];
    struct gr_log_tail tail;
    if (params[0].memref.size != sizeof tail)
        return TEE_ERROR_BAD_PARAMETERS;
    if (evidence.open)
        return TEE_SUCCESS;
    copy(&tail, params[0].memref.buffer, sizeof tail);
    tail.boots++;
    evidence.first = 0;
    evidence.count = 0;
    evidence.open = measure(firmware) && gr_log_open(&evidence.log, &port, &tail, firmware);
    return result_of(evidence.open ? GR_STATUS_OK : GR_STATUS_LOG);
}

static TEE_Result log_tail(TEE_Param params[TEE_NUM_PARAMS])
{
    if (!evidence.open)
        return TEE_ERROR_BAD_STATE;
    return answer(&params[0], &evidence.log.tail, sizeof evidence.log.tail);
}

static TEE_Result get_entries(TEE_Param params[TEE_NUM_PARAMS])
{
    const size_t bytes = sizeof evidence.waiting[0], room = params[0].memref.size;
    const uint32_t taken = (uint32_t)MIN(room / bytes, (size_t)evidence.count);
    uint8_t *to = params[0].memref.buffer;
    params[0].memref.size = (taken ? taken : evidence.count) * bytes;
    if (evidence.count && !taken)
        return TEE_ERROR_SHORT_BUFFER;
    for (uint32_t i = 0; i < taken; i++)
        copy(to + i * bytes, &evidence.waiting[(evidence.first + i) % WAITING_MAX], bytes);
    evidence.first = (evidence.first + taken) % WAITING_MAX;
    evidence.count -= taken;
    return TEE_SUCCESS;
}

#ifdef GRAMOPHONE_ATTEST
static TEE_Result attest(TEE_Param params[TEE_NUM_PARAMS])
{
    const size_t nonce_bytes = params[0].memref.size;
    uint32_t bytes = 0;
    if (nonce_bytes < GR_NONCE_MIN || nonce_bytes > GR_NONCE_MAX)
        return TEE_ERROR_BAD_PARAMETERS;
    if (!evidence.open)
        return TEE_ERROR_BAD_STATE;
    copy(evidence.nonce, params[0].memref.buffer, nonce_bytes);
    bytes = gr_attest(&evidence.log, evidence.nonce, (uint32_t)nonce_bytes, &gr_device, sizeof gr_device,
                      evidence.attestation);
    return bytes ? answer(&params[1], evidence.attestation, bytes) : result_of(GR_STATUS_LOG);
}

static TEE_Result device_key(TEE_Param params[TEE_NUM_PARAMS])
{
    uint8_t key[GRAMOPHONE_DEVICE_KEY_BYTES] = {};
    if (!evidence.open)
        return TEE_ERROR_BAD_STATE;
    if (!gr_attest_key(&evidence.log, key))
        return result_of(GR_STATUS_LOG);
    return answer(&params[0], key, sizeof key);
}
#endif
