/* Where things are on QEMU's machine "virt" with a secure world; -D sets another place. The numbers are also
 * in the firmware as `gr_board`, where the runners read them. */
#ifndef GRAMOPHONE_BOARD_H
#define GRAMOPHONE_BOARD_H

#include <stdint.h>

/* The GPU: its register window, and its interrupt (shared peripheral interrupt number, after GIC's own 32).
 */
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
/* GICv2 distributor, and the secure world's PL011 UART. */
#ifndef GR_GIC_BASE
#define GR_GIC_BASE 0x08000000
#endif
#ifndef GR_UART_BASE
#define GR_UART_BASE 0x09040000
#endif

struct gr_board {
    uint64_t gpu_base, carveout_base, carveout_bytes, mailbox_base, mailbox_bytes, gic_base, uart_base,
        gpu_spi;
};

/* The end: print a line, `what` and a number in hex, to the secure world's UART, and leave the emulator. */
_Noreturn void gr_exit(char what, uint32_t number, uint32_t exit_status);

#endif
