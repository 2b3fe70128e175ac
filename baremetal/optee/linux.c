/* SPDX-License-Identifier: BSD-2-Clause */
/* The normal world's part when that is Linux: starts the kernel that lies in memory
 * (host_tools/runners/optee/linux_machine.py). As Linux's Documentation/arch/arm64/booting.rst requires: MMU
 * and caches off, the tree's address in x0. */
#include "normal_world.h"

/* The start of memory is where QEMU puts a device tree for firmware, and where TF-A and OP-TEE add to it. */
#define DEVICE_TREE UINT64_C(0x40000000)
#define KERNEL UINT64_C(0x48000000)

int normal_world(void)
{
    typedef int kernel(uint64_t tree, uint64_t reserved1, uint64_t reserved2, uint64_t reserved3);
    return ((kernel *)(uintptr_t)KERNEL)(DEVICE_TREE, 0, 0, 0);
}

int normal_world_exception(uint64_t address, uint64_t syndrome)
{
    (void)address, (void)syndrome;
    return 2;
}
