/* SPDX-License-Identifier: BSD-2-Clause */
/* Board: Raspberry Pi 4 (BCM2711), as armstub8.bin: the VideoCore's firmware puts it at address 0 and enters
 * it on all four cores at EL3. After the request an arm64 kernel, where there is one, is entered at EL2;
 * otherwise the cores wait forever. -D overrides a number; all of them are in the firmware too, as
 * `gr_board`, where the runners read them. It has run only in emulation, not on silicon.
 *
 * Facts: Linux 6.1 arch/arm/boot/dts/bcm2711.dtsi (seen from the cores, its bus address 0x7eXXXXXX is
 * 0xfeXXXXXX, and 0x40000000 is 0xff800000); TF-A 2.12 plat/rpi/rpi4/include and docs/plat/rpi4.rst. */
#ifndef GRAMOPHONE_BOARD_H
#define GRAMOPHONE_BOARD_H

/* DRAM from 0: the stub owns what lies below the kernel's 0x80000, and keeps the first page, which
 * the device tree reserves. */
#ifndef GR_ROM_BASE
#define GR_ROM_BASE 0x00000000
#endif
#ifndef GR_RAM_BASE
#define GR_RAM_BASE 0x00010000
#endif
/* Words at fixed places in the first page: armstub8.S. */
#define GR_ARMSTUB_AT 0xd8
/* The counter counts the crystal. */
#define GR_COUNTER_HZ 54000000
/* V3D: hub, followed by core 0. */
#ifndef GR_GPU_BASE
#define GR_GPU_BASE 0xfec00000
#endif
#ifndef GR_GPU_SPI
#define GR_GPU_SPI 74
#endif
/* DRAM that every model has, below the device tree (the VideoCore's firmware puts it under 0x2f000000) and
 * the VideoCore's own part of the first GiB. No firewall of the SoC can keep other masters out of it. */
#ifndef GR_CARVEOUT_BASE
#define GR_CARVEOUT_BASE 0x20000000
#endif
#ifndef GR_CARVEOUT_BYTES
#define GR_CARVEOUT_BYTES 0x0e000000
#endif
/* The mailbox: config.txt's "initramfs FILE 0x10000000" loads it. */
#ifndef GR_MAILBOX_BASE
#define GR_MAILBOX_BASE 0x10000000
#endif
#ifndef GR_MAILBOX_BYTES
#define GR_MAILBOX_BYTES 0x10000000
#endif
/* GIC-400's distributor (config.txt: enable_gic=1), and UART 0, a PL011, on pins 14 and 15: 115200 8N1. */
#ifndef GR_GIC_BASE
#define GR_GIC_BASE 0xff841000
#endif
#ifndef GR_UART_BASE
#define GR_UART_BASE 0xfe201000
#endif
#define GR_UART_TIMEOUT_US 1000
/* Power management. */
#ifndef GR_POWER_BASE
#define GR_POWER_BASE 0xfe100000
#endif

#endif
