// SPDX-License-Identifier: BSD-2-Clause
// memcpy, memset and memmove, by 32 bytes and by words where all is aligned: with the MMU off, memory takes aligned
// accesses only.
    .global memcpy, memset, memmove

    .section .text.string, "ax"
memcpy:
    mov x3, x0
    orr x4, x0, x1
    tst x4, #7
    b.ne 3f
8:  subs x2, x2, #32
    b.lo 5f
    ldp x4, x5, [x1], #16
    ldp x6, x7, [x1], #16
    stp x4, x5, [x3], #16
    stp x6, x7, [x3], #16
    b 8b
5:  add x2, x2, #32
2:  subs x2, x2, #8
    b.lo 4f
    ldr x4, [x1], #8
    str x4, [x3], #8
    b 2b
4:  add x2, x2, #8
3:  cbz x2, 9f
    ldrb w4, [x1], #1
    strb w4, [x3], #1
    sub x2, x2, #1
    b 3b

memset:                             // x0 to, w1 byte, x2 bytes
    mov x3, x0
    tst x0, #7
    b.ne 6f
    and w1, w1, #0xff
    mov x4, #0x0101010101010101
    mul x4, x1, x4
8:  subs x2, x2, #32
    b.lo 5f
    stp x4, x4, [x3], #16
    stp x4, x4, [x3], #16
    b 8b
5:  add x2, x2, #32
2:  subs x2, x2, #8
    b.lo 7f
    str x4, [x3], #8
    b 2b
7:  add x2, x2, #8
6:  cbz x2, 9f
    strb w1, [x3], #1
    sub x2, x2, #1
    b 6b
9:  ret

    .section .text.string.memmove, "ax" // only some of what a crypto library does needs it
memmove:                            // x0 to, x1 from, x2 bytes
    cmp x0, x1
    b.ls memcpy                     // upwards is safe
1:  cbz x2, 9f
    sub x2, x2, #1
    ldrb w4, [x1, x2]
    strb w4, [x0, x2]
    b 1b
9:  ret
