/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU plugin: a virtual GPU as a memory-mapped device with its interrupt, on the machine "virt"; arguments.h
 * says how it is configured. For recording it serves the normal world and reaches all guest RAM. For replay
 * it serves the secure world and reaches a carve-out of secure RAM, which it adds to the machine and walls
 * off from the normal world. With a firewall, the secure world switches between the two.
 *
 * The device runs in QEMU's threads under its big lock. Completions come from a timer of the virtual clock,
 * also with no latency: unlike a bottom half, it fires at a defined guest instruction under -icount. Guest
 * time stands still while shaders run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "job_window.h"
#include "progress.h"
#include "qemu_abi.h"
#include "recorder.h"
#include "stats.h"
#include "vgpu.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

int qemu_plugin_version = PLUGIN_VERSION;

enum { EXIT_GPU_FAILED = 3, DEVICE_PRIORITY = 100, WALL_PRIORITY = 50, CARVEOUT_PRIORITY = 10 };

struct memory {
    uint64_t base, size;
    uint8_t *host;
};

static struct {
    struct arguments arguments;
    vgpu *gpu;
    struct recorder *recorder;
    struct memory ram, carveout;
    bool is_secure; /* serves the secure world, reaches the carve-out; else the normal world and guest RAM */
    void *irqs[16];
    QEMUTimer *timer;
    struct qemu_notifier machine_done;
    uint64_t secure_accesses, normal_accesses, refused_accesses, refused_memory, handovers;
    bool finished, failed;
} device;

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

/* Bytes that are not zero. */
static uint64_t count_nonzero(const struct memory *memory)
{
    static const uint8_t zeros[4096];
    uint64_t count = 0;
    for (const uint8_t *page = memory->host; page < memory->host + memory->size; page += sizeof(zeros)) {
        if (memcmp(page, zeros, sizeof(zeros)) == 0)
            continue;
        for (size_t i = 0; i < sizeof(zeros); i++)
            count += page[i] != 0;
    }
    return count;
}

static bool write_stats(void)
{
    const struct stats_number numbers[] = {
        {"secure_accesses", device.secure_accesses},
        {"normal_accesses", device.normal_accesses},
        {"refused_accesses", device.refused_accesses},
        {"refused_memory", device.refused_memory},
        {"handovers", device.handovers},
        {"carveout_bytes_left", count_nonzero(&device.carveout)},
    };
    return stats_write(device.arguments.stats_path, device.arguments.gpu_name, device.gpu, numbers,
                       sizeof(numbers) / sizeof(numbers[0]));
}

static void stop_recording(void)
{
    const char *error = NULL;
    if (device.recorder && !recorder_close(device.recorder, &error)) {
        fprintf(stderr, "gramophone: %s: %s\n", device.arguments.capture_path, error);
        device.failed = true;
    }
    device.recorder = NULL;
}

static void finish(void)
{
    if (device.finished || !device.gpu)
        return;
    device.finished = true;
    stop_recording();
    if (device.arguments.stats_path && !write_stats())
        device.failed = true;
    if (device.failed)
        _exit(EXIT_FAILURE); /* an exit handler has no other way to change the status */
}

/* After every call that may run the GPU. */
static void stop_on_error(void)
{
    const char *error = vgpu_error(device.gpu);
    progress_tell(device.arguments.progress_path, device.gpu);
    if (error && !device.finished) {
        fprintf(stderr, "gramophone: virtual GPU: %s\n", error);
        finish();
        exit(EXIT_GPU_FAILED);
    }
}

static uint8_t *gpu_memory(void *ctx, uint64_t pa, uint64_t *bytes)
{
    const struct memory *memory = device.is_secure ? &device.carveout : &device.ram;
    (void)ctx;
    if (pa < memory->base || pa - memory->base >= memory->size)
        return NULL;
    *bytes = memory->size - (pa - memory->base);
    return memory->host + (pa - memory->base);
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

/* Count an access and return whether it may pass. */
static bool admit(qemu_attrs attrs)
{
    bool secure = attrs >> QEMU_ATTRS_SECURE_BIT & 1;
    *(secure ? &device.secure_accesses : &device.normal_accesses) += 1;
    if (device.is_secure && !secure) {
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

static qemu_result firewall_read(void *opaque, hwaddr offset, uint64_t *value, unsigned size,
                                 qemu_attrs attrs)
{
    (void)opaque, (void)offset, (void)size;
    *value = device.is_secure;
    return attrs >> QEMU_ATTRS_SECURE_BIT & 1 ? QEMU_TX_OK : QEMU_TX_ERROR;
}

static qemu_result firewall_write(void *opaque, hwaddr offset, uint64_t value, unsigned size,
                                  qemu_attrs attrs)
{
    (void)opaque, (void)size;
    if (!(attrs >> QEMU_ATTRS_SECURE_BIT & 1) || offset || value > 1) {
        device.refused_accesses++;
        return QEMU_TX_ERROR;
    }
    if (device.is_secure == (value == 1))
        return QEMU_TX_OK;
    vgpu_advance(device.gpu, now_ns(NULL));
    if (value)
        stop_recording();
    device.is_secure = value;
    device.handovers++;
    vgpu_memory_changed(device.gpu);
    stop_on_error();
    return QEMU_TX_OK;
}

static const struct qemu_region_ops firewall_ops = {
    .read_with_attrs = firewall_read,
    .write_with_attrs = firewall_write,
    .endianness = QEMU_LITTLE_ENDIAN,
    .valid = {.min = 4, .max = 4},
    .impl = {.min = 4, .max = 4},
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
    memory_region_init_ram(ram, NULL, "gramophone-carveout", device.arguments.carveout_size, &error);
    if (error)
        die("carveout", "QEMU cannot allocate it");
    memory_region_add_subregion_overlap((MemoryRegion *)secure_root, device.arguments.carveout_base, ram,
                                        CARVEOUT_PRIORITY);
    memory_region_init_io(wall, NULL, &wall_ops, NULL, "gramophone-wall", device.arguments.carveout_size);
    memory_region_add_subregion_overlap(get_system_memory(), device.arguments.carveout_base, wall,
                                        WALL_PRIORITY);
    device.carveout = (struct memory){device.arguments.carveout_base, device.arguments.carveout_size,
                                      memory_region_get_ram_ptr(ram)};
}

static void find_ram(void)
{
    hwaddr length = UINT64_C(1) << 40;
    void *host = address_space_map(&address_space_memory, device.arguments.ram_base, &length, true, 0);
    if (!host || length < 1 << 20) /* a device gives a bounce buffer of a page */
        die("ram", "no guest RAM there");
    device.ram = (struct memory){device.arguments.ram_base, length, host};
}

static void find_interrupts(void)
{
    bool ambiguous = false;
    Object *gic = object_resolve_path_type("", "arm-gicv3-common", &ambiguous);
    /* "raspi4b" passes its controller's inputs on to its peripherals, so the controller itself has none. */
    gic = gic ? gic : object_resolve_path_type("", "bcm2838-peripherals", &ambiguous);
    gic = gic ? gic : object_resolve_path_type("", "arm_gic_common", &ambiguous);
    if (!gic || ambiguous)
        die("irq", "the machine has no Arm interrupt controller, or several");
    if (device.arguments.irq + vgpu_interrupt_lines(device.gpu) > SPI_COUNT)
        die("irq", "the last line is not a shared peripheral interrupt");
    for (unsigned i = 0; i < vgpu_interrupt_lines(device.gpu); i++)
        device.irqs[i] = qdev_get_gpio_in(gic, (int)device.arguments.irq + (int)i);
}

static void place_pieces(void)
{
    uint64_t size = vgpu_window_bytes(device.gpu);
    for (unsigned i = 0; i < device.arguments.piece_count; i++)
        size = device.arguments.pieces[i].offset < size ? device.arguments.pieces[i].offset : size;
    device.arguments.pieces[device.arguments.piece_count++] = (struct piece){0, size, device.arguments.base};
    for (unsigned i = 0; i < device.arguments.piece_count; i++) {
        const struct piece *piece = &device.arguments.pieces[i];
        if (piece->offset % 4 || !piece->size || piece->offset + piece->size > vgpu_window_bytes(device.gpu))
            die("map", "not a piece of the register window");
        MemoryRegion *region = qemu_room();
        memory_region_init_io(region, NULL, &device_ops, (void *)(uintptr_t)piece, "gramophone-gpu",
                              piece->size);
        memory_region_add_subregion_overlap(get_system_memory(), piece->address, region, DEVICE_PRIORITY);
    }
}

static void add_firewall(void)
{
    MemoryRegion *region = qemu_room();
    memory_region_init_io(region, NULL, &firewall_ops, NULL, "gramophone-firewall", 0x1000);
    memory_region_add_subregion_overlap(get_system_memory(), device.arguments.firewall, region,
                                        DEVICE_PRIORITY);
}

static void start_recorder(const struct vgpu_host *host)
{
    const char *error = NULL;
    device.recorder = recorder_open(device.arguments.capture_path, device.arguments.gpu_name, device.gpu,
                                    host, now_ns, NULL, &error);
    if (!device.recorder)
        die(device.arguments.capture_path, error);
}

static void on_machine_done(struct qemu_notifier *notifier, void *data)
{
    const struct vgpu_host host = {
        .memory = gpu_memory, .interrupt = gpu_interrupt, .schedule = gpu_schedule};
    const char *error = NULL;
    (void)notifier, (void)data;
    device.is_secure = device.arguments.secure && !device.arguments.firewall;
    if (device.arguments.carveout_size)
        add_carveout();
    if (!device.is_secure)
        find_ram();
    device.timer = qemu_room();
    timer_init_full(device.timer, NULL, QEMU_CLOCK_VIRTUAL, QEMU_SCALE_NS, 0, on_timer, NULL);
    device.gpu = vgpu_create(device.arguments.gpu_name, &host, &device.arguments.options, &error);
    if (!device.gpu)
        die(device.arguments.gpu_name, error);
    place_pieces();
    find_interrupts();
    if (device.arguments.firewall)
        add_firewall();
    if (device.arguments.window)
        error = job_window_add(device.arguments.window, device.arguments.archive_path, device.ram.host,
                               &device.normal_accesses);
    if (error)
        die("window", error);
    if (device.arguments.capture_path)
        start_recorder(&host);
    atexit(finish);
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
    if (!is_known_qemu() || !arguments_parse(&device.arguments, argc, argv))
        return -1;
    device.machine_done.notify = on_machine_done;
    qemu_add_machine_init_done_notifier(&device.machine_done);
    return 0;
}
