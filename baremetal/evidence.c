/* SPDX-License-Identifier: BSD-2-Clause */
/* A part of main.c, in firmware with a replay log: the log's entries and the attestation in the mailbox.
 * Memory of the normal world is only written, but for the buffers' places and the nonce, which are copied
 * once. */
#ifdef GRAMOPHONE_ATTEST
#define ATTESTS true
#else
#define ATTESTS false
#endif

extern const uint8_t gr_rom_start[], gr_rom_end[]; /* firmware.ld */

/* startup.S. Called before anything goes out: compilers and libraries leave pieces of keys on the stack. */
void gr_wipe_stack(void);

struct evidence {
    struct gr_log log;
    struct mailbox_buffer entries, nonce, attestation; /* of zero bytes: not given */
    uint64_t used;                                     /* bytes of entries */
};

/* Copy to the normal world `bytes` of what has room for `most`, which is a number in the code. Not memcpy:
 * one flipped bit of its length made the loop go on through all memory above the source. Here
 * what is beyond the source's room is not read, however one of the counts is changed. */
static inline __attribute__((always_inline)) void publish(uint64_t offset, const void *from, uint32_t bytes,
                                                          const uint32_t most)
{
    volatile uint8_t *const to = shared(offset);
    const uint8_t *const source = from;
    for (uint32_t i = 0; i < bytes && i < most; i++) {
        __asm__ volatile("" : "+r"(i)); /* it stays an index, which the compiler makes no pointer of */
        to[i] = source[i];
    }
}

/* From a register: no memory is read. */
static void write_size(const struct mailbox_buffer *b, uint64_t bytes)
{
    volatile uint8_t *const to = shared(b->offset);
    for (uint32_t i = 0; i < sizeof(struct mailbox_message); i++)
        to[i] = (uint8_t)(bytes >> 8 * i);
}

static bool keep(void *ctx, const struct gr_log_entry *entry, const struct gr_log_tail *tail)
{
    struct evidence *e = ctx;
    if (!gr_board_keep_tail(tail))
        return false;
    const uint64_t at = sizeof(struct mailbox_message) + e->used;
    if (sizeof *entry > e->entries.bytes - at) /* open_evidence has seen to it that this is not so */
        return false;
    gr_wipe_stack();
    publish(e->entries.offset + at, entry, sizeof *entry, sizeof *entry);
    e->used += sizeof *entry;
    write_size(&e->entries, e->used);
    return true;
}

static bool give_secret(void *ctx, uint8_t secret[GR_SECRET_BYTES])
{
    (void)ctx;
    return gr_board_secret(secret);
}

/* Copy the buffers that are for evidence; whether they are well formed. */
static bool find_buffers(struct evidence *e, uint32_t count)
{
    struct mailbox_buffer *const wanted[] = {&e->entries, &e->nonce, &e->attestation};
    for (uint32_t i = 0; i < count; i++) {
        struct mailbox_buffer b;
        read_buffer(&b, i);
        if (b.slot < MAILBOX_LOG || b.slot > MAILBOX_ATTESTATION)
            continue;
        if (!is_shared(b.offset, b.bytes) || !b.bytes)
            return false;
        *wanted[b.slot - MAILBOX_LOG] = b;
    }
    const bool asked = e->nonce.bytes;
    return asked == (e->attestation.bytes != 0) && (!asked || ATTESTS) &&
           (!asked || (e->nonce.bytes - 8 <= 64 - 8 && e->attestation.bytes >= MAILBOX_ATTESTATION_BYTES));
}

/* GR_STATUS_OK once the log's first entry of this boot is written, and there is room for all others. Not a
 * part of serve: a return address that a fault has changed would end there, among the replays. */
__attribute__((noinline)) static enum gr_status open_evidence(struct evidence *e,
                                                              const struct mailbox_request *request)
{
    uint8_t firmware[GR_DIGEST_BYTES];
    struct gr_log_tail tail;
    const struct gr_log_port port = {keep, give_secret, e};
    const uint64_t most =
        sizeof(struct mailbox_message) + (UINT64_C(2) + request->repeat) * sizeof(struct gr_log_entry);
    if (!find_buffers(e, request->buffer_count))
        return GR_STATUS_REQUEST;
    if (e->entries.bytes < most)
        return GR_STATUS_LOG;
    const bool good = gr_sha256(gr_rom_start, (uintptr_t)gr_rom_end - (uintptr_t)gr_rom_start, firmware) &&
                      gr_board_start_log(&tail) && gr_log_open(&e->log, &port, &tail, firmware);
    return good ? GR_STATUS_OK : GR_STATUS_LOG;
}

/* Answer the nonce. */
static bool attest(struct evidence *e)
{
#ifdef GRAMOPHONE_ATTEST
    uint8_t nonce[GR_NONCE_MAX], out[GR_ATTESTATION_MAX] = {0};
    const uint64_t room = e->attestation.bytes - sizeof(struct mailbox_message);
    if (!e->nonce.bytes)
        return true;
    memcpy(nonce, shared(e->nonce.offset), (size_t)e->nonce.bytes);
    const uint32_t bytes =
        gr_attest(&e->log, nonce, (uint32_t)e->nonce.bytes, &gr_device, sizeof gr_device, out);
    if (!bytes || bytes > room)
        return false;
    gr_wipe_stack();
    publish(e->attestation.offset + sizeof(struct mailbox_message), out, bytes, sizeof out);
    write_size(&e->attestation, bytes);
#else
    (void)e;
#endif
    return true;
}

static uint32_t serve(struct gr_replayer *replayer, struct mailbox_request *request)
{
    struct evidence e = {0};
    struct gr_policy policy = gr_device_policy();
    const struct gr_source source = {read_trace, request};
    struct gr_report *report = &replayer->report;
    uint32_t replays = 0;
    const enum gr_status status = open_evidence(&e, request);
    if (status != GR_STATUS_OK) {
        *report = (struct gr_report){.status = status};
        gr_log_close(&e.log);
        return 0;
    }
    policy.log = &e.log;
    const bool loaded = gr_load(replayer, &memory, &source, request->trace_bytes, &policy) == GR_STATUS_OK;
    gr_accept(loaded);
    if (!gr_log_append(&e.log, loaded ? GR_LOG_KIND_LOAD : GR_LOG_KIND_REFUSAL, report))
        report->status = GR_STATUS_LOG;
    for (uint32_t i = 0; i < request->repeat && report->status == GR_STATUS_OK; i++) {
        if (!bind(replayer, request->buffer_count, i))
            break;
        const bool done = gr_run(replayer) == GR_STATUS_OK;
        if (!gr_log_append(&e.log, GR_LOG_KIND_REPLAY, report))
            report->status = GR_STATUS_LOG;
        if (done && report->status == GR_STATUS_OK)
            replays++;
    }
    if (loaded)
        gr_unload(replayer);
    if (!attest(&e) && report->status == GR_STATUS_OK)
        report->status = GR_STATUS_LOG;
    gr_log_close(&e.log);
    return replays;
}
