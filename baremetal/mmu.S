// SPDX-License-Identifier: BSD-2-Clause
// MMU and caches at EL3, on and off; a part of firmware whose board's description has `mmu = true`. The tables,
// gr_translation, are constants (tee_replayer/generator/translation.py). Facts: Arm DDI 0487 (Armv8-A), D13.2 (registers),
// D5.10 (cache maintenance by address works with MMU and caches off, and on a core whose caches hold nothing of ours).
    .text
    .equ SCTLR_OFF, 0x30c50830      // its RES1 bits
    // MMU, data and instruction caches, stack alignment checked, writable memory never executed
    .equ SCTLR_ON, SCTLR_OFF | 1 << 0 | 1 << 2 | 1 << 3 | 1 << 12 | 1 << 19
    .equ LINE, 64                   // of the data cache, or a divisor: of every Armv8-A core of Arm's

    .macro each_line operation, from, to
    ldr x0, =\from
    ldr x1, =\to
0:  dc \operation, x0
    add x0, x0, #LINE
    cmp x0, x1
    b.lo 0b
    .endm

    // Called before this firmware writes anything, because what an earlier boot stage left dirty in the caches may be
    // written over it at any time, and hides it once caches are on. Our memory is dropped: memory has what counts,
    // and we write past the caches until gr_mmu_on. The mailbox is cleaned: its loader may have used the caches.
    .section .text.gr_caches_drop, "ax"
    .global gr_caches_drop
    .type gr_caches_drop, %function
gr_caches_drop:
    each_line ivac, gr_rom_start, gr_rom_end
    each_line ivac, GR_RAM_BASE, gr_ram_end
    each_line ivac, GR_CARVEOUT_BASE, (GR_CARVEOUT_BASE + GR_CARVEOUT_BYTES)
    each_line civac, GR_MAILBOX_BASE, (GR_MAILBOX_BASE + GR_MAILBOX_BYTES)
    dsb sy
    ret
    .ltorg
    .size gr_caches_drop, . - gr_caches_drop

    .section .text.gr_mmu_on, "ax"
    .global gr_mmu_on
    .type gr_mmu_on, %function
gr_mmu_on:
    ldr x0, =GR_MAIR
    msr mair_el3, x0
    ldr x0, =GR_TCR
    msr tcr_el3, x0
    ldr x0, =gr_translation
    msr ttbr0_el3, x0
    tlbi alle3
    ic iallu
    dsb sy
    isb
    ldr x0, =SCTLR_ON
    msr sctlr_el3, x0
    isb
    ret
    .ltorg
    .size gr_mmu_on, . - gr_mmu_on

    // After it memory holds all that was written, and no cache anything that could be written later. It uses no memory
    // of its own: between the two steps what is cached is newer than what is seen.
    .section .text.gr_mmu_off, "ax"
    .global gr_mmu_off
    .type gr_mmu_off, %function
gr_mmu_off:
    ldr x0, =SCTLR_OFF
    msr sctlr_el3, x0
    isb
    each_line civac, GR_RAM_BASE, gr_ram_end
    each_line civac, (GR_CARVEOUT_BASE + GR_CARVEOUT_BYTES - GR_CACHED_BYTES), (GR_CARVEOUT_BASE + GR_CARVEOUT_BYTES)
    dsb sy
    tlbi alle3
    ic iallu
    dsb sy
    isb
    ret
    .ltorg
    .size gr_mmu_off, . - gr_mmu_off
