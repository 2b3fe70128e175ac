// SPDX-License-Identifier: BSD-2-Clause
// Start of a test program on QEMU's "virt": at EL3 with secure=on, at EL1 without (NORMAL_WORLD). Stack, vectors,
// main(), semihosting exit.
    .section .text.start, "ax"
    .global _start
_start:
    ldr     x0, =stack_top
    mov     sp, x0
    adr     x0, vectors
#ifdef NORMAL_WORLD
    msr     vbar_el1, x0
#else
    msr     vbar_el3, x0
#endif
    isb
    bl      main
// finish(status in x0): semihosting SYS_EXIT, reason "application exit"
    .global finish
finish:
    sub     sp, sp, #16
    str     x0, [sp, #8]
    ldr     x1, =0x20026
    str     x1, [sp]
    mov     x1, sp
    mov     w0, #0x18
    hlt     #0xf000
1:  b       1b

#ifndef NORMAL_WORLD
// run_normal_world(code in w0, address in w1, vectors of EL1 in w2)
    .global run_normal_world
run_normal_world:
    stp     x29, x30, [sp, #-16]!
    mov     x3, sp
    mov     w4, w2
    ldr     x2, =saved_sp
    str     x3, [x2]
    msr     elr_el3, x0
    msr     vbar_el1, x4
    mov     x0, x1
    mov     x1, #0x3c5              // EL1h, interrupts masked
    msr     spsr_el3, x1
    mov     x1, #0x501              // SCR_EL3: NS, HCE, RW
    orr     x1, x1, #8              // EA: external aborts come to EL3
    msr     scr_el3, x1
    isb
    eret
#endif

    .balign 2048
vectors:
    .rept 16
    .balign 128
    b       exception
    .endr

exception:
#ifdef NORMAL_WORLD
    mrs     x1, esr_el1
#else
    ldr     x2, =saved_sp
    ldr     x1, [x2]
    cbz     x1, unexpected
    str     xzr, [x2]
    mov     sp, x1
    mov     x1, #0x400              // back to the secure world: RW only
    msr     scr_el3, x1
    isb
    mrs     x0, esr_el3
    ldp     x29, x30, [sp], #16
    ret
unexpected:
    mrs     x1, esr_el3
#endif
    lsr     x1, x1, #26
    add     x0, x1, #100            // exit status: 100 + exception class
    b       finish

    .section .bss
    .balign 16
saved_sp:
    .skip 16
    .skip 0x4000
stack_top:
