/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: a profile's core and a nano driver. Here: the port (a GPU that reads as the input says), the
 * crypto seam's other half, the caller.
 *
 * Only the seam is replaced: signatures are good, unless the input says otherwise. Hashes are computed.
 */
#include "core.h"
#include "crypto.h"

#include <sys/mman.h>

enum { MOST_PORT_CALLS = 200000, MOST_BOUND = 1 << 16, CLOCK_DOUBLES_EVERY = 32 };

struct scene scene;

bool driver_may_write(uint32_t offset, uint32_t value);
bool __real_gr_driver_reset(struct gr_replayer *r);
bool __wrap_gr_driver_reset(struct gr_replayer *r);
void __real_gr_driver_set_table(struct gr_replayer *r, uint32_t space);
void __wrap_gr_driver_set_table(struct gr_replayer *r, uint32_t space);
#ifdef GRAMOPHONE_NETWORKS
bool __real_gr_driver_switch(struct gr_replayer *r);
bool __wrap_gr_driver_switch(struct gr_replayer *r);
#endif
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

uint64_t number_of(const struct record *record, size_t at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, record->data + at, bytes);
    return value;
}

/* The linker leads the core's calls here (--wrap), so that a write is known to be the driver's own. */
bool __wrap_gr_driver_reset(struct gr_replayer *r)
{
    scene.in_driver = true;
    scene.table_set = false;
    const bool done = __real_gr_driver_reset(r);
    memset(scene.written, 0, sizeof scene.written); /* what a reset leaves is taken as zero */
    scene.in_driver = false;
    return done;
}

void __wrap_gr_driver_set_table(struct gr_replayer *r, uint32_t space)
{
    PROMISE(space < GR_ADDRESS_SPACES, "the driver is given address spaces that there are");
    scene.in_driver = true;
    __real_gr_driver_set_table(r, space);
    scene.in_driver = false;
    scene.table_set = scene.has_tables[selected()] = true;
}

#ifdef GRAMOPHONE_NETWORKS
/* Where it fails, the GPU is reset. */
bool __wrap_gr_driver_switch(struct gr_replayer *r)
{
    scene.in_driver = true;
    const bool done = __real_gr_driver_switch(r);
    scene.in_driver = false;
    scene.table_set = done;
    scene.has_tables[selected()] |= done;
    return done;
}
#endif

/* Time goes faster and faster, so that every wait ends soon. */
static void tick(void)
{
    PROMISE(++scene.port_calls < MOST_PORT_CALLS, "every wait ends");
    if (scene.port_calls % CLOCK_DOUBLES_EVERY == 0 && scene.clock_step < (uint64_t)1 << 40)
        scene.clock_step = scene.clock_step * 2 + 1;
    scene.clock += scene.clock_step;
}

uint64_t gr_port_now_us(void)
{
    tick();
    return scene.clock;
}

#ifndef GRAMOPHONE_TRUST
const uint8_t *gr_port_key_again(void)
{
    static const uint8_t key[65] = {4};
    return key;
}
#endif

uint32_t gr_port_lowest_inverted(void)
{
    return ~(uint32_t)scene.numbers[MIN_SECURITY_VERSION];
}

static const struct fuzz_register *register_at(uint32_t offset)
{
    static uint16_t index[FUZZ_WINDOW_BYTES / 4]; /* + 1 */
    if (!index[fuzz_registers[0].offset / 4])
        for (size_t i = 0; i < FUZZ_REGISTERS; i++)
            index[fuzz_registers[i].offset / 4] = (uint16_t)(i + 1);
    if (offset >= FUZZ_WINDOW_BYTES || offset % 4 || !index[offset / 4])
        return NULL;
    return &fuzz_registers[index[offset / 4] - 1];
}

/* What the latest REGISTER record for it says; else what a GPU says that has done all that it was told. */
uint32_t gr_port_read32(uint32_t offset)
{
    const struct fuzz_register *reg = register_at(offset);
    PROMISE(reg && reg->readable, "only registers are read that the profile lets be read");
    tick();
    uint32_t value = scene.written[offset / 4];
    for (size_t i = 0; i < sizeof fuzz_reads / sizeof *fuzz_reads; i++)
        if (fuzz_reads[i].offset == offset)
            value = fuzz_reads[i].value;
    for (size_t i = 0; i < sizeof fuzz_busy / sizeof *fuzz_busy; i++)
        if (fuzz_busy[i].offset == offset)
            value &= ~fuzz_busy[i].bits; /* at once */
    for (size_t i = 0; i < scene.count; i++) {
        const struct record *r = &scene.records[i];
        const uint32_t place = (uint32_t)number_of(r, 0, 4);
        if (r->kind % KINDS != REGISTER ||
            (r->how & 1 ? place : fuzz_registers[place % FUZZ_REGISTERS].offset) != offset)
            continue;
        const uint32_t given = (uint32_t)number_of(r, 4, 4);
        switch (r->what % 5) {
        case 0: value = given; break;
        case 1: value ^= given; break;
        case 2: value = scene.port_calls & 1 ? given : value; break;
        case 3: value = scene.port_calls >= number_of(r, 8, 2) ? given : value; break;
        default: value = (uint32_t)scene.port_calls * given; break;
        }
    }
    scene.last_read[offset / 4] = value;
    scene.fresh[offset / 4] = true;
    return value;
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    const struct fuzz_register *reg = register_at(offset);
    PROMISE(!scene.loading, "loading writes no register");
    PROMISE(reg, "only registers of the profile are written");
    scene.writes++;
    scene.given_away = false;
    if (scene.in_driver) {
        PROMISE(driver_may_write(offset, value),
                "the driver writes its own registers, with addresses of its own");
    } else {
        PROMISE(!scene.is_changed, "a trace does no more once its file has changed");
        PROMISE(scene.table_set, "a trace writes registers only once translation is on");
        PROMISE(has_own_tables(), "a trace writes registers only while the GPU has its network's tables");
        PROMISE(reg->writable, "a trace writes only what the profile lists");
        PROMISE(!(value & ~reg->bits), "a trace sets only bits that the profile lists");
        PROMISE((value & reg->set) == reg->set, "bits that every write must set are set");
        for (size_t i = 0; reg->idle && i < sizeof fuzz_idle / sizeof *fuzz_idle; i++)
            PROMISE(scene.fresh[fuzz_idle[i].offset / 4] &&
                        ((scene.last_read[fuzz_idle[i].offset / 4] & fuzz_idle[i].mask) ==
                         fuzz_idle[i].value) == fuzz_idle[i].equal,
                    "this register is written only while the GPU is seen to be idle");
        if (offset == FUZZ_JOB_START) {
            check_tables();
            check_job();
#ifdef GRAMOPHONE_STREAMING
            check_job_pieces();
#endif
        }
    }
    scene.written[offset / 4] = value;
    memset(scene.fresh, 0, sizeof scene.fresh);
}

bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    PROMISE(line < GR_INTERRUPT_LINES, "lines that are waited for exist");
    tick();
    const bool active = scene.numbers[IRQ_PATTERN] >> scene.irq_waits++ % 64 & 1;
    scene.clock += active ? timeout_us / 2 : timeout_us;
    return active;
}

bool gr_fuzz_hash_fails(void);
bool gr_fuzz_hash_fails(void)
{
    return scene.loading && ++scene.hashes == scene.numbers[HASH_FAILS_AT];
}

uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64],
                             uint32_t good)
{
    (void)digest, (void)key, (void)signature;
    const bool is_wrong = ++scene.verdicts == scene.numbers[VERDICT_BAD_AT];
    if (good == GR_KNOWN_VERDICT)
        return is_wrong ? good : (uint64_t)GR_KNOWN_X << 32 | GR_BAD_VERDICT;
    return is_wrong ? GR_BAD_VERDICT : good;
}

static bool read_file(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    (void)ctx;
    if (++scene.file_reads == scene.numbers[READ_FAILS_AT] || offset > scene.file_bytes ||
        bytes > scene.file_bytes - offset)
        return false;
    uint8_t before = 0;
    for (uint64_t i = offset; i < offset + bytes; i++) {
        before |= scene.reads[i];
        scene.reads[i] = 1;
    }
    PROMISE(!before || !scene.loading, "no byte of the file is read twice");
    memcpy(to, scene.file + offset, bytes);
    if (!scene.loading && ++scene.replay_reads == scene.numbers[CHANGES_AT]) {
        to[scene.numbers[CHANGES_AT] * 4099 % bytes] ^= 0x40;
        scene.is_changed = true;
    }
    return true;
}

/* The carve-out, between pages that nobody may touch. */
static uint8_t *carveout(size_t bytes)
{
    enum { MOST = 8 << 20 };
    static uint8_t *area;
    if (!area) {
        area = mmap(NULL, MOST + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        PROMISE(area != MAP_FAILED, "there is memory for the carve-out");
    }
    static size_t open;
    if (open != bytes) {
        PROMISE(!mprotect(area + PAGE, MOST, PROT_NONE) &&
                    !mprotect(area + PAGE, bytes, PROT_READ | PROT_WRITE),
                "the carve-out can be fenced in");
        open = bytes;
    }
    memset(area + PAGE, FILLING, bytes);
    return area + PAGE;
}

static void default_numbers(void)
{
    const uint64_t numbers[NUMBERS] = {
        [CARVEOUT_PAGES] = 8,
        [VA_PAGES] = FUZZ_VA_PAGES,
        [IMAGE_BYTES] = 5000,
        [TIME_BUDGET] = 100000000,
        [CHUNK_BITS] = 12,
        [IMAGE_PARTS] = 1,
        [CORE_MASK] = 1,
        [DEVICE_PAGES] = MEMORY_PAGES,
        [IRQ_PATTERN] = UINT64_MAX,
        [CLOCK_START] = 1000,
    };
    memcpy(scene.numbers, numbers, sizeof numbers);
    for (size_t i = 0; i < scene.count; i++) {
        const struct record *r = &scene.records[i];
        if (r->kind % KINDS == NUMBER)
            scene.numbers[r->what % NUMBERS] = number_of(r, 0, 8);
    }
    uint64_t *n = scene.numbers;
    n[CARVEOUT_PAGES] %= 1 << 12;
    n[IMAGE_BYTES] %= 20000;
    n[IMAGE_PARTS] %= 3;
    n[IMAGE_BYTES] = n[IMAGE_PARTS] ? n[IMAGE_BYTES] : 0;
    n[OPTIONAL_PARTS] %= 3;
    n[CHUNK_BITS] = 12 + n[CHUNK_BITS] % 5;
    n[DEVICE_PAGES] = 1 + n[DEVICE_PAGES] % 1200;
    n[VA_PAGES] %= ((uint64_t)1 << (GR_VA_BITS - 12)) + 1;
    n[CLOCK_START] %= (uint64_t)1 << 56;
    n[CLOCK_STEP] %= 1 << 20;
    n[EXTRA_BYTES] %= 64;
}

static uint32_t load(void)
{
    const struct gr_policy policy = device_policy();
    const struct gr_source source = {read_file, NULL};
    memset(scene.reads, 0, scene.file_bytes);
    scene.file_reads = scene.hashes = scene.verdicts = 0;
    scene.port_calls = 0;
    scene.loading = true;
    const uint64_t writes = scene.writes;
    const uint32_t status =
        (uint32_t)gr_load(scene.replayer, &scene.memory, &source, scene.file_bytes, &policy);
    check_report(status);
    scene.loading = false;
    features_tell(true);
    PROMISE(scene.writes == writes, "loading writes no register");
    if (status != (uint32_t)GR_STATUS_OK)
        check_wiped(false);
    return status;
}

enum { SLOTS_KEPT = 16 };
static uint8_t *bound[SLOTS_KEPT], *copies[SLOTS_KEPT];
static uint64_t bound_bytes[SLOTS_KEPT];
static bool is_output[SLOTS_KEPT];

static void forget(uint32_t slot)
{
    free(bound[slot]);
    free(copies[slot]);
    bound[slot] = copies[slot] = NULL;
}

/* Each slot's data lies in an allocation of its own, of its own size. */
static void bind_slots(const struct record *r)
{
    for (uint32_t slot = 0; slot < SLOTS_KEPT; slot++) {
        struct gr_slot_info info;
        if (!gr_slot_info(scene.replayer, slot, &info) || info.bytes > MOST_BOUND ||
            (r && !(number_of(r, 0, 2) >> slot & 1)))
            continue;
        const uint64_t bytes = info.bytes;
        uint8_t *data = malloc(bytes), *copy = malloc(bytes);
        if (!data || !copy)
            abort(); /* no memory for a slot */
        memset(data, 0x30 + (int)slot, bytes);
        memset(copy, 0x30 + (int)slot, bytes);
        const uint64_t claimed = r && r->how & 2 ? number_of(r, 8, 8) : bytes;
        const enum gr_status status = gr_bind(scene.replayer, slot, data, claimed);
        /* STATE: the slot's network has a replay under way. */
        PROMISE((status == GR_STATUS_OK) == (claimed == bytes) || (HAS_STEPS && status == GR_STATUS_STATE),
                "data of another size is not bound");
        if (status == GR_STATUS_OK) {
            forget(slot);
            bound[slot] = data;
            copies[slot] = copy;
            bound_bytes[slot] = bytes;
            is_output[slot] = info.kind == GR_SLOT_KIND_OUTPUT;
        } else {
            free(data);
            free(copy);
        }
    }
    PROMISE(gr_bind(scene.replayer, UINT32_MAX, NULL, 0) == GR_STATUS_ARGUMENT ||
                gr_slot_count(scene.replayer) == 0,
            "a slot that there is not cannot be bound");
}

/* Inputs stay, and outputs of networks that are not at work. */
static void check_data(void)
{
    const struct part *own = &scene.parts[selected()];
    for (uint32_t slot = 0; slot < SLOTS_KEPT; slot++) {
        if (!copies[slot])
            continue;
        PROMISE((is_output[slot] && slot >= own->first_slot && slot < own->end_slot) ||
                    !memcmp(bound[slot], copies[slot], bound_bytes[slot]),
                "inputs are not written to, nor another network's outputs");
        memcpy(copies[slot], bound[slot], bound_bytes[slot]);
    }
}

static void run(const uint8_t *image)
{
#ifdef GRAMOPHONE_NETWORKS
    remember_others();
#endif
    scene.port_calls = 0;
    scene.is_changed = false;
    const uint64_t writes = scene.writes;
    const uint32_t status = (uint32_t)gr_run(scene.replayer);
    check_report(status);
    PROMISE(!scene.is_changed || status == (uint32_t)GR_STATUS_CHUNK ||
                status == (uint32_t)GR_STATUS_BUDGET || status == (uint32_t)GR_STATUS_MEMORY,
            "a file that has changed is noticed");
    features_tell(false);
    if (status == (uint32_t)GR_STATUS_STATE || status == (uint32_t)GR_STATUS_UNBOUND)
        PROMISE(scene.writes == writes, "without a trace, or without data, the GPU is left alone");
    else
        check_tables();
    PROMISE(!memcmp(scene.base, image, scene.image_end), "the image stays as it was signed");
    check_data();
#ifdef GRAMOPHONE_STREAMING
    static uint8_t known[1200 * PAGE];
    check_stays(known);
#endif
#ifdef GRAMOPHONE_NETWORKS
    check_others();
#endif
#ifdef GRAMOPHONE_SCHEDULE
    check_requests();
#endif
}

/* The caller's steps; without any: bind all, run twice. */
static void use(const uint8_t *image)
{
    bool any = false;
    for (size_t i = 0; i < scene.count; i++) {
        const struct record *r = &scene.records[i];
        if (r->kind % KINDS != STEP)
            continue;
        any = true;
#ifdef GRAMOPHONE_NETWORKS
        if (r->what % CALLS == SELECTS) {
            choose(r);
            continue;
        }
#endif
#ifdef GRAMOPHONE_SCHEDULE
        if (r->what % CALLS > SELECTS) {
            ask(r);
            check_data();
            continue;
        }
#endif
        switch (r->what % CALLS % OWN_CALLS) {
        case 0: bind_slots(NULL); break;
        case 1: bind_slots(r); break;
        default: run(image); break;
        }
    }
    if (!any) {
        bind_slots(NULL);
        run(image);
        run(image);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gr_replayer replayer;
    static uint8_t image[1200 * PAGE];
    static struct record records[MAX_RECORDS];
    const size_t count = size / RECORD_BYTES < MAX_RECORDS ? size / RECORD_BYTES : MAX_RECORDS;
    memset(&scene, 0, offsetof(struct scene, file));
    memset(&scene.file_bytes, 0, sizeof scene.file_bytes);
    memset(&scene.carveout_bytes, 0, sizeof scene - offsetof(struct scene, carveout_bytes));
    memcpy(records, data, count * RECORD_BYTES);
    scene.records = records;
    scene.count = count;
    scene.replayer = &replayer;
    memset(&replayer, 0xee, sizeof replayer);
    default_numbers();
    build_file();
    features_begin();
    const uint64_t bytes = scene.numbers[DEVICE_PAGES] * PAGE;
    scene.base = carveout(bytes);
    scene.memory = (struct gr_memory){scene.base, FUZZ_PHYS, bytes};
    scene.clock = scene.numbers[CLOCK_START];
    scene.clock_step = scene.numbers[CLOCK_STEP];
    if (load() == (uint32_t)GR_STATUS_OK) {
        PROMISE(scene.image_end <= sizeof image, "the image lies in the carve-out");
        memcpy(image, scene.base, scene.image_end);
#ifdef GRAMOPHONE_NETWORKS
        check_parts();
#endif
#ifdef GRAMOPHONE_STREAMING
        check_pieces();
#endif
        use(image);
        const uint64_t writes = scene.writes;
        const bool given_away = scene.given_away;
        scene.port_calls = 0;
        gr_unload(&replayer);
        PROMISE(!writes || given_away || scene.writes > writes, "a GPU that was used is reset");
        PROMISE(!scene.table_set, "no table is left in the GPU");
        check_wiped(true);
    }
#ifdef GRAMOPHONE_SCHEDULE
    forget_requests();
#endif
    features_end();
    for (uint32_t slot = 0; slot < SLOTS_KEPT; slot++)
        forget(slot);
    const uint64_t writes = scene.writes;
    PROMISE(gr_run(&replayer) == GR_STATUS_STATE && scene.writes == writes, "nothing is left to run");
    return 0;
}
