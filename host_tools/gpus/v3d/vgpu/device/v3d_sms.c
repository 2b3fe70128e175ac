/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power and reset of the V3D 7.1 on a Raspberry Pi 5: the block "sms". Sequence and states: Raspberry Pi's
 * Linux 6.12 drivers/gpu/drm/v3d (M. Canal, "drm/v3d: Use V3D_SMS registers for power on/off and reset on V3D
 * 7.x", dri-devel, March 2025). Both registers show one state here; the driver looks for each state in one of
 * them. After a start the GPU is on, as kernels without that change find it.
 */
#include "v3d_device.h"

enum {
    CLEAR_POWER_OFF = 1 << 29, /* requests, in TEE_CS */
    POWER_OFF = 1 << 30,
    RESET = 4, /* a request, in REE_CS */
    IS_IDLE = 0x0,
    IS_RESETTING = 0xb,
    IS_OFF = 0xd,
};

static void set_state(struct v3d_device *dev, uint32_t state)
{
    *v3d_reg(dev, V3D_SMS_REE_CS) = *v3d_reg(dev, V3D_SMS_TEE_CS) = state;
}

static void refuse(struct v3d_device *dev, const struct vgpu_register *known, uint32_t value, const char *why)
{
    const struct vgpu_block *block = v3d_block(dev->chip, known->offset);
    vgpu_fail(&dev->base, "%s: write to %s 0x%04x (%s) of 0x%08x: %s", dev->chip->name, block->name,
              known->offset - block->offset, known->name, value, why);
}

void v3d_sms_write(struct v3d_device *dev, const struct vgpu_register *known, uint32_t value)
{
    const bool is_off = *v3d_reg(dev, V3D_SMS_TEE_CS) == IS_OFF;
    if (known->offset == V3D_SMS_TEE_CS && value == CLEAR_POWER_OFF) {
        set_state(dev, IS_IDLE);
    } else if (known->offset == V3D_SMS_TEE_CS && value == POWER_OFF) {
        dev->sms_ns = 0;
        set_state(dev, IS_OFF);
    } else if (known->offset == V3D_SMS_REE_CS && value == RESET && !is_off) {
        v3d_reset(dev);
        dev->base.counters.resets++;
        set_state(dev, IS_RESETTING);
        dev->sms_ns = dev->base.now_ns + dev->base.options.latency_ns + 1;
    } else {
        refuse(dev, known, value, is_off ? "the GPU is off" : "a request that is not modelled");
    }
}

bool v3d_sms_is_on(struct v3d_device *dev, uint32_t offset)
{
    const uint32_t state = *v3d_reg(dev, V3D_SMS_TEE_CS);
    const struct vgpu_block *block = v3d_block(dev->chip, offset);
    if (state != IS_IDLE)
        vgpu_fail(&dev->base, "%s: access to %s 0x%04x: the GPU is %s (sms)", dev->chip->name, block->name,
                  offset - block->offset, state == IS_OFF ? "off" : "held in reset");
    return state == IS_IDLE;
}

/* The reset takes a while. */
void v3d_sms_advance(struct v3d_device *dev)
{
    if (!dev->sms_ns || dev->base.now_ns < dev->sms_ns)
        return;
    dev->sms_ns = 0;
    set_state(dev, IS_IDLE);
}
