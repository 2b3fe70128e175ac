/* SPDX-License-Identifier: BSD-2-Clause */
/* Board: HiKey960 (Kirin 960, Hi3660), in place of TF-A's BL31: TF-A's BL2 loads it from the FIP and
 * enters it at EL3 on one core. -D overrides a number; all of them are in the firmware too, as `gr_board`,
 * where the runners read them. It has run only in emulation, not on silicon.
 *
 * Facts: Linux arch/arm64/boot/dts/hisilicon/hi3660.dtsi, and hi3660-gpu.dtsi of the boards' kernel;
 * TF-A 2.12 plat/hisilicon/hikey960. */
#ifndef GRAMOPHONE_BOARD_H
#define GRAMOPHONE_BOARD_H

/* BL31_BASE to BL31_LIMIT: 256 KiB, the second half for data. */
#ifndef GR_ROM_BASE
#define GR_ROM_BASE 0x1ac58000
#endif
#ifndef GR_RAM_BASE
#define GR_RAM_BASE 0x1ac78000
#endif
/* TF-A hikey960_common.c. */
#define GR_COUNTER_HZ 1920000
/* Mali-G71: lines JOB, MMU, GPU at 258, 259, 260. */
#ifndef GR_GPU_BASE
#define GR_GPU_BASE 0xe82c0000
#endif
#ifndef GR_GPU_SPI
#define GR_GPU_SPI 258
#endif
/* TF-A's DDR_SEC, which UEFI keeps off; it is BL32's, and with this image there is no BL32. That it is secure
 * is up to the DDR's firewall, which upstream TF-A does not set. */
#ifndef GR_CARVEOUT_BASE
#define GR_CARVEOUT_BASE 0x3f000000
#endif
#ifndef GR_CARVEOUT_BYTES
#define GR_CARVEOUT_BYTES 0x03c00000
#endif
/* The mailbox: BL2 loads the FIP's BL33, 2 MiB at most, to NS_BL1U_BASE; it can be the mailbox. */
#ifndef GR_MAILBOX_BASE
#define GR_MAILBOX_BASE 0x1ac98000
#endif
#ifndef GR_MAILBOX_BYTES
#define GR_MAILBOX_BYTES 0x00200000
#endif
/* GIC-400's distributor, and UART 6, a PL011 (UART 5 on the first boards: 0xfdf05000), which
 * BL2 has set up. */
#ifndef GR_GIC_BASE
#define GR_GIC_BASE 0xe82b1000
#endif
#ifndef GR_UART_BASE
#define GR_UART_BASE 0xfff32000
#endif
#define GR_UART_TIMEOUT_US 1000
/* Mailbox to the processor that has the clocks and the power. */
#ifndef GR_POWER_BASE
#define GR_POWER_BASE 0xe896b000
#endif
/* The GPU's clock while it is in use, and when it is not: rates of its operating points, in MHz. */
#ifndef GR_GPU_MHZ
#define GR_GPU_MHZ 400
#endif
#ifndef GR_GPU_IDLE_MHZ
#define GR_GPU_IDLE_MHZ 178
#endif

#endif
