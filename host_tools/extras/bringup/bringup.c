/* SPDX-License-Identifier: BSD-2-Clause */
/* Bring-up: takes the place of main.c in a generated folder. It serves a mailbox with a request every
 * BRINGUP_STEP bytes, each a stage, and says on the console what it finds, in words. What is not the board's
 * own answer is not judged here: `gramophone bringup read` compares the lines with those of an emulation. */
#include "bringup.h"
#include "gramophone_mailbox.h"
#include "port.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);

_Noreturn void gr_main(void);
_Noreturn void gr_exception(uint64_t address, uint64_t earlier);

enum { DIGEST = 32, SHOWN_BYTES = 64, STAGES = 6 };

static const struct gr_memory memory = {(uint8_t *)(uintptr_t)GR_CARVEOUT_BASE, GR_CARVEOUT_BASE,
                                        GR_CARVEOUT_BYTES};

/* A request, and where it lies in the mailbox. */
struct stage {
    struct mailbox_request request;
    uint64_t at;
};

/* What replays of a stage took, and whether they gave the same. */
struct series {
    uint32_t replays, retries, differing, first_differing;
    uint64_t least_us, most_us, all_us;
    uint8_t digest[DIGEST];
};

static uint8_t *shared(uint64_t offset)
{
    return (uint8_t *)(uintptr_t)(GR_MAILBOX_AT + offset);
}

static bool is_shared(uint64_t offset, uint64_t bytes)
{
    return offset <= GR_MAILBOX_BYTES && bytes <= GR_MAILBOX_BYTES - offset;
}

static void say(const char *text)
{
    for (; *text; text++)
        gr_port_put(*text);
}

static void say_hex(uint64_t value, int digits)
{
    for (int shift = 4 * digits - 4; shift >= 0; shift -= 4)
        gr_port_put("0123456789abcdef"[value >> shift & 15]);
}

/* " NAME=VALUE". */
static void field(const char *name, uint64_t value)
{
    say(" ");
    say(name);
    say("=0x");
    say_hex(value, value >> 32 ? 16 : 8);
}

static void count(const char *name, uint64_t value)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    say(" ");
    say(name);
    say("=");
    while (n)
        gr_port_put(digits[--n]);
}

static bool stage(const char *name, bool is_ok)
{
    say("stage ");
    say(name);
    say(is_ok ? " ok" : " failed");
    return is_ok;
}

static void registers(void)
{
    static const uint32_t offsets[] = {BRINGUP_REGISTERS};
    const uint32_t n = sizeof offsets / sizeof *offsets;
    for (uint32_t i = 0; i < n; i++) {
        say("register");
        field("offset", offsets[i]);
        field("value", gr_port_read32(offsets[i]));
        say("\n");
    }
    stage("registers", true);
    count("count", n);
    say("\n");
}

static bool identity(void)
{
    const uint32_t seen = gr_port_read32(BRINGUP_IDENTITY);
    const bool is_ok = stage("identity", (seen & BRINGUP_IDENTITY_MASK) == BRINGUP_IDENTITY_VALUE);
    field("seen", seen);
    field("expected", BRINGUP_IDENTITY_VALUE);
    field("mask", BRINGUP_IDENTITY_MASK);
    say("\n");
    return is_ok;
}

static bool read_trace(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    const struct stage *s = ctx;
    if (offset > s->request.trace_bytes || bytes > s->request.trace_bytes - offset)
        return false;
    memcpy(to, shared(s->at + s->request.trace_offset + offset), bytes);
    return true;
}

/* A buffer of a stage, with its place in the whole mailbox. */
static struct mailbox_buffer buffer_of(const struct stage *s, uint32_t index)
{
    struct mailbox_buffer b;
    memcpy(&b, shared(s->at + sizeof s->request + index * sizeof b), sizeof b);
    b.offset += s->at;
    return b;
}

/* The request of a stage; false: there is none. */
static bool find(uint32_t number, struct stage *s)
{
    s->at = (uint64_t)number * BRINGUP_STEP;
    if (!is_shared(s->at, BRINGUP_STEP))
        return false;
    memcpy(&s->request, shared(s->at), sizeof s->request);
    const struct mailbox_request *r = &s->request;
    return r->magic == MAILBOX_REQUEST_MAGIC && r->buffer_count <= MAILBOX_BUFFERS &&
           r->trace_offset <= BRINGUP_STEP && r->trace_bytes <= BRINGUP_STEP - r->trace_offset;
}

/* Which kit the requests are of; they end with it, so that a part of them is none. */
static uint32_t kit_of_requests(void)
{
    uint32_t mark;
    memcpy(&mark, shared(BRINGUP_KIT_AT), sizeof mark);
    return mark;
}

static bool bind(struct gr_replayer *r, const struct stage *s)
{
    for (uint32_t i = 0; i < s->request.buffer_count; i++) {
        const struct mailbox_buffer b = buffer_of(s, i);
        if (!is_shared(b.offset, b.bytes) || gr_bind(r, b.slot, shared(b.offset), b.bytes) != GR_STATUS_OK) {
            r->report.status = GR_STATUS_REQUEST;
            return false;
        }
    }
    return true;
}

/* Of all outputs together; of each one where lines are wanted, with the words of small ones. */
static void hash(const struct gr_replayer *r, const struct stage *s, uint8_t digest[DIGEST], bool shows)
{
    for (uint32_t i = 0; i < DIGEST; i++)
        digest[i] = 0;
    for (uint32_t i = 0; i < s->request.buffer_count; i++) {
        const struct mailbox_buffer b = buffer_of(s, i);
        struct gr_slot_info info;
        uint8_t own[DIGEST];
        if (!gr_slot_info(r, b.slot, &info) || info.kind != BRINGUP_OUTPUT ||
            !gr_sha256(shared(b.offset), (size_t)b.bytes, own))
            continue;
        for (uint32_t k = 0; k < DIGEST; k++)
            digest[k] = (uint8_t)(digest[k] * 31 + own[k]);
        if (!shows)
            continue;
        say("output ");
        say(info.name);
        say(" sha256=");
        for (uint32_t k = 0; k < DIGEST; k++)
            say_hex(own[k], 2);
        for (uint32_t at = 0; b.bytes <= SHOWN_BYTES && at + 4 <= b.bytes; at += 4) {
            uint32_t word;
            memcpy(&word, shared(b.offset + at), sizeof word);
            say(at ? "," : " words=");
            say_hex(word, 8);
        }
        say("\n");
    }
}

static bool is_same(const uint8_t *a, const uint8_t *b)
{
    uint32_t difference = 0;
    for (uint32_t i = 0; i < DIGEST; i++)
        difference |= (uint32_t)(a[i] ^ b[i]);
    return !difference;
}

/* Load a stage's trace and replay it as often as it asks; outputs are shown after the first time. */
static void replay(struct gr_replayer *r, const struct stage *s, struct series *all, bool shows)
{
    const struct gr_policy policy = gr_device_policy();
    const struct gr_source source = {read_trace, (void *)(uintptr_t)s};
    *all = (struct series){.least_us = UINT64_MAX};
    if (gr_load(r, &memory, &source, s->request.trace_bytes, &policy) != GR_STATUS_OK)
        return;
    gr_accept(true);
    if (bind(r, s)) {
        while (all->replays < s->request.repeat && gr_run(r) == GR_STATUS_OK) {
            uint8_t digest[DIGEST];
            const uint64_t us = r->report.replay_us;
            hash(r, s, all->replays ? digest : all->digest, shows && !all->replays);
            if (all->replays && !is_same(digest, all->digest) && !all->differing++)
                all->first_differing = all->replays;
            all->retries += r->report.retries;
            all->least_us = us < all->least_us ? us : all->least_us;
            all->most_us = us > all->most_us ? us : all->most_us;
            all->all_us += us;
            all->replays++;
        }
    }
    gr_unload(r);
    gr_accept(false);
}

static void say_report(const struct gr_report *r, const struct series *all)
{
    field("status", (uint32_t)r->status);
    count("phase", (uint32_t)r->phase);
    count("action", r->action);
    count("op", r->op);
    field("offset", r->offset);
    field("expected", r->expected);
    field("seen", r->seen);
    count("jobs", r->jobs);
    count("replays", all->replays);
    count("retries", all->retries);
    if (all->replays) {
        count("us", all->least_us);
        count("most_us", all->most_us);
        count("mean_us", all->all_us / all->replays);
    }
    count("load_us", r->load_us);
}

/* A stage that is a request; whether it went as it should. */
static bool serve(struct gr_replayer *r, uint32_t number, const char *name, bool is_fault, bool shows)
{
    struct stage s;
    struct series all;
    if (!find(number, &s)) {
        stage(name, false);
        say(" request=missing\n");
        return false;
    }
    replay(r, &s, &all, shows);
    const enum gr_status wanted = is_fault ? GR_STATUS_FAULT : GR_STATUS_OK;
    const bool is_ok = stage(name, r->report.status == wanted && !all.differing);
    say_report(&r->report, &all);
    count("differing", all.differing);
    if (all.differing)
        count("first_differing", all.first_differing);
    say("\n");
    return is_ok;
}

/* Replays with fewer and more jobs, for the constants of a time model. */
static bool timing(struct gr_replayer *r)
{
    struct stage s;
    struct series all;
    uint32_t traces = 0;
    bool is_ok = true;
    for (uint32_t number = STAGES - 1; find(number, &s); number++, traces++) {
        replay(r, &s, &all, false);
        is_ok = is_ok && r->report.status == GR_STATUS_OK;
        say("time");
        count("trace", traces);
        say_report(&r->report, &all);
        say("\n");
    }
    is_ok = stage("timing", is_ok && traces);
    count("traces", traces);
    say("\n");
    return is_ok;
}

#define READ(name, value) __asm__ volatile("mrs %0, " name : "=r"(value))

static void world(void)
{
    uint64_t el, scr, midr, mpidr, frequency;
    READ("currentel", el);
    READ("scr_el3", scr);
    READ("midr_el1", midr);
    READ("mpidr_el1", mpidr);
    READ("cntfrq_el0", frequency);
    stage("world", (el >> 2) == 3);
    count("el", el >> 2);
    field("scr", scr);
    field("midr", midr);
    field("mpidr", mpidr);
    count("counter_hz", frequency);
    say("\n");
}

static bool hand_back(void)
{
    const uint32_t failed = gr_board_gpu_off();
    const uint32_t *words = (const uint32_t *)(const void *)memory.base;
    uint64_t left = 0;
    for (uint64_t i = 0; i < BRINGUP_STEP / 4; i++)
        left += words[i] != 0 || words[memory.bytes / 4 - 1 - i] != 0;
    const bool is_ok = stage("handed-back", !failed && !left);
    field("failed", failed);
    count("left", left);
    say("\n");
    return is_ok;
}

/* The stages that need a GPU which answers; whether all went as they should. */
static bool run(struct gr_replayer *r)
{
    if (!identity())
        return false;
    registers();
    bool is_ok = serve(r, 0, "irq", false, false);
    is_ok = serve(r, 1, "fault", true, false) && is_ok;
    is_ok = serve(r, 2, "copy", false, true) && is_ok;
    is_ok = serve(r, 3, "lenet", false, true) && is_ok;
    is_ok = serve(r, 4, "thousand", false, false) && is_ok;
    return timing(r) && is_ok;
}

_Noreturn void gr_main(void)
{
    struct gr_replayer replayer;
    gr_accept(false);
    gr_board_start();
#ifdef GR_MMU
    gr_mmu_on();
#endif
    say("\n");
    stage("speaks", true);
    field("gpu", GR_GPU_BASE);
    field("carveout", GR_CARVEOUT_BASE);
    field("mailbox", GR_MAILBOX_BASE);
    field("kit", BRINGUP_KIT);
    field("request", kit_of_requests());
    say("\n");
    const uint32_t failed = gr_board_gpu_on();
    stage("power", !failed);
    field("failed", failed);
    say("\n");
    bool is_ok = !failed && run(&replayer);
    world();
    is_ok = hand_back() && is_ok;
    gr_exit('=', (uint32_t)(is_ok ? GR_STATUS_OK : GR_STATUS_DIVERGED), is_ok ? EXIT_OK : EXIT_REFUSED);
}

_Noreturn void gr_exception(uint64_t address, uint64_t earlier)
{
    if (!earlier) {
        say("\nexception");
        field("address", address);
        say("\n");
        struct gr_replayer all = {.memory = memory, .high = memory.base, .touched = gr_is_accepted()};
        gr_unload(&all);
    }
    gr_exit('!', (uint32_t)(earlier ? earlier : address), EXIT_EXCEPTION);
}
