// SPDX-License-Identifier: BSD-2-Clause
// A Raspberry Pi's stub for what runs next: the words in its first page that the VideoCore's firmware and
// Linux know by address, and the way from EL3 to EL2, where they expect to be entered. The page is reserved in the
// device tree. Facts: TF-A 2.12 docs/plat/rpi4.rst and plat/rpi/common (header, L2 latency), rpi4_bl31_setup.c;
// Linux Documentation/arm64/booting.rst. It has run only in emulation, not on silicon.
    .section .text.armstub, "ax"        // at 0xd8
spin_table:                             // "cpu-release-addr" of core n: spin_table + 8 * n; the last is the next two words
    .quad 0, 0, 0
gr_stub_magic:
    .word 0x5afe570b                    // 0xf0: requests the addresses; the firmware clears it when they are there
    .word 0                             // version
gr_stub_device_tree:
    .word 0                             // 0xf8
gr_stub_kernel:
    .word 0                             // 0xfc

    .global gr_stub_magic, gr_stub_device_tree, gr_stub_kernel, gr_other_core, gr_next_world
gr_other_core:                          // until the kernel calls; until then nothing else runs on it
    mrs x2, mpidr_el1
    and x2, x2, #3
    adr x3, spin_table
0:  wfe
    ldr x1, [x3, x2, lsl #3]
    cbz x1, 0b
    tst x1, #3                          // the magic that nobody cleared is no address
    b.ne 0b
    mov x0, #0

gr_next_world:                          // x0: device tree, x1: entry. This core leaves EL3 permanently.
    ldr x2, =GR_GIC_BASE
    mov w3, #-1
    str w3, [x2, #0x80]                 // GICD_IGROUPR0, each core's own: its interrupts are the normal world's
    add x2, x2, #0x1000
    mov w3, #0xff
    str w3, [x2, #4]                    // GICC_PMR: the normal world may set it
    ldr x2, =GR_COUNTER_HZ
    msr cntfrq_el0, x2
    msr cntvoff_el2, xzr
    msr cptr_el3, xzr
    mrs x2, s3_1_c15_c2_1               // CPUECTLR_EL1 of a Cortex-A72: SMPEN
    orr x2, x2, #0x40
    msr s3_1_c15_c2_1, x2
    ldr x2, =0x30c50830                 // MMU and caches off
    msr sctlr_el2, x2
    mov x2, #0x5b1                      // AArch64, HVC, no SMC: nothing at EL3 serves one
    msr scr_el3, x2
    mov x2, #0x3c9                      // EL2, own stack pointer, all masked
    msr spsr_el3, x2
    msr elr_el3, x1
    mov x1, #0
    mov x2, #0
    mov x3, #0
    dsb sy
    isb
    eret
    .ltorg

    // Of the Cortex-A72, before anything is done to its caches: L2CTLR_EL1, data RAM latency 3 cycles, setup 1;
    // CPUECTLR_EL1.SMPEN, without which the core takes part in no coherency, and which Arm requires before cache
    // and TLB maintenance (Cortex-A72 TRM, CPUECTLR_EL1). As TF-A's lib/cpus/aarch64/cortex_a72.S and plat/rpi/common.
    .section .text.gr_core_start, "ax"
    .global gr_core_start
    .type gr_core_start, %function
gr_core_start:
    mrs x0, s3_1_c11_c0_2
    orr x0, x0, #0x20
    orr x0, x0, #0x2
    msr s3_1_c11_c0_2, x0
    mrs x0, s3_1_c15_c2_1
    orr x0, x0, #0x40
    msr s3_1_c15_c2_1, x0
    isb
    ret
    .size gr_core_start, . - gr_core_start
