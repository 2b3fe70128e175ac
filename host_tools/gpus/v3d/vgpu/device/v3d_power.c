/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power of the V3D on a Raspberry Pi 4: the reset bit in PM_GRAFX and the two asynchronous AXI bridges
 * ("RPiVid ASB") between the GPU and the bus. Sequence: Linux 6.1 drivers/soc/bcm/bcm2835-power.c: on:
 * release the reset, open the master then the slave bridge; off: the reverse.
 */
#include "v3d_device.h"

enum { REQ_STOP = RPIVID_ASB_V3D_S_CTRL_REQ_STOP, ACK = RPIVID_ASB_V3D_S_CTRL_ACK }; /* of both bridges */

void v3d_power_write(struct v3d_device *dev, const struct vgpu_register *known, uint32_t value)
{
    uint32_t *reg = v3d_reg(dev, known->offset), old = *reg;
    if ((value & PM_GRAFX_PASSWORD) != PM_PASSWORD) {
        const struct vgpu_block *block = v3d_block(dev->chip, known->offset);
        vgpu_fail(&dev->base, "%s: write to %s 0x%04x (%s) of 0x%08x: password 0x%02x, expected 0x5a",
                  dev->chip->name, block->name, known->offset - block->offset, known->name, value,
                  value >> 24);
        return;
    }
    value &= ~PM_GRAFX_PASSWORD;
    if (known->offset == PM_GRAFX) {
        *reg = value;
        if (old & ~value & PM_GRAFX_V3DRSTN) {
            v3d_reset(dev);
            dev->base.counters.resets++;
        }
    } else {
        /* The bridge acknowledges a stop request; with no transfer in flight, at once. */
        *reg = value & REQ_STOP ? REQ_STOP | ACK : 0;
    }
}

bool v3d_power_is_on(struct v3d_device *dev, uint32_t offset)
{
    const char *why = NULL;
    if (!(*v3d_reg(dev, PM_GRAFX) & PM_GRAFX_V3DRSTN))
        why = "the GPU is held in reset (PM_GRAFX)";
    else if ((*v3d_reg(dev, RPIVID_ASB_V3D_M_CTRL) | *v3d_reg(dev, RPIVID_ASB_V3D_S_CTRL)) & REQ_STOP)
        why = "the GPU's bus bridge is stopped (RPiVid ASB)";
    const struct vgpu_block *block = v3d_block(dev->chip, offset);
    if (why)
        vgpu_fail(&dev->base, "%s: access to %s 0x%04x: %s", dev->chip->name, block->name,
                  offset - block->offset, why);
    return !why;
}
