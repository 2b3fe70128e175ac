// SPDX-License-Identifier: BSD-2-Clause
// Of a Cortex-A53, before anything is done to its caches: CPUECTLR_EL1.SMPEN, without which the core takes part in no
// coherency, and which Arm requires before cache and TLB maintenance (Cortex-A53 TRM, CPUECTLR_EL1). As TF-A's
// lib/cpus/aarch64/cortex_a53.S.
    .section .text.gr_core_start, "ax"
    .global gr_core_start
    .type gr_core_start, %function
gr_core_start:
    mrs x0, s3_1_c15_c2_1
    orr x0, x0, #0x40
    msr s3_1_c15_c2_1, x0
    isb
    ret
    .size gr_core_start, . - gr_core_start
