/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port for Rockchip's RK3576 at EL3. It has run only in emulation, not on silicon.
 *
 * The firewall knows every bus master and every block of registers. Before the GPU has power, it is told that
 * the GPU alone is in a domain of its own, that only this domain and secure cores reach the carve-out, and
 * that only secure cores reach the GPU's registers. It is read back, for nothing may be loaded into memory
 * that is open. The way back begins with a GPU without power and with memory that has been wiped.
 *
 * Facts: TF-A plat/rockchip/rk3576, commit 036935a8144b: drivers/secure/firewall.c and .h (domains, groups,
 * regions, key), drivers/pmu/pmu.c and .h (power, bus, repair of memory), scmi/rk3576_clk.c (clock). With
 * which settings the chip comes out of its reset is not public; TF-A writes them all, and so does this port
 * with those that it relies on. The GPU's voltage is a regulator's, which boards switch on.
 */
#include "port.h"

enum {
    /* Power management unit 2. The upper halves of what is written are masks. */
    BUS_REQUEST = 0x110,
    BUS_ACKNOWLEDGED = 0x120,
    BUS_IDLE = 0x128,
    GPU_BUS = 1 << 0,
    POWER_OFF = 0x214, /* of domains from 16 on */
    REPAIR = 0x514,    /* memory is repaired when power comes */
    GPU_POWER = 1 << 9,
    IS_OFF = 0x230,
    IS_REPAIRED = 0x570,
    GPU_DOMAIN = 1 << 25,
    POWER_TIMEOUT_US = 5000,
    BUS_TIMEOUT_US = 1000,

    GPU_CLOCK = 0x594,        /* CLKSEL_CON(165) */
    GPU_CLOCK_MASK = 0x1ff,   /* PVTPLL or not, source, divider - 1 */
    GPU_CLOCK_198_MHZ = 0x05, /* GPLL's 1188 MHz by 6, which needs no more than the lowest voltage */

    /* Firewall. Masters have a domain, four bits each; a domain's right to a region or a group are two bits:
     * 00 both worlds, 10 the secure one, 11 nobody. */
    MASTERS_0 = 0x000, /* eight of them */
    MASTERS_16 = 0x008,
    GPU_SHARED = 0x00001000, /* of these the GPU, in domain 1 */
    GPU_ALONE = 0x00002000,
    REGION_0 = 0x100, /* in MiB: last one, first one */
    REGION_2 = 0x108,
    REGION_RIGHTS_0 = 0x140, /* of an even region in the lower half, of the next one in the upper */
    REGION_RIGHTS_2 = 0x144,
    REGIONS_ON = 0x168,
    GROUP_RIGHTS_2 = 0x404,
    GPU_GROUPS = 0x980, /* four bits each: GRF, GPU, .. */
    GPU_GROUP_SHIFT = 4,
    GPU_OWN_GROUP = 2,
    KEY = 0xa80,
    SECURE_CORES = 0xfffe, /* domain 0's secure world, nobody else */
    SECURE_CORES_AND_GPU =
        0xffce, /* and domain 2, whose accesses are the normal world's as far as is known */
    KEY_TAKES_US = 20,
};
#define KEY_OFF UINT32_C(0x03ff0000)
#define KEY_ON UINT32_C(0x03ff03ff)
#define MIB(address) ((uint32_t)((address) >> 20))
#define REGION(base, bytes) ((MIB((base) + (bytes)) - 1) << 16 | MIB(base))
_Static_assert(GR_CARVEOUT_BASE % 0x100000 == 0 && GR_CARVEOUT_BYTES % 0x100000 == 0,
               "the firewall's regions are whole MiB");
#define SECURE_MIB UINT64_C(0x40000000) /* TF-A's: this firmware lies in it */
_Static_assert(GR_ROM_BASE >= SECURE_MIB && GR_RAM_BASE + GR_RAM_BYTES <= SECURE_MIB + 0x100000,
               "the firmware lies in the firewall's region 0");

static uint32_t failed; /* first register that did not become what it should */

static bool wait(uint64_t address, uint32_t mask, uint32_t value, uint32_t timeout_us)
{
    const bool done = gr_port_wait_word(address, mask, value, timeout_us);
    if (!done && !failed)
        failed = (uint32_t)address;
    return done;
}

/* Set bits of a register whose upper half is a mask. */
static void set(uint64_t address, uint32_t mask, uint32_t value)
{
    *gr_word(address) = mask << 16 | value;
}

static bool set_bus(bool active)
{
    const uint32_t idle = active ? 0 : GPU_BUS;
    set(GR_POWER_BASE + BUS_REQUEST, GPU_BUS, idle);
    return wait(GR_POWER_BASE + BUS_ACKNOWLEDGED, GPU_BUS, idle, BUS_TIMEOUT_US) &&
           wait(GR_POWER_BASE + BUS_IDLE, GPU_BUS, idle, BUS_TIMEOUT_US);
}

static bool set_power(bool on)
{
    set(GR_POWER_BASE + POWER_OFF, GPU_POWER, on ? 0 : GPU_POWER);
    return wait(GR_POWER_BASE + IS_OFF, GPU_DOMAIN, on ? 0 : GPU_DOMAIN, POWER_TIMEOUT_US);
}

static bool switch_on(void)
{
    set(GR_CLOCKS_BASE + GPU_CLOCK, GPU_CLOCK_MASK, GPU_CLOCK_198_MHZ);
    set(GR_POWER_BASE + REPAIR, GPU_POWER, GPU_POWER);
    return set_power(true) && wait(GR_POWER_BASE + IS_REPAIRED, GPU_DOMAIN, GPU_DOMAIN, POWER_TIMEOUT_US) &&
           set_bus(true);
}

static bool switch_off(void)
{
    return set_bus(false) && set_power(false);
}

struct setting {
    uint32_t at, mask, value;
};

/* Masters as TF-A has them, but for the GPU: in domain 1 those whose accesses could be the secure world's,
 * the others in domain 0. */
static const struct setting taken[] = {
    {MASTERS_0 + 0x0, UINT32_MAX, 0x00000110},
    {MASTERS_0 + 0x4, UINT32_MAX, 0x01111000},
    {MASTERS_16, UINT32_MAX, GPU_ALONE},
    {MASTERS_0 + 0xc, UINT32_MAX, 0x10000000},
    {MASTERS_0 + 0x10, UINT32_MAX, 0x01010001},
    {MASTERS_0 + 0x14, UINT32_MAX, 0},
    {MASTERS_0 + 0x18, UINT32_MAX, 0},
    {MASTERS_0 + 0x1c, UINT32_MAX, 0x00000001},
    {REGION_RIGHTS_0, 0xffff, SECURE_CORES},
    {REGION_0, UINT32_MAX, REGION(SECURE_MIB, 0x100000)},
    {REGION_RIGHTS_2, 0xffff, SECURE_CORES_AND_GPU},
    {REGION_2, UINT32_MAX, REGION(GR_CARVEOUT_BASE, GR_CARVEOUT_BYTES)},
    {GROUP_RIGHTS_2, 0xffff, SECURE_CORES},
    {GPU_GROUPS, 0xf << GPU_GROUP_SHIFT, GPU_OWN_GROUP << GPU_GROUP_SHIFT},
    {REGIONS_ON, 1 << 2 | 1 << 0, 1 << 2 | 1 << 0},
};
/* The firmware's own MiB stays as it is. */
static const struct setting given_back[] = {
    {GPU_GROUPS, 0xf << GPU_GROUP_SHIFT, 0},
    {MASTERS_16, UINT32_MAX, GPU_SHARED},
    {REGIONS_ON, 1 << 2, 0},
};

static void set_firewall(const struct setting *settings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        volatile uint32_t *word = gr_word(GR_FIREWALL_BASE + settings[i].at);
        *word = (*word & ~settings[i].mask) | settings[i].value;
    }
    /* Nothing counts before the key is turned. */
    *gr_word(GR_FIREWALL_BASE + KEY) = KEY_OFF;
    __asm__ volatile("dsb sy" ::: "memory");
    *gr_word(GR_FIREWALL_BASE + KEY) = KEY_ON;
    __asm__ volatile("dsb sy" ::: "memory");
    const uint64_t start = gr_port_now_us();
    while (gr_port_now_us() - start <= KEY_TAKES_US)
        ;
}

static bool is_set(const struct setting *settings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!wait(GR_FIREWALL_BASE + settings[i].at, settings[i].mask, settings[i].value, 0))
            return false;
    }
    return true;
}

#define COUNT(settings) ((uint32_t)(sizeof(settings) / sizeof(settings)[0]))

uint32_t gr_port_read32(uint32_t offset)
{
    return gr_gpu_read(offset);
}

__attribute__((noinline)) void gr_port_write32(uint32_t offset, uint32_t value)
{
    gr_gpu_write(offset, value);
}

void gr_board_start(void)
{
    __asm__ volatile("msr cntfrq_el0, %0" ::"r"((uint64_t)GR_COUNTER_HZ));
}

/* What it did before belongs to somebody else: it loses power first. */
uint32_t gr_board_gpu_on(void)
{
    const bool was_on = !(*gr_word(GR_POWER_BASE + IS_OFF) & GPU_DOMAIN);
    if (was_on && !switch_off())
        return failed;
    set_firewall(taken, COUNT(taken));
    if (is_set(taken, COUNT(taken)))
        (void)switch_on();
    return failed;
}

/* A GPU that keeps its power keeps its domain: the carve-out stays closed. */
uint32_t gr_board_gpu_off(void)
{
    if (switch_off()) {
        set_firewall(given_back, COUNT(given_back));
        (void)is_set(given_back, COUNT(given_back));
    }
    return failed;
}

void gr_board_end(uint32_t exit_status)
{
    (void)exit_status;
}
