/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions inside QEMU that the device plugin calls, as far as this plugin needs them.
 *
 * A plugin is a shared object that QEMU loads into itself, and QEMU exports its own functions to it. The
 * official plugin interface has no devices; these functions do, but their interface is internal and may
 * change with any release. Every structure that crosses the boundary is therefore declared here for the
 * releases that the plugin was tried with, and qemu_abi_check() refuses all others.
 *
 * Where the releases differ:
 *   release   plugin version declared   "secure" bit of the transaction attributes   big lock
 *   7.2       1                         1                                            qemu_mutex_..._iothread
 *   10.0      2                         0                                            bql_...
 */
#ifndef GRAMOPHONE_QEMU_ABI_H
#define GRAMOPHONE_QEMU_ABI_H

#include <stdbool.h>
#include <stdint.h>

#if QEMU_MAJOR == 7 && QEMU_MINOR == 2
enum { QEMU_ATTRS_SECURE_BIT = 1 };
#define QEMU_BIG_LOCK "qemu_mutex_lock_iothread_impl"
#define QEMU_BIG_UNLOCK "qemu_mutex_unlock_iothread"
#elif QEMU_MAJOR == 10 && QEMU_MINOR == 0
enum { QEMU_ATTRS_SECURE_BIT = 0 };
#define QEMU_BIG_LOCK "bql_lock_impl"
#define QEMU_BIG_UNLOCK "bql_unlock"
#else
#error "the plugin knows the internals of QEMU 7.2 and 10.0 only"
#endif

typedef uint64_t hwaddr;
/* A bit-field structure of 4 bytes (7.2) or 8 bytes (10.0), passed in a register either way. */
typedef uint64_t qemu_attrs;
typedef uint32_t qemu_result;
enum { QEMU_TX_OK = 0, QEMU_TX_ERROR = 1 };

typedef struct Object Object;
typedef struct MemoryRegion MemoryRegion;
typedef struct RAMBlock RAMBlock;
typedef struct AddressSpace AddressSpace;
typedef struct QEMUTimer QEMUTimer;
typedef struct qemu_error qemu_error;

/* MemoryRegion is 272 bytes in 7.2 and QEMUTimer 48; room for both to grow. */
enum { QEMU_OBJECT_ROOM = 4096 };

struct qemu_region_ops {
    uint64_t (*read)(void *opaque, hwaddr offset, unsigned size);
    void (*write)(void *opaque, hwaddr offset, uint64_t value, unsigned size);
    qemu_result (*read_with_attrs)(void *opaque, hwaddr offset, uint64_t *value, unsigned size,
                                   qemu_attrs attrs);
    qemu_result (*write_with_attrs)(void *opaque, hwaddr offset, uint64_t value, unsigned size,
                                    qemu_attrs attrs);
    int endianness;
    struct {
        unsigned min, max;
        bool unaligned;
        void *accepts;
    } valid;
    struct {
        unsigned min, max;
        bool unaligned;
    } impl;
};
enum { QEMU_LITTLE_ENDIAN = 2 };

struct qemu_notifier {
    void (*notify)(struct qemu_notifier *notifier, void *data);
    void *next, *previous;
};

/* Result of qmp_query_version. */
struct qemu_version_triple {
    int64_t major, minor, micro;
};
struct qemu_version_info {
    struct qemu_version_triple *qemu;
    char *package;
};

void memory_region_init_io(MemoryRegion *region, Object *owner, const struct qemu_region_ops *ops,
                           void *opaque, const char *name, uint64_t size);
void memory_region_init_ram(MemoryRegion *region, Object *owner, const char *name, uint64_t size,
                            qemu_error **error);
void memory_region_init_ram_ptr(MemoryRegion *region, Object *owner, const char *name, uint64_t size,
                                void *memory);
void *memory_region_get_ram_ptr(MemoryRegion *region);
void memory_region_add_subregion_overlap(MemoryRegion *container, hwaddr offset, MemoryRegion *region,
                                         int priority);
MemoryRegion *get_system_memory(void);
void *address_space_map(AddressSpace *space, hwaddr address, hwaddr *length, bool is_write, qemu_attrs attrs);
extern AddressSpace address_space_memory;
RAMBlock *qemu_ram_block_from_host(void *host, bool round_offset, hwaddr *offset);
void qemu_ram_unset_migratable(RAMBlock *block);

void qemu_add_machine_init_done_notifier(struct qemu_notifier *notifier);
Object *object_resolve_path_type(const char *path, const char *type, bool *ambiguous);
Object *object_property_get_link(Object *object, const char *name, qemu_error **error);
Object *qemu_get_cpu(int index);
void *qdev_get_gpio_in(Object *device, int line);
void qemu_set_irq(void *irq, int level);

enum { QEMU_CLOCK_VIRTUAL = 1, QEMU_SCALE_NS = 1 };
int64_t qemu_clock_get_ns(int clock);
void timer_init_full(QEMUTimer *timer, void *list_group, int clock, int scale, int attributes,
                     void (*callback)(void *opaque), void *opaque);
void timer_mod_ns(QEMUTimer *timer, int64_t expire_ns);
void cpu_disable_ticks(void);
void cpu_enable_ticks(void);

enum { QEMU_STATE_PAUSED = 4 };
void qemu_system_vmstop_request_prepare(void);
void qemu_system_vmstop_request(int state);
bool runstate_is_running(void);
/* The big lock, which a device's thread holds. Weak, so that another release can load the plugin and be
 * refused. */
void qemu_big_lock(const char *file, int line) __asm__(QEMU_BIG_LOCK) __attribute__((weak));
void qemu_big_unlock(void) __asm__(QEMU_BIG_UNLOCK) __attribute__((weak));

struct qemu_version_info *qmp_query_version(qemu_error **error);

#endif
