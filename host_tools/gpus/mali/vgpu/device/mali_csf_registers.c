/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registers of a Mali-G610 (Valhall, arch 10.8). Places: Linux 6.12 drivers/gpu/drm/panthor/panthor_regs.h;
 * reset values: GPU_ID, features and cores as panthor prints them on boards with an RK3588, limits of threads
 * and textures as Mesa 25.0.7 src/panfrost/drm-shim/panfrost_noop.c has them.
 */
#include "mali_csf.h"

#define R VGPU_READ
#define W VGPU_WRITE
#define ALL UINT32_MAX
#define PAIR(name, offset, access, bits, low)                                                                \
    {name "_LO", offset, low, bits, access},                                                                 \
    {                                                                                                        \
        name "_HI", (offset) + 4, 0, bits, access                                                            \
    }

static const struct vgpu_register rows[] = {
    {"gpu.GPU_ID", GPU_ID, 0xa8670005, 0, R},
    {"gpu.L2_FEATURES", GPU_L2_FEATURES, 0x07120306, 0, R},
    {"gpu.CORE_FEATURES", GPU_CORE_FEATURES, 0, 0, R},
    {"gpu.TILER_FEATURES", GPU_TILER_FEATURES, 0x809, 0, R},
    {"gpu.MEM_FEATURES", GPU_MEM_FEATURES, 0x301, 0, R},
    {"gpu.MMU_FEATURES", GPU_MMU_FEATURES, 0x2830, 0, R},
    {"gpu.AS_PRESENT", GPU_AS_PRESENT, 0xff, 0, R},
    {"gpu.CSF_ID", CSF_ID, 0x040a0412, 0, R},
    {"gpu.IRQ_RAWSTAT", GPU_IRQ_RAWSTAT, 0, 0, R},
    {"gpu.IRQ_CLEAR", GPU_IRQ_CLEAR, 0, 0xfffff, W},
    {"gpu.IRQ_MASK", GPU_IRQ_MASK, 0, 0xfffff, R | W},
    {"gpu.IRQ_STATUS", GPU_IRQ_STATUS, 0, 0, R},
    {"gpu.COMMAND", GPU_COMMAND, 0, ALL, W},
    {"gpu.STATUS", GPU_STATUS, 0, 0, R},
    {"gpu.FAULT_STATUS", GPU_FAULT_STATUS, 0, 0, R},
    PAIR("gpu.FAULT_ADDRESS", GPU_FAULT_ADDRESS_LO, R, 0, 0),
    PAIR("gpu.TIMESTAMP_OFFSET", 0x88, R, 0, 0), /* no clock: two recordings are to be the same */
    PAIR("gpu.CYCLE_COUNT", 0x90, R, 0, 0),
    PAIR("gpu.TIMESTAMP", 0x98, R, 0, 0),
    {"gpu.THREAD_MAX_THREADS", GPU_THREAD_MAX_THREADS, 0x800, 0, R},
    {"gpu.THREAD_MAX_WORKGROUP_SIZE", GPU_THREAD_MAX_WORKGROUP_SIZE, 0x400, 0, R},
    {"gpu.THREAD_MAX_BARRIER_SIZE", GPU_THREAD_MAX_BARRIER_SIZE, 0x400, 0, R},
    {"gpu.THREAD_FEATURES", GPU_THREAD_FEATURES, 0x04010000, 0, R},
    {"gpu.TEXTURE_FEATURES_0", GPU_TEXTURE_FEATURES_0, 0xc1ffff9e, 0, R},
    {"gpu.TEXTURE_FEATURES_1", GPU_TEXTURE_FEATURES_1, ALL, 0, R},
    {"gpu.TEXTURE_FEATURES_2", GPU_TEXTURE_FEATURES_2, ALL, 0, R},
    {"gpu.TEXTURE_FEATURES_3", GPU_TEXTURE_FEATURES_3, ALL, 0, R},
    {"gpu.DOORBELL_FEATURES", 0xc0, 0, 0, R},
    PAIR("gpu.SHADER_PRESENT", GPU_SHADER_PRESENT_LO, R, 0, 0x50005),
    PAIR("gpu.TILER_PRESENT", GPU_TILER_PRESENT_LO, R, 0, 1),
    PAIR("gpu.L2_PRESENT", GPU_L2_PRESENT_LO, R, 0, 1),
    PAIR("gpu.SHADER_READY", GPU_SHADER_READY_LO, R, 0, 0),
    PAIR("gpu.TILER_READY", GPU_TILER_READY_LO, R, 0, 0),
    PAIR("gpu.L2_READY", GPU_L2_READY_LO, R, 0, 0),
    PAIR("gpu.SHADER_PWRON", GPU_SHADER_PWRON_LO, W, ALL, 0),
    PAIR("gpu.TILER_PWRON", GPU_TILER_PWRON_LO, W, ALL, 0),
    PAIR("gpu.L2_PWRON", GPU_L2_PWRON_LO, W, ALL, 0),
    PAIR("gpu.SHADER_PWROFF", GPU_SHADER_PWROFF_LO, W, ALL, 0),
    PAIR("gpu.TILER_PWROFF", GPU_TILER_PWROFF_LO, W, ALL, 0),
    PAIR("gpu.L2_PWROFF", GPU_L2_PWROFF_LO, W, ALL, 0),
    PAIR("gpu.SHADER_PWRTRANS", GPU_SHADER_PWRTRANS_LO, R, 0, 0),
    PAIR("gpu.TILER_PWRTRANS", GPU_TILER_PWRTRANS_LO, R, 0, 0),
    PAIR("gpu.L2_PWRTRANS", GPU_L2_PWRTRANS_LO, R, 0, 0),
    {"gpu.REVID", 0x280, 0, 0, R},
    {"gpu.COHERENCY_FEATURES", GPU_COHERENCY_FEATURES, 0, 0, R},
    {"gpu.COHERENCY_PROTOCOL", GPU_COHERENCY_ENABLE, 0, 0x1f, R | W},
    {"gpu.MCU_CONTROL", CSF_MCU_CONTROL, 0, 0x3, R | W},
    {"gpu.MCU_STATUS", CSF_MCU_STATUS, 0, 0, R},
    {"job.IRQ_RAWSTAT", JOB_IRQ_RAWSTAT, 0, 0, R},
    {"job.IRQ_CLEAR", JOB_IRQ_CLEAR, 0, ALL, W},
    {"job.IRQ_MASK", JOB_IRQ_MASK, 0, ALL, R | W},
    {"job.IRQ_STATUS", JOB_IRQ_STATUS, 0, 0, R},
    {"mmu.IRQ_RAWSTAT", MMU_IRQ_RAWSTAT, 0, 0, R},
    {"mmu.IRQ_CLEAR", MMU_IRQ_CLEAR, 0, ALL, W},
    {"mmu.IRQ_MASK", MMU_IRQ_MASK, 0, ALL, R | W},
    {"mmu.IRQ_STATUS", MMU_IRQ_STATUS, 0, 0, R},
    PAIR("as.TRANSTAB", MALI_AS + AS_TRANSTAB_LO, R | W, ALL, 0),
    PAIR("as.MEMATTR", MALI_AS + AS_MEMATTR_LO, R | W, ALL, 0),
    PAIR("as.LOCKADDR", MALI_AS + AS_LOCKADDR_LO, R | W, ALL, 0),
    {"as.COMMAND", MALI_AS + AS_COMMAND, 0, 0x7, W},
    {"as.FAULTSTATUS", MALI_AS + AS_FAULTSTATUS, 0, 0, R},
    PAIR("as.FAULTADDRESS", MALI_AS + AS_FAULTADDRESS_LO, R, 0, 0),
    {"as.STATUS", MALI_AS + AS_STATUS, 0, 0, R},
    PAIR("as.TRANSCFG", MALI_AS + AS_TRANSCFG_LO, R | W, ALL, 0),
    PAIR("as.FAULTEXTRA", MALI_AS + 0x38, R, 0, 0),
    {"user.LATEST_FLUSH", CSF_LATEST_FLUSH, 1, 0, R},
};

const struct mali_chip mali_g610_chip = {.name = "mali_g610",
                                         .registers = rows,
                                         .register_count = sizeof(rows) / sizeof(rows[0]),
                                         .warp = 16,
                                         .workgroup = 1024,
                                         .has_streams = true};
