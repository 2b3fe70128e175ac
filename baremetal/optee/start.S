// SPDX-License-Identifier: BSD-2-Clause
// Entry of the normal world (BL33), at EL1 or EL2 with the MMU off; exceptions; the SMC.
    .section .text.reset, "ax"
    .global _start
_start:
    ldr x0, =gr_stack_end
    mov sp, x0
    ldr x0, =gr_bss_start
    ldr x1, =gr_bss_end
1:  cmp x0, x1
    b.hs 2f
    str xzr, [x0], #8
    b 1b
2:  adr x0, vectors
    mrs x1, CurrentEL
    cmp x1, #(2 << 2)
    b.eq 3f
    msr vbar_el1, x0
    b 4f
3:  msr vbar_el2, x0
4:  isb
    bl normal_world
    b leave

    .text
    .global secure_call, leave
secure_call:                        // x0: uint64_t[8], registers x0 to x7 in and out
    stp x0, x30, [sp, #-16]!
    mov x8, x0
    ldp x0, x1, [x8]
    ldp x2, x3, [x8, #16]
    ldp x4, x5, [x8, #32]
    ldp x6, x7, [x8, #48]
    smc #0
    ldp x8, x30, [sp], #16
    stp x0, x1, [x8]
    stp x2, x3, [x8, #16]
    stp x4, x5, [x8, #32]
    stp x6, x7, [x8, #48]
    ret

leave:                              // w0: exit status. Semihosting SYS_EXIT, ADP_Stopped_ApplicationExit
    sub sp, sp, #16
    ldr x1, =0x20026
    uxtw x0, w0
    stp x1, x0, [sp]
    mov x1, sp
    mov w0, #0x18
    hlt #0xf000
5:  wfi
    b 5b

    .balign 0x800
vectors:                            // any exception ends the run
    .rept 16
    .balign 0x80
    b exception
    .endr
exception:
    mrs x1, CurrentEL
    cmp x1, #(2 << 2)
    b.eq 6f
    mrs x0, elr_el1
    mrs x1, esr_el1
    b 7f
6:  mrs x0, elr_el2
    mrs x1, esr_el2
7:  ldr x2, =gr_stack_end           // the old stack may be the reason
    mov sp, x2
    bl normal_world_exception
    b leave
