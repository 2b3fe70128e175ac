/* SPDX-License-Identifier: BSD-2-Clause */
/* Board: QEMU's machine "virt" with a secure world, and Unicorn with the same map. -D overrides a number; all
 * of them are in the firmware too, as `gr_board`, where the runners read them. Facts: QEMU hw/arm/virt.c. */
#ifndef GRAMOPHONE_BOARD_H
#define GRAMOPHONE_BOARD_H

/* Code and constants: flash, at the reset address. Data and stack: secure RAM. */
#ifndef GR_ROM_BASE
#define GR_ROM_BASE 0x00000000
#endif
#ifndef GR_RAM_BASE
#define GR_RAM_BASE 0x0e000000
#endif
/* The GPU: its register window, and its interrupt (shared peripheral interrupt number,
 * after GIC's own 32). */
#ifndef GR_GPU_BASE
#define GR_GPU_BASE 0x0b000000
#endif
#ifndef GR_GPU_SPI
#define GR_GPU_SPI 100
#endif
/* Secure memory for traces; the GPU sees it at the same address. */
#ifndef GR_CARVEOUT_BASE
#define GR_CARVEOUT_BASE 0x100000000
#endif
#ifndef GR_CARVEOUT_BYTES
#define GR_CARVEOUT_BYTES 0x10000000
#endif
/* The mailbox and all that it points to: memory of the normal world. */
#ifndef GR_MAILBOX_BASE
#define GR_MAILBOX_BASE 0x48000000
#endif
#ifndef GR_MAILBOX_BYTES
#define GR_MAILBOX_BYTES 0x70000000
#endif
/* GICv2 distributor, and the secure world's PL011 UART, which needs no time for a character. */
#ifndef GR_GIC_BASE
#define GR_GIC_BASE 0x08000000
#endif
#ifndef GR_UART_BASE
#define GR_UART_BASE 0x09040000
#endif
#define GR_UART_TIMEOUT_US 0
/* The GPU is always on. */
#define GR_POWER_BASE 0

#endif
