/*
 * Register map of the V3D 4.2 of a BCM2711: names, reset values, and the bits that a write may have set.
 *
 * Names, offsets and bits: Linux drivers/gpu/drm/v3d/v3d_regs.h; drivers/soc/bcm/bcm2835-power.c for the
 * power blocks. Only what the Linux driver uses is here: anything else is an access that nobody can have
 * recorded. Enumerators are offsets in the register window: hub at 0, core 0 at 0x4000, bridge at 0x8000,
 * then, on a Raspberry Pi 4, PM at 0xc000, ASB at 0x10000 and RPiVid ASB at 0x14000.
 */
#ifndef GRAMOPHONE_V3D_REGISTERS_H
#define GRAMOPHONE_V3D_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

enum {
    V3D_BLOCK_BYTES = 0x4000,
    V3D_HUB = 0x0000,
    V3D_CORE = 0x4000,
    V3D_BRIDGE = 0x8000,
    V3D_WINDOW_BYTES = 0xc000,
    V3D_PM = 0xc000,
    V3D_ASB = 0x10000,
    V3D_RPIVID_ASB = 0x14000,
    V3D_PI4_WINDOW_BYTES = 0x18000,
};

enum {
    HUB_AXICFG = V3D_HUB + 0x0,
    HUB_UIFCFG = V3D_HUB + 0x4,
    HUB_IDENT0 = V3D_HUB + 0x8,
    HUB_IDENT1 = V3D_HUB + 0xc,
    HUB_IDENT2 = V3D_HUB + 0x10,
    HUB_IDENT3 = V3D_HUB + 0x14,
    HUB_INT_STS = V3D_HUB + 0x50,
    HUB_INT_SET = V3D_HUB + 0x54,
    HUB_INT_CLR = V3D_HUB + 0x58,
    HUB_INT_MSK_STS = V3D_HUB + 0x5c,
    HUB_INT_MSK_SET = V3D_HUB + 0x60,
    HUB_INT_MSK_CLR = V3D_HUB + 0x64,
    HUB_TFU_FIRST = V3D_HUB + 0x400, /* texture formatting unit: 0x400 to 0x434, not modelled */
    HUB_TFU_LAST = V3D_HUB + 0x434,
    HUB_MMUC_CONTROL = V3D_HUB + 0x1000,
    HUB_MMU_CTL = V3D_HUB + 0x1200,
    HUB_MMU_PT_PA_BASE = V3D_HUB + 0x1204,
    HUB_MMU_ADDR_CAP = V3D_HUB + 0x1214,
    HUB_MMU_VIO_ID = V3D_HUB + 0x122c,
    HUB_MMU_ILLEGAL_ADDR = V3D_HUB + 0x1230,
    HUB_MMU_VIO_ADDR = V3D_HUB + 0x1234,
    HUB_MMU_DEBUG_INFO = V3D_HUB + 0x1238,

    CORE_IDENT0 = V3D_CORE + 0x0,
    CORE_IDENT1 = V3D_CORE + 0x4,
    CORE_IDENT2 = V3D_CORE + 0x8,
    CORE_MISCCFG = V3D_CORE + 0x18,
    CORE_SLCACTL = V3D_CORE + 0x24,
    CORE_L2TCACTL = V3D_CORE + 0x30,
    CORE_L2TFLSTA = V3D_CORE + 0x34,
    CORE_L2TFLEND = V3D_CORE + 0x38,
    CORE_INT_STS = V3D_CORE + 0x50,
    CORE_INT_SET = V3D_CORE + 0x54,
    CORE_INT_CLR = V3D_CORE + 0x58,
    CORE_INT_MSK_STS = V3D_CORE + 0x5c,
    CORE_INT_MSK_SET = V3D_CORE + 0x60,
    CORE_INT_MSK_CLR = V3D_CORE + 0x64,
    CORE_CT0CS = V3D_CORE + 0x100,
    CORE_CT1CS = V3D_CORE + 0x104,
    CORE_CT0EA = V3D_CORE + 0x108,
    CORE_CT1EA = V3D_CORE + 0x10c,
    CORE_CT0CA = V3D_CORE + 0x110,
    CORE_CT1CA = V3D_CORE + 0x114,
    CORE_CT0RA = V3D_CORE + 0x118,
    CORE_CT1RA = V3D_CORE + 0x11c,
    CORE_CT0QTS = V3D_CORE + 0x15c,
    CORE_CT0QBA = V3D_CORE + 0x160,
    CORE_CT1QBA = V3D_CORE + 0x164,
    CORE_CT0QEA = V3D_CORE + 0x168,
    CORE_CT1QEA = V3D_CORE + 0x16c,
    CORE_CT0QMA = V3D_CORE + 0x170,
    CORE_CT0QMS = V3D_CORE + 0x174,
    CORE_PTB_BPCA = V3D_CORE + 0x300,
    CORE_PTB_BPCS = V3D_CORE + 0x304,
    CORE_PTB_BPOA = V3D_CORE + 0x308,
    CORE_PTB_BPOS = V3D_CORE + 0x30c,
    CORE_GMP_STATUS = V3D_CORE + 0x800,
    CORE_GMP_CFG = V3D_CORE + 0x804,
    CORE_GMP_VIO_ADDR = V3D_CORE + 0x808,
    CORE_CSD_STATUS = V3D_CORE + 0x900,
    CORE_CSD_QUEUED_CFG0 = V3D_CORE + 0x904,
    CORE_CSD_QUEUED_CFG6 = V3D_CORE + 0x91c,
    CORE_CSD_CURRENT_CFG0 = V3D_CORE + 0x920,
    CORE_CSD_CURRENT_CFG4 = V3D_CORE + 0x930,
    CORE_CSD_CURRENT_CFG6 = V3D_CORE + 0x938,
    CORE_ERR_FDBGO = V3D_CORE + 0xf04,
    CORE_ERR_FDBGB = V3D_CORE + 0xf08,
    CORE_ERR_FDBGS = V3D_CORE + 0xf10,
    CORE_ERR_STAT = V3D_CORE + 0xf20,

    BRIDGE_REVISION = V3D_BRIDGE + 0x0,
    BRIDGE_SW_INIT_1 = V3D_BRIDGE + 0xc,

    PM_GRAFX = V3D_PM + 0x10c,
    ASB_AXI_BRDG_ID = V3D_ASB + 0x20,
    RPIVID_V3D_S_CTRL = V3D_RPIVID_ASB + 0x8,
    RPIVID_V3D_M_CTRL = V3D_RPIVID_ASB + 0xc,
    RPIVID_AXI_BRDG_ID = V3D_RPIVID_ASB + 0x20,
};

#define MMUC_FLUSHING (1u << 2)
#define MMUC_FLUSH (1u << 1)
#define MMUC_ENABLE (1u << 0)

#define MMU_CAP_EXCEEDED (1u << 27)
#define MMU_CAP_EXCEEDED_ABORT (1u << 26)
#define MMU_CAP_EXCEEDED_INT (1u << 25)
#define MMU_PT_INVALID (1u << 20)
#define MMU_PT_INVALID_ABORT (1u << 19)
#define MMU_PT_INVALID_INT (1u << 18)
#define MMU_PT_INVALID_ENABLE (1u << 16)
#define MMU_WRITE_VIOLATION (1u << 12)
#define MMU_WRITE_VIOLATION_ABORT (1u << 11)
#define MMU_WRITE_VIOLATION_INT (1u << 10)
#define MMU_TLB_CLEARING (1u << 7)
#define MMU_TLB_CLEAR (1u << 2)
#define MMU_ENABLE (1u << 0)
#define MMU_VIOLATIONS (MMU_CAP_EXCEEDED | MMU_PT_INVALID | MMU_WRITE_VIOLATION)

#define MMU_ADDR_CAP_ENABLE (1u << 31)
#define MMU_ADDR_CAP_MPAGE 0xfffu /* in megabytes */

#define HUB_INT_MMU_WRV (1u << 5)
#define HUB_INT_MMU_PTI (1u << 4)
#define HUB_INT_MMU_CAP (1u << 3)

#define L2TCACTL_TMUWCF (1u << 8)
#define L2TCACTL_FLM (3u << 1)
#define L2TCACTL_L2TFLS (1u << 0)
enum { L2T_FLUSH = 0, L2T_CLEAR = 1, L2T_CLEAN = 2 };

#define CORE_INT_CSDDONE (1u << 7)
#define CORE_INT_FLDONE (1u << 1)
#define CORE_INT_FRDONE (1u << 0)

#define CSD_HAVE_QUEUED (1u << 0)
#define CSD_HAVE_CURRENT (1u << 1)
#define CSD_NUM_ACTIVE_SHIFT 2
#define CSD_NUM_COMPLETED (0xffu << 4)
#define CSD_NUM_COMPLETED_SHIFT 4

#define SW_INIT_V3D_CLK_108 (1u << 0)

#define PM_V3DRSTN (1u << 6)
#define PM_PASSWORD 0x5a000000u
#define PM_PASSWORD_MASK 0xff000000u
#define ASB_REQ_STOP (1u << 0)
#define ASB_ACK (1u << 1)

enum v3d_register_access { V3D_READ_ONLY = 1, V3D_WRITE_ONLY = 2, V3D_READ_WRITE = 3 };

struct v3d_register {
    const char *name;
    uint32_t offset;   /* in the register window */
    uint32_t reset;    /* value after reset */
    uint32_t writable; /* bits that a write may have set; any other is an error */
    enum v3d_register_access access;
};

extern const struct v3d_register v3d_registers[];
extern const size_t v3d_register_count;

/* "hub", "core0", "bridge"... of a window offset. */
const char *v3d_block_name(uint32_t offset);

#endif
