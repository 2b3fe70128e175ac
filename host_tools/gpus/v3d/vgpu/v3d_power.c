/*
 * Power of the V3D on a Raspberry Pi 4: the reset bit in PM_GRAFX and the two asynchronous AXI bridges
 * ("RPiVid ASB") between the GPU and the bus. Sequence: Linux drivers/soc/bcm/bcm2835-power.c: on: release
 * the reset, open the master then the slave bridge; off: the reverse.
 */
#include "v3d_device.h"

void v3d_power_write(struct v3d_device *dev, const struct v3d_register *known, uint32_t value)
{
    uint32_t *reg = v3d_reg(dev, known->offset), old = *reg;
    if ((value & PM_PASSWORD_MASK) != PM_PASSWORD) {
        vgpu_fail(&dev->base, "v3d42: write to %s 0x%04x (%s) of 0x%08x: password 0x%02x, expected 0x5a",
                  v3d_block_name(known->offset), known->offset % V3D_BLOCK_BYTES, known->name, value,
                  value >> 24);
        return;
    }
    value &= ~PM_PASSWORD_MASK;
    if (known->offset == PM_GRAFX) {
        *reg = value;
        if (old & ~value & PM_V3DRSTN) {
            v3d_reset(dev);
            dev->base.counters.resets++;
        }
    } else {
        /* The bridge acknowledges a stop request; with no transfer in flight, at once. */
        *reg = value & ASB_REQ_STOP ? ASB_REQ_STOP | ASB_ACK : 0;
    }
}

bool v3d_power_is_on(struct v3d_device *dev, uint32_t offset)
{
    const char *why = NULL;
    if (!(*v3d_reg(dev, PM_GRAFX) & PM_V3DRSTN))
        why = "the GPU is held in reset (PM_GRAFX)";
    else if ((*v3d_reg(dev, RPIVID_V3D_M_CTRL) | *v3d_reg(dev, RPIVID_V3D_S_CTRL)) & ASB_REQ_STOP)
        why = "the GPU's bus bridge is stopped (RPiVid ASB)";
    if (why)
        vgpu_fail(&dev->base, "v3d42: access to %s 0x%04x: %s", v3d_block_name(offset),
                  offset % V3D_BLOCK_BYTES, why);
    return !why;
}
