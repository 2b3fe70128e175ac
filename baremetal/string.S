// SPDX-License-Identifier: BSD-2-Clause
// memcpy, memset and memmove, by words where there are some, and by 32 bytes where all is aligned: with the MMU off,
// memory takes aligned accesses only.
    .global memcpy, memset, memmove

    .section .text.string, "ax"
memcpy:
    mov x3, x0
    cmp x2, #16
    b.lo 3f
0:  tst x3, #7                      // as many bytes as align the destination
    b.eq 1f
    ldrb w4, [x1], #1
    strb w4, [x3], #1
    sub x2, x2, #1
    b 0b
1:  ands x5, x1, #7
    b.ne 6f
    subs x2, x2, #32
    b.lo 5f
8:  ldp x4, x5, [x1], #16
    ldp x6, x7, [x1], #16
    stp x4, x5, [x3], #16
    stp x6, x7, [x3], #16
    subs x2, x2, #32
    b.hs 8b
5:  tbz x2, #4, 2f                  // what is left is 32 more than x2, whose lowest bits are the same
    ldp x4, x5, [x1], #16
    stp x4, x5, [x3], #16
2:  tbz x2, #3, 4f
    ldr x4, [x1], #8
    str x4, [x3], #8
4:  and x2, x2, #7
3:  cbz x2, 9f
0:  ldrb w4, [x1], #1
    strb w4, [x3], #1
    subs x2, x2, #1
    b.ne 0b
    ret
6:  sub x1, x1, x5                  // each word of two; none is read that has no byte of the source
    lsl x7, x5, #3
    neg x8, x7                      // shifts count modulo 64
    sub x2, x2, #8
    ldr x4, [x1]
7:  lsr x9, x4, x7
    ldr x4, [x1, #8]!
    lsl x10, x4, x8
    orr x9, x9, x10
    str x9, [x3], #8
    subs x2, x2, #8
    b.hs 7b
    add x1, x1, x5
    b 4b

memset:                             // x0 to, w1 byte, x2 bytes
    mov x3, x0
    tst x0, #7
    b.ne 6f
    and w1, w1, #0xff
    mov x4, #0x0101010101010101
    mul x4, x1, x4
    subs x2, x2, #32
    b.lo 5f
8:  stp x4, x4, [x3], #16
    stp x4, x4, [x3], #16
    subs x2, x2, #32
    b.hs 8b
5:  tbz x2, #4, 2f                  // as in memcpy
    stp x4, x4, [x3], #16
2:  tbz x2, #3, 7f
    str x4, [x3], #8
7:  and x2, x2, #7
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
