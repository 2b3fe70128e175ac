#include "v3d_registers.h"

/*
 * Reset values. Identities: as read on a Raspberry Pi 4 through DRM_IOCTL_V3D_GET_PARAM, but HUB_IDENT0
 * (ASCII "VHUB") and MMU_DEBUG_INFO (36-bit physical, 32-bit virtual addresses) whose values on the chip are
 * not known. AXICFG: the driver calls its field mask the power-on value. Interrupt masks: all masked and the
 * bridge revision: major 7, the branch that the driver takes; neither is documented. All other reset values
 * are not known and taken as zero; the driver writes before it reads.
 */
#define RO(name, reset)                                                                                      \
    {                                                                                                        \
#name, name, reset, 0, V3D_READ_ONLY                                                                 \
    }
#define RW(name, reset, bits)                                                                                \
    {                                                                                                        \
#name, name, reset, bits, V3D_READ_WRITE                                                             \
    }
#define WO(name, bits)                                                                                       \
    {                                                                                                        \
#name, name, 0, bits, V3D_WRITE_ONLY                                                                 \
    }
#define NTH(name, n, bits, access)                                                                           \
    {                                                                                                        \
#name "+" #n, name + 4 * n, 0, bits, access                                                          \
    }

const struct v3d_register v3d_registers[] = {
    RW(HUB_AXICFG, 0xf, 0xf),
    RO(HUB_UIFCFG, 0x45),
    RO(HUB_IDENT0, 0x42554856),
    RO(HUB_IDENT1, 0x000e1124),
    RO(HUB_IDENT2, 0x100),
    RO(HUB_IDENT3, 0xe00),
    RO(HUB_INT_STS, 0),
    WO(HUB_INT_SET, 0x3f),
    WO(HUB_INT_CLR, 0x3f),
    RO(HUB_INT_MSK_STS, 0xffffffff),
    WO(HUB_INT_MSK_SET, 0xffffffff),
    WO(HUB_INT_MSK_CLR, 0xffffffff),
    RW(HUB_MMUC_CONTROL, 0, MMUC_FLUSHING | MMUC_FLUSH | MMUC_ENABLE),
    RW(HUB_MMU_CTL, 0,
       MMU_VIOLATIONS | MMU_CAP_EXCEEDED_ABORT | MMU_CAP_EXCEEDED_INT | MMU_PT_INVALID_ABORT |
           MMU_PT_INVALID_INT | MMU_PT_INVALID_ENABLE | MMU_WRITE_VIOLATION_ABORT | MMU_WRITE_VIOLATION_INT |
           MMU_TLB_CLEARING | MMU_TLB_CLEAR | MMU_ENABLE),
    RW(HUB_MMU_PT_PA_BASE, 0, 0x00ffffff),
    RW(HUB_MMU_ADDR_CAP, 0, MMU_ADDR_CAP_ENABLE | MMU_ADDR_CAP_MPAGE),
    RO(HUB_MMU_VIO_ID, 0),
    RW(HUB_MMU_ILLEGAL_ADDR, 0, 0x80ffffff),
    RO(HUB_MMU_VIO_ADDR, 0),
    RO(HUB_MMU_DEBUG_INFO, 0x621),

    RO(CORE_IDENT0, 0x04443356),
    RO(CORE_IDENT1, 0x81001422),
    RO(CORE_IDENT2, 0x40078121),
    RO(CORE_MISCCFG, 0),
    RW(CORE_SLCACTL, 0, 0x0f0f0f0f),
    RW(CORE_L2TCACTL, 0, L2TCACTL_TMUWCF | L2TCACTL_FLM | L2TCACTL_L2TFLS),
    RW(CORE_L2TFLSTA, 0, 0xffffffff),
    RW(CORE_L2TFLEND, 0, 0xffffffff),
    RO(CORE_INT_STS, 0),
    WO(CORE_INT_SET, 0x0fff00ff),
    WO(CORE_INT_CLR, 0x0fff00ff),
    RO(CORE_INT_MSK_STS, 0xffffffff),
    WO(CORE_INT_MSK_SET, 0xffffffff),
    WO(CORE_INT_MSK_CLR, 0xffffffff),
    RO(CORE_CT0CS, 0),
    RO(CORE_CT1CS, 0),
    RO(CORE_CT0EA, 0),
    RO(CORE_CT1EA, 0),
    RO(CORE_CT0CA, 0),
    RO(CORE_CT1CA, 0),
    RO(CORE_CT0RA, 0),
    RO(CORE_CT1RA, 0),
    RW(CORE_CT0QTS, 0, 0xffffffc2), /* 64-byte aligned address, enable bit 1 */
    RW(CORE_CT0QBA, 0, 0xffffffff),
    RW(CORE_CT1QBA, 0, 0xffffffff),
    RW(CORE_CT0QEA, 0, 0xffffffff),
    RW(CORE_CT1QEA, 0, 0xffffffff),
    RW(CORE_CT0QMA, 0, 0xffffffff),
    RW(CORE_CT0QMS, 0, 0xffffffff),
    RO(CORE_PTB_BPCA, 0),
    RO(CORE_PTB_BPCS, 0),
    RW(CORE_PTB_BPOA, 0, 0xffffffff),
    RW(CORE_PTB_BPOS, 0, 0xffffffff),
    RO(CORE_GMP_STATUS, 0),
    RO(CORE_GMP_CFG, 0),
    RO(CORE_GMP_VIO_ADDR, 0),
    RO(CORE_CSD_STATUS, 0),
    NTH(CORE_CSD_QUEUED_CFG0, 0, 0xffffffff, V3D_READ_WRITE),
    NTH(CORE_CSD_QUEUED_CFG0, 1, 0xffffffff, V3D_READ_WRITE),
    NTH(CORE_CSD_QUEUED_CFG0, 2, 0xffffffff, V3D_READ_WRITE),
    NTH(CORE_CSD_QUEUED_CFG0, 3, 0x07ffffff, V3D_READ_WRITE),
    NTH(CORE_CSD_QUEUED_CFG0, 4, 0xffffffff, V3D_READ_WRITE),
    NTH(CORE_CSD_QUEUED_CFG0, 5, 0xffffffff, V3D_READ_WRITE),
    NTH(CORE_CSD_QUEUED_CFG0, 6, 0xfffffffc, V3D_READ_WRITE),
    NTH(CORE_CSD_CURRENT_CFG0, 0, 0, V3D_READ_ONLY),
    NTH(CORE_CSD_CURRENT_CFG0, 1, 0, V3D_READ_ONLY),
    NTH(CORE_CSD_CURRENT_CFG0, 2, 0, V3D_READ_ONLY),
    NTH(CORE_CSD_CURRENT_CFG0, 3, 0, V3D_READ_ONLY),
    NTH(CORE_CSD_CURRENT_CFG0, 4, 0, V3D_READ_ONLY),
    NTH(CORE_CSD_CURRENT_CFG0, 5, 0, V3D_READ_ONLY),
    NTH(CORE_CSD_CURRENT_CFG0, 6, 0, V3D_READ_ONLY),
    RO(CORE_ERR_FDBGO, 0),
    RO(CORE_ERR_FDBGB, 0),
    RO(CORE_ERR_FDBGS, 0),
    RO(CORE_ERR_STAT, 0),

    RO(BRIDGE_REVISION, 0x0700),
    RW(BRIDGE_SW_INIT_1, 0, SW_INIT_V3D_CLK_108),

    /* Power (Raspberry Pi 4): the firmware leaves the domain powered, the GPU in reset and its bridges
       stopped. */
    RW(PM_GRAFX, 0, PM_PASSWORD_MASK | PM_V3DRSTN),
    RO(ASB_AXI_BRDG_ID, 0x62726467), /* ASCII "brdg" */
    RW(RPIVID_V3D_S_CTRL, ASB_REQ_STOP | ASB_ACK, PM_PASSWORD_MASK | ASB_REQ_STOP | ASB_ACK),
    RW(RPIVID_V3D_M_CTRL, ASB_REQ_STOP | ASB_ACK, PM_PASSWORD_MASK | ASB_REQ_STOP | ASB_ACK),
    RO(RPIVID_AXI_BRDG_ID, 0x62726467),
};

const size_t v3d_register_count = sizeof(v3d_registers) / sizeof(v3d_registers[0]);

const char *v3d_block_name(uint32_t offset)
{
    static const char *const names[] = {"hub", "core0", "bridge", "pm", "asb", "rpivid_asb"};
    return names[offset / V3D_BLOCK_BYTES];
}
