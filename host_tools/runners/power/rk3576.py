# SPDX-License-Identifier: BSD-2-Clause
"""Power, clock and firewall of an RK3576's Mali.

The GPU gets power only with a clock, and only while nobody but it and secure cores reaches the carve-out and
nobody but secure cores its registers. The firewall opens only when the GPU has no power and the carve-out is
empty. Settings of the firewall count 20 us after its key has been turned.

Facts: TF-A plat/rockchip/rk3576, commit 036935a8144b: drivers/secure/firewall.c and .h, drivers/pmu/pmu.c and .h,
scmi/rk3576_clk.c. After a reset here all masters are in domain 0, all registers in group 0, no region is on, the
key is on, and the GPU has power: not known of the chip, and what asks most of a port.
"""

from __future__ import annotations

from collections.abc import Iterator

from host_tools.runners.power.block import PowerBlock
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import boards

PMU, CRU, FIREWALL = 0x27380000, 0x27200000, 0x26005000
BUS_REQUEST, BUS_ACKNOWLEDGED, BUS_IDLE, GPU_BUS = PMU + 0x110, PMU + 0x120, PMU + 0x128, 1 << 0
POWER_OFF, REPAIR, GPU_POWER = PMU + 0x214, PMU + 0x514, 1 << 9
IS_OFF, IS_REPAIRED, GPU_DOMAIN = PMU + 0x230, PMU + 0x570, 1 << 25
CLOCK, CLOCK_198_MHZ = CRU + 0x594, 5
MASTERS = tuple(FIREWALL + 4 * i for i in range(8))  # eight masters each
REGIONS = tuple(FIREWALL + 0x100 + 4 * i for i in range(16))
REGION_RIGHTS = tuple(FIREWALL + 0x140 + 4 * i for i in range(8))  # of two regions each
REGIONS_ON = FIREWALL + 0x168
GROUP_RIGHTS = tuple(FIREWALL + 0x400 + 4 * i for i in range(4))  # of two groups each
GPU_GROUPS = FIREWALL + 0x980
KEY, KEY_OFF, KEY_ON, KEY_TAKES_NS = FIREWALL + 0xA80, 0x03FF0000, 0x03FF03FF, 20_000
SETTINGS = (*MASTERS, *REGIONS, *REGION_RIGHTS, REGIONS_ON, *GROUP_RIGHTS, GPU_GROUPS)
GPU, GPU_REGISTERS = 19, 1  # number of the master, and of the registers among GPU_GROUPS
CORES = range(48, 56)
# Besides the cores: TF-A moves these out of the cores' domain (dm1_mst), so the others' accesses are taken for the
# normal world's.
CAN_BE_SECURE = (1, 2, 11, 12, 13, 14, 19, 31, 32, 36, 38, 56)
DOMAINS = 8
NORMAL, SECURE = 2, 1  # worlds: bits of a right, which refuse
WORLDS = {NORMAL: "normal", SECURE: "secure"}
MASKED = 16  # bits that a power or clock register has: the upper half of what is written says which change


class Rk3576Power(PowerBlock):
    """The model; a request is one to the power management unit."""

    BOARD = boards.load("rk3576")
    PAGES = (PMU, CRU, FIREWALL)

    def __init__(self, device: VirtualGpu, answers: int | None = None) -> None:
        super().__init__(device, answers)
        self._masked = {BUS_REQUEST: 0, POWER_OFF: 0, REPAIR: 0, CLOCK: 0}
        self._state = {BUS_ACKNOWLEDGED: 0, BUS_IDLE: 0, IS_OFF: 0, IS_REPAIRED: 0}
        self._written = dict.fromkeys(SETTINGS, 0)
        self.settings = dict(self._written)  # that count
        self._key = KEY_ON
        self._pending: dict[int, int] | None = None  # settings that count from `_due` on
        self._due = 0

    def _read(self, address: int) -> int | None:
        self._settle()
        for registers in (self._masked, self._state, self._written):
            if address in registers:
                return registers[address]
        return None

    def _write(self, address: int, value: int) -> bool:
        self._settle()
        if address in self._masked:
            mask = value >> MASKED
            self.refuse(not mask or bool(value & 0xFFFF & ~mask), f"{address:#010x}: no mask for {value:#010x}")
            before = self._masked[address]
            self._masked[address] = (before & ~mask) | (value & mask)
            self._power(address)
        elif address == KEY:
            self._turn(value)
        elif address in self._written:
            self.refuse(self._pending is not None, "settings are written while others are about to count")
            self.refuse(self._key == KEY_OFF, "settings are written while the key is off")
            self._written[address] = value
        else:
            return False
        return True

    def _power(self, address: int) -> None:
        idle = bool(self._masked[BUS_REQUEST] & GPU_BUS)
        off = bool(self._masked[POWER_OFF] & GPU_POWER)
        was_off = bool(self._state[IS_OFF])
        if address == CLOCK:
            self.refuse(not was_off, "the clock is changed while the GPU has power")
        elif address == BUS_REQUEST:
            self.refuse(was_off and not idle, "the bus of a GPU without power is opened")
            if self._answering():
                self._state[BUS_ACKNOWLEDGED] = self._state[BUS_IDLE] = GPU_BUS if idle else 0
        elif address == POWER_OFF:
            self.refuse(off and not self._state[BUS_IDLE], "the power goes while the bus is in use")
            if was_off and not off:
                self._check_before_power()
            if self._answering():
                self._state[IS_OFF] = GPU_DOMAIN if off else 0
                self._state[IS_REPAIRED] = 0 if off else GPU_DOMAIN

    def _check_before_power(self) -> None:
        self.refuse(self._masked[CLOCK] != CLOCK_198_MHZ, "the GPU gets power without the clock for its voltage")
        self.refuse(not self._masked[REPAIR] & GPU_POWER, "the GPU gets power, and its memory is not repaired")
        self.refuse(self._pending is not None, "the GPU gets power before the firewall's settings count")
        for why in self.open_to():
            self.refuse(True, f"the GPU gets power while {why}")

    def _turn(self, value: int) -> None:
        self.refuse(value not in (KEY_OFF, KEY_ON), f"the firewall has no key {value:#010x}")
        self.refuse(self._pending is not None, "the key is turned while it turns")
        if value == KEY_ON:
            self.refuse(self._key != KEY_OFF, "the key is turned on that was not off")
            self._pending, self._due = dict(self._written), self.now_ns + KEY_TAKES_NS
        self._key = value

    def _settle(self) -> None:
        if self._pending is None or self.now_ns < self._due:
            return
        self.settings, self._pending = self._pending, None
        opened = list(self.open_to())
        self.refuse(bool(opened) and not self._state[IS_OFF], "the firewall opens while the GPU has power")
        self.refuse(bool(opened) and self._holds_data(), f"{', '.join(opened)}, and it is not empty")

    def _holds_data(self) -> bool:
        return any(memory.any() for memory in self.device.memory.values())

    def domain(self, master: int) -> int:
        """In which a master is."""
        return self.settings[MASTERS[master // 8]] >> master % 8 * 4 & 0xF

    def _right(self, words: tuple[int, ...], number: int, domain: int) -> int:
        """Of a domain to a region or group."""
        if domain >= DOMAINS:
            return NORMAL | SECURE
        return self.settings[words[number // 2]] >> number % 2 * 16 + domain * 2 & 3

    def _covering(self, address: int) -> Iterator[int]:
        """Regions that are on and have an address."""
        for number, word in enumerate(REGIONS):
            first, last = self.settings[word] & 0x7FFF, self.settings[word] >> 16 & 0x7FFF
            if self.settings[REGIONS_ON] >> number & 1 and first <= address >> 20 <= last:
                yield number

    def reaches(self, master: int, world: int, address: int) -> bool:
        """Whether a master's accesses in a world (NORMAL or SECURE) reach an address of memory."""
        regions = list(self._covering(address))
        domain = self.domain(master)
        return all(not self._right(REGION_RIGHTS, region, domain) & world for region in regions)

    def commands(self, master: int, world: int) -> bool:
        """Whether a master's accesses in a world reach the GPU's registers."""
        group = self.settings[GPU_GROUPS] >> GPU_REGISTERS * 4 & 0xF
        return group < DOMAINS and not self._right(GROUP_RIGHTS, group, self.domain(master)) & world

    def open_to(self) -> Iterator[str]:
        """Who reaches the carve-out, the firmware's memory or the GPU's registers and should not, or should."""
        places = {name: (at.base, at.bytes) for name, at in self.BOARD.memory.items() if name in ("rom", "ram")}
        for base, memory in self.device.memory.items():
            places["carveout"] = base, len(memory)
        for master in range(64):
            for world in (NORMAL, SECURE) if master in (*CORES, *CAN_BE_SECURE) else (NORMAL,):
                for name, (base, size) in places.items():
                    may = master in CORES and world == SECURE
                    may |= master == GPU and name == "carveout"
                    if any(self.reaches(master, world, at) != may for at in (base, base + size - 1)):
                        which = "cannot reach" if may else "reaches"
                        yield f"master {master} {which} the {name} from the {WORLDS[world]} world"
                may = master in CORES and world == SECURE
                if master != GPU and self.commands(master, world) != may:
                    which = "cannot reach" if may else "reaches"
                    yield f"master {master} {which} the GPU's registers from the {WORLDS[world]} world"

    def is_on(self) -> bool:
        """Whether there are power and an open bus."""
        return not self._state[IS_OFF] and not self._state[BUS_IDLE]


MODEL = Rk3576Power
