/*
 * QEMU plugin: a virtual GPU as a memory-mapped device with its interrupt, on the machine "virt".
 *
 *   -plugin qemu_plugin.so,gpu=v3d42,base=0xb000000,irq=100,capture=run.cap,stats=run.json
 *   -plugin
 * qemu_plugin.so,gpu=v3d42,base=0xb000000,irq=100,secure=on,carveout=0x60000000:0x4000000,stats=run.json
 *
 *   gpu=NAME           GPU profile (default v3d42)
 *   base=ADDR          physical address of the first three blocks of the register window (of all of it,
 * without map) map=OFF:SIZE:ADDR  puts a further piece of the register window elsewhere; may be repeated
 *   irq=N              shared peripheral interrupt of line 0; line i is N + i
 *   latency=NS         from job start to completion, and of busy bits; virtual time (default 0)
 *   threads=N          worker threads (default: one a host core)
 *   ram=ADDR           where guest RAM starts (default 0x40000000, as on "virt")
 *   secure=on          the device answers the secure world only, and its memory is the carve-out only
 *   carveout=ADDR:SIZE secure RAM to add; the normal world gets an external abort there, even over its own
 * RAM capture=FILE       record (recorder.h) stats=FILE         counters as JSON, at exit hang=N, fault=N
 * test aids: compute job N never completes, or faults
 *
 * The device runs in QEMU's threads under its big lock. Completions come from a timer of the virtual clock,
 * also with no latency: unlike a bottom half, it fires at a defined guest instruction under -icount. Guest
 * time stands still while shaders run.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output_file.h"
#include "qemu_abi.h"
#include "recorder.h"
#include "vgpu.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

int qemu_plugin_version = PLUGIN_VERSION;

enum {
    MAX_PIECES = 8,
    EXIT_GPU_FAILED = 3,
    DEVICE_PRIORITY = 100,
    WALL_PRIORITY = 50,
    CARVEOUT_PRIORITY = 10
};

/* A piece of the register window and where the guest finds it. */
struct piece {
    uint64_t offset, size, address;
};

struct memory {
    uint64_t base, size;
    uint8_t *host;
};

static struct {
    const char *gpu_name, *capture_path, *stats_path;
    uint64_t base, irq, ram_base, carveout_base, carveout_size;
    bool has_base, has_irq, secure;
    struct piece pieces[MAX_PIECES];
    unsigned piece_count;
    struct vgpu_options options;

    vgpu *gpu;
    struct recorder *recorder;
    struct memory memory; /* all that the GPU reaches */
    void *irqs[16];
    QEMUTimer *timer;
    struct qemu_notifier machine_done;
    uint64_t secure_accesses, normal_accesses, refused_accesses, refused_memory;
    bool finished;
} device = {.gpu_name = "v3d42", .ram_base = 0x40000000};

__attribute__((noreturn)) static void die(const char *what, const char *why)
{
    fprintf(stderr, "gramophone: %s: %s\n", what, why);
    exit(1);
}

static uint64_t now_ns(void *ctx)
{
    (void)ctx;
    return (uint64_t)qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static void put_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if ((unsigned char)*text >= 0x20)
            fputc(*text, file);
    }
    fputc('"', file);
}

static void put_stats(FILE *file)
{
    struct vgpu_counters c;
    const char *error = vgpu_error(device.gpu);
    vgpu_counters_get(device.gpu, &c);
    fputs("{\"gpu\": ", file);
    put_json_string(file, device.gpu_name);
    fputs(", \"error\": ", file);
    if (error)
        put_json_string(file, error);
    else
        fputs("null", file);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"reads", c.reads},
        {"writes", c.writes},
        {"interrupts", c.interrupts},
        {"jobs", c.jobs},
        {"list_jobs", c.list_jobs},
        {"instructions", c.instructions},
        {"bytes_read", c.bytes_read},
        {"bytes_written", c.bytes_written},
        {"faults", c.faults},
        {"resets", c.resets},
        {"secure_accesses", device.secure_accesses},
        {"normal_accesses", device.normal_accesses},
        {"refused_accesses", device.refused_accesses},
        {"refused_memory", device.refused_memory},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        fprintf(file, ", \"%s\": %" PRIu64, numbers[i].name, numbers[i].value);
    fputs("}\n", file);
}

static void write_stats(void)
{
    struct output_file out;
    bool good = output_open(&out, device.stats_path);
    if (good) {
        put_stats(out.file);
        good = output_close(&out, !ferror(out.file));
    }
    if (!good)
        fprintf(stderr, "gramophone: %s: %s\n", device.stats_path, strerror(errno));
}

static void finish(void)
{
    if (device.finished || !device.gpu)
        return;
    device.finished = true;
    if (device.recorder && !recorder_close(device.recorder))
        fprintf(stderr, "gramophone: %s: writing failed\n", device.capture_path);
    if (device.stats_path)
        write_stats();
}

/* After every call that may run the GPU. */
static void stop_on_error(void)
{
    const char *error = vgpu_error(device.gpu);
    if (error && !device.finished) {
        fprintf(stderr, "gramophone: virtual GPU: %s\n", error);
        finish();
        exit(EXIT_GPU_FAILED);
    }
}

static uint8_t *gpu_memory(void *ctx, uint64_t pa, uint64_t *bytes)
{
    (void)ctx;
    if (pa < device.memory.base || pa - device.memory.base >= device.memory.size)
        return NULL;
    *bytes = device.memory.size - (pa - device.memory.base);
    return device.memory.host + (pa - device.memory.base);
}

static void gpu_interrupt(void *ctx, unsigned line, bool level)
{
    (void)ctx;
    qemu_set_irq(device.irqs[line], level);
}

static void gpu_schedule(void *ctx, uint64_t delay_ns)
{
    timer_mod_ns(device.timer, (int64_t)(now_ns(ctx) + delay_ns));
}

static void on_timer(void *opaque)
{
    uint64_t now = now_ns(opaque);
    cpu_disable_ticks();
    vgpu_advance(device.gpu, now);
    cpu_enable_ticks();
    stop_on_error();
}

/* Count an access and tell whether it may pass. */
static bool admit(qemu_attrs attrs)
{
    bool secure = attrs >> QEMU_ATTRS_SECURE_BIT & 1;
    *(secure ? &device.secure_accesses : &device.normal_accesses) += 1;
    if (device.secure && !secure) {
        device.refused_accesses++;
        return false;
    }
    return true;
}

static qemu_result device_read(void *opaque, hwaddr offset, uint64_t *value, unsigned size, qemu_attrs attrs)
{
    const struct piece *piece = opaque;
    (void)size;
    *value = 0;
    if (!admit(attrs))
        return QEMU_TX_ERROR;
    vgpu_advance(device.gpu, now_ns(NULL));
    *value = vgpu_read32(device.gpu, (uint32_t)(piece->offset + offset));
    stop_on_error();
    return QEMU_TX_OK;
}

static qemu_result device_write(void *opaque, hwaddr offset, uint64_t value, unsigned size, qemu_attrs attrs)
{
    const struct piece *piece = opaque;
    (void)size;
    if (!admit(attrs))
        return QEMU_TX_ERROR;
    uint64_t now = now_ns(NULL);
    cpu_disable_ticks();
    vgpu_advance(device.gpu, now);
    vgpu_write32(device.gpu, (uint32_t)(piece->offset + offset), (uint32_t)value);
    cpu_enable_ticks();
    stop_on_error();
    return QEMU_TX_OK;
}

static const struct qemu_region_ops device_ops = {
    .read_with_attrs = device_read,
    .write_with_attrs = device_write,
    .endianness = QEMU_LITTLE_ENDIAN,
    .valid = {.min = 4, .max = 4},
    .impl = {.min = 4, .max = 4},
};

static qemu_result wall_read(void *opaque, hwaddr offset, uint64_t *value, unsigned size, qemu_attrs attrs)
{
    (void)opaque, (void)offset, (void)size, (void)attrs;
    *value = 0;
    device.refused_memory++;
    return QEMU_TX_ERROR;
}

static qemu_result wall_write(void *opaque, hwaddr offset, uint64_t value, unsigned size, qemu_attrs attrs)
{
    (void)opaque, (void)offset, (void)value, (void)size, (void)attrs;
    device.refused_memory++;
    return QEMU_TX_ERROR;
}

static const struct qemu_region_ops wall_ops = {
    .read_with_attrs = wall_read,
    .write_with_attrs = wall_write,
    .endianness = QEMU_LITTLE_ENDIAN,
    .valid = {.min = 1, .max = 8, .unaligned = true},
    .impl = {.min = 1, .max = 8, .unaligned = true},
};

/* Room for an object of QEMU's; it lives as long as the process. */
static void *qemu_room(void)
{
    void *room = calloc(1, QEMU_OBJECT_ROOM);
    if (!room)
        die("plugin", "out of memory");
    return room;
}

static void add_carveout(void)
{
    qemu_error *error = NULL;
    Object *secure_root = object_property_get_link(qemu_get_cpu(0), "secure-memory", &error);
    if (!secure_root || error)
        die("carveout", "the machine has no secure memory (use -M virt,secure=on)");
    MemoryRegion *ram = qemu_room(), *wall = qemu_room();
    memory_region_init_ram(ram, NULL, "gramophone-carveout", device.carveout_size, &error);
    if (error)
        die("carveout", "QEMU cannot allocate it");
    memory_region_add_subregion_overlap((MemoryRegion *)secure_root, device.carveout_base, ram,
                                        CARVEOUT_PRIORITY);
    memory_region_init_io(wall, NULL, &wall_ops, NULL, "gramophone-wall", device.carveout_size);
    memory_region_add_subregion_overlap(get_system_memory(), device.carveout_base, wall, WALL_PRIORITY);
    device.memory =
        (struct memory){device.carveout_base, device.carveout_size, memory_region_get_ram_ptr(ram)};
}

static void find_ram(void)
{
    hwaddr length = UINT64_C(1) << 40;
    void *host = address_space_map(&address_space_memory, device.ram_base, &length, true, 0);
    if (!host || length < 1 << 20) /* a device gives a bounce buffer of a page */
        die("ram", "no guest RAM there");
    device.memory = (struct memory){device.ram_base, length, host};
}

static void find_interrupts(void)
{
    bool ambiguous = false;
    Object *gic = object_resolve_path_type("", "arm-gicv3-common", &ambiguous);
    if (!gic)
        gic = object_resolve_path_type("", "arm_gic_common", &ambiguous);
    if (!gic || ambiguous)
        die("irq", "the machine has no Arm interrupt controller, or several");
    for (unsigned i = 0; i < vgpu_interrupt_lines(device.gpu); i++)
        device.irqs[i] = qdev_get_gpio_in(gic, (int)device.irq + (int)i);
}

static void place_pieces(void)
{
    for (unsigned i = 0; i < device.piece_count; i++) {
        const struct piece *piece = &device.pieces[i];
        if (piece->offset % 4 || !piece->size || piece->offset + piece->size > vgpu_window_bytes(device.gpu))
            die("map", "not a piece of the register window");
        MemoryRegion *region = qemu_room();
        memory_region_init_io(region, NULL, &device_ops, (void *)(uintptr_t)piece, "gramophone-gpu",
                              piece->size);
        memory_region_add_subregion_overlap(get_system_memory(), piece->address, region, DEVICE_PRIORITY);
    }
}

static void start_recorder(const struct vgpu_host *host)
{
    const char *error = NULL;
    device.recorder =
        recorder_open(device.capture_path, device.gpu_name, device.gpu, host, now_ns, NULL, &error);
    if (!device.recorder)
        die(device.capture_path, error);
}

static void on_machine_done(struct qemu_notifier *notifier, void *data)
{
    const struct vgpu_host host = {
        .memory = gpu_memory, .interrupt = gpu_interrupt, .schedule = gpu_schedule};
    const char *error = NULL;
    (void)notifier, (void)data;
    if (device.carveout_size)
        add_carveout();
    else
        find_ram();
    device.timer = qemu_room();
    timer_init_full(device.timer, NULL, QEMU_CLOCK_VIRTUAL, QEMU_SCALE_NS, 0, on_timer, NULL);
    device.gpu = vgpu_create(device.gpu_name, &host, &device.options, &error);
    if (!device.gpu)
        die(device.gpu_name, error);
    if (device.piece_count < MAX_PIECES) {
        /* base= places what no map= does: all of the window up to the first mapped piece. */
        uint64_t size = vgpu_window_bytes(device.gpu);
        for (unsigned i = 0; i < device.piece_count; i++)
            size = device.pieces[i].offset < size ? device.pieces[i].offset : size;
        device.pieces[device.piece_count++] = (struct piece){0, size, device.base};
    }
    place_pieces();
    find_interrupts();
    if (device.capture_path)
        start_recorder(&host);
    atexit(finish);
}

static bool parse_numbers(const char *text, unsigned count, uint64_t *const out[])
{
    for (unsigned i = 0; i < count; i++) {
        char *end;
        errno = 0;
        *out[i] = strtoull(text, &end, 0);
        if (end == text || errno || *end != (i + 1 < count ? ':' : '\0') || strchr("-+ \t", *text))
            return false;
        text = end + 1;
    }
    return true;
}

static bool parse_number(const char *text, uint64_t *out)
{
    return parse_numbers(text, 1, &out);
}

static bool parse_u32(const char *text, uint32_t *out)
{
    uint64_t number;
    bool good = parse_number(text, &number) && number <= UINT32_MAX;
    *out = good ? (uint32_t)number : 0;
    return good;
}

static bool parse_piece(const char *text)
{
    if (device.piece_count + 1 >= MAX_PIECES)
        return false;
    struct piece *piece = &device.pieces[device.piece_count++];
    return parse_numbers(text, 3, (uint64_t *const[]){&piece->offset, &piece->size, &piece->address});
}

static bool parse_switch(const char *text, bool *out)
{
    *out = strcmp(text, "on") == 0;
    return *out || strcmp(text, "off") == 0;
}

/* One argument, "name=value". */
static bool parse_argument(const char *name, size_t length, const char *value)
{
#define IS(text) (length == sizeof(text) - 1 && memcmp(name, text, length) == 0)
    if (IS("gpu"))
        return device.gpu_name = value, *value != '\0';
    if (IS("capture"))
        return device.capture_path = value, *value != '\0';
    if (IS("stats"))
        return device.stats_path = value, *value != '\0';
    if (IS("base"))
        return device.has_base = parse_number(value, &device.base);
    if (IS("irq"))
        return device.has_irq = parse_number(value, &device.irq) && device.irq < 988;
    if (IS("ram"))
        return parse_number(value, &device.ram_base);
    if (IS("map"))
        return parse_piece(value);
    if (IS("latency"))
        return parse_number(value, &device.options.latency_ns);
    if (IS("threads"))
        return parse_u32(value, &device.options.threads);
    if (IS("hang"))
        return parse_u32(value, &device.options.hang_job);
    if (IS("fault"))
        return parse_u32(value, &device.options.fault_job);
    if (IS("secure"))
        return parse_switch(value, &device.secure);
    if (IS("carveout"))
        return parse_numbers(value, 2, (uint64_t *const[]){&device.carveout_base, &device.carveout_size}) &&
               device.carveout_size && !((device.carveout_base | device.carveout_size) & 0xfff);
#undef IS
    return false;
}

static bool is_known_qemu(void)
{
    qemu_error *error = NULL;
    const struct qemu_version_info *info = qmp_query_version(&error);
    if (!info || !info->qemu)
        return false;
    if (info->qemu->major == QEMU_MAJOR && info->qemu->minor == QEMU_MINOR)
        return true;
    fprintf(stderr, "gramophone: this plugin was compiled for QEMU %d.%d, but runs in %d.%d\n", QEMU_MAJOR,
            QEMU_MINOR, (int)info->qemu->major, (int)info->qemu->minor);
    return false;
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)id, (void)info;
    if (!is_known_qemu())
        return -1;
    for (int i = 0; i < argc; i++) {
        /* QEMU frees the arguments when this function returns. */
        const char *argument = strdup(argv[i]), *equals = argument ? strchr(argument, '=') : NULL;
        if (!equals || !parse_argument(argument, (size_t)(equals - argument), equals + 1)) {
            fprintf(stderr, "gramophone: bad plugin argument \"%s\"\n", argv[i]);
            return -1;
        }
    }
    if (!device.has_base || !device.has_irq || device.secure != (device.carveout_size != 0)) {
        fprintf(stderr,
                "gramophone: plugin arguments: base= and irq= are needed; secure=on goes with carveout=\n");
        return -1;
    }
    device.machine_done.notify = on_machine_done;
    qemu_add_machine_init_done_notifier(&device.machine_done);
    return 0;
}
