// SPDX-License-Identifier: BSD-2-Clause
// Reset and exceptions at EL3, secure. The vector table is the first 2 KiB of the image. EL3 runs on its own stack
// pointer, drops to no other level before the end, and all interrupts and asynchronous aborts stay masked as they
// are at reset: only the entry for synchronous exceptions, at 0x200, can be taken, and the rest is code.
#ifdef GR_MMU
#define STACK_START gr_stack_start
#else
#define STACK_START gr_bss_end
#endif
    .section .text.reset, "ax"
    .global _start
_start:
    mrs x0, mpidr_el1
    tst x0, #0xff
    b.eq 1f
#ifdef GR_ARMSTUB_AT
    b gr_other_core                 // armstub8.S
#else
0:  wfe                             // the other cores wait forever
    b 0b
#endif
1:
#if defined GR_MMU || defined GR_SILICON
    .weak gr_core_start             // a port's, in assembly and without memory: what the core needs before maintenance
    bl gr_core_start                // where a port has none, the linker makes this a nop
#endif
#ifdef GR_MMU
    bl gr_caches_drop               // mmu.S
#endif
    ldr x0, =gr_stack_end
    mov sp, x0
    ldr x0, =gr_bss_start
    ldr x1, =gr_bss_end
2:  cmp x0, x1
    b.hs 3f
    str xzr, [x0], #8
    b 2b
3:
#ifdef GR_MMU
    ldr x0, =STACK_START
#endif
    str x0, [x0]                    // the stack's guard: its lowest word holds its own address
    msr tpidr_el3, xzr              // no exception yet
    adr x0, _start
    msr vbar_el3, x0
    msr cptr_el3, xzr               // floating point does not trap (a compiler may copy with it)
    isb
    b gr_main

    .global gr_stack_excess
gr_stack_excess:                    // not 0: the stack has grown over its guard
    ldr x1, =STACK_START
    ldr x0, [x1]
    sub x0, x0, x1
    ret

    .section .text.gr_wipe_stack, "ax"  // of its own: only where it is called
    .global gr_wipe_stack
gr_wipe_stack:                      // what functions that have ended left on the stack
    ldr x0, =STACK_START
0:  add x0, x0, #8                  // the guard stays
    cmp sp, x0
    b.ls 1f
    str xzr, [x0]
    b 0b
1:  ret

    .section .text.vectors, "ax"
exception:                          // synchronous, at 0x200: every error ends here
    ldr x0, =gr_stack_end           // the old stack may be the reason
    mov sp, x0
    mrs x0, elr_el3
    mrs x1, tpidr_el3
    msr tpidr_el3, x0
    b gr_exception                  // wipes, unless x1 says that it has failed at that; prints "!" and the address
