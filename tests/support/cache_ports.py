# SPDX-License-Identifier: BSD-2-Clause
"""Ports for Linux and OP-TEE under the checker of caches and order: firmware of the emulated board whose accesses
to registers, memory and interrupts are those of another port, compiled from that port's source.

What the kernel or OP-TEE does for a port is not in it: its mappings are those that the port asks for, and a wait
for an interrupt in the kernel is a loop over the distributor.
"""

from __future__ import annotations

import functools
import re
import shutil
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from host_tools.extras.try_gpu.pack import PORT as TRY_GPU
from host_tools.runners import firmware
from host_tools.runners.caches.machine import CheckedMachine
from host_tools.runners.caches.model import Rule
from host_tools.runners.firmware import Firmware
from tee_replayer.generator.translation import Kind
from tests.support.cache_plants import CARVEOUT_BYTES, mapped_cached
from tests.support.firmware_samples import kept
from tests.support.places import CHECKOUT
from trace_format import profile

_READ, _WRITE, _WAIT = "gr_port_read32", "gr_port_write32", "gr_port_wait_irq"
_ON = "uint32_t gr_board_gpu_on(void)\n{\n"
START = profile.load("v3d42").register("core0.CSD_QUEUED_CFG0").offset
_CLEAN = profile.load("v3d42").register("core0.CTL_L2TCACTL").offset
_FLM_CLEAN = 2 << 1  # Linux, v3d_regs.h


@dataclass(frozen=True)
class ForeignPort:
    """A port that is no firmware's.

    Attributes:
        source: its file.
        before: C that stands for the rest of it, and for the system's headers.
        functions: of the source that are taken, besides the three of the port.
        with_enum: the source's first enumeration is taken, too.
        is_cached: it maps the carve-out cacheable.
    """

    source: Path
    before: str
    functions: tuple[str, ...]
    with_enum: bool = False
    is_cached: bool = False

    @property
    def allowed(self) -> frozenset[Rule]:
        """Rules that are not for it: cached memory is its choice, and no stage comes after a process."""
        return frozenset((Rule.GPU_IN_CACHED, Rule.NEXT_STAGE_MISSES)) if self.is_cached else frozenset()

    def load(self, changes: Mapping[str, str]) -> Firmware:
        """Its firmware; `changes`: old text of its functions -> new text."""
        return _compiled(self, tuple(changes.items()))


PORTS = {
    "try-gpu": ForeignPort(
        TRY_GPU / "devmem.c",
        """
enum { GR_MAPPED_BYTES = 0x8000, GR_JOB_START = @START };
static struct {
    struct { uint8_t *window; } registers;
    struct { uint8_t *memory; } pinned;
    uint64_t used;
    bool is_on, cleans;
} port;
static void begin(void)
{
    port.registers.window = (uint8_t *)GR_GPU_BASE;
    port.pinned.memory = (uint8_t *)GR_CARVEOUT_BASE;
    port.used = GR_CARVEOUT_BYTES;
    port.is_on = true;
}
static bool reset(uint32_t value)
{
    __asm__ volatile("dsb sy" ::: "memory");
    *gr_word(GR_GPU_BASE + 0x800c) = value;
    return true;
}
static bool switch_on(void) { return reset(0); }
static bool switch_off(void) { return reset(1); }
""".replace("@START", str(START)),
        ("flush", "at"),
        with_enum=True,
        is_cached=True,
    ),
    "linux": ForeignPort(
        CHECKOUT / "tee_replayer/linux/uio.c",
        """
struct timespec { long tv_sec, tv_nsec; };
struct pollfd { int fd, events; };
enum { POLLIN = 1 };
static const struct { int gpu; uint8_t *window; } port = {0, (uint8_t *)GR_GPU_BASE};
static void begin(void) {}
static long read(int file, void *to, size_t bytes) { (void)file, (void)to; return (long)bytes; }
static long write(int file, const void *from, size_t bytes) { (void)file, (void)from; return (long)bytes; }
static int ppoll(struct pollfd *all, int count, const struct timespec *timeout, const void *mask)
{
    const uint64_t start = gr_port_now_us();
    const uint32_t id = 32 + GR_GPU_SPI;
    (void)all, (void)count, (void)mask;
    while (gr_port_now_us() - start < (uint64_t)(timeout->tv_sec * 1000000 + timeout->tv_nsec / 1000))
        if (*gr_word(GR_GIC_BASE + 0x200 + id / 32 * 4) >> id % 32 & 1)
            return 1;
    return 0;
}
""",
        ("at",),
    ),
    "optee": ForeignPort(
        CHECKOUT / "tee_replayer/optee/optee_port.c",
        """
typedef uint64_t vaddr_t;
#define GR_GPU_INTID (UINT64_C(32) + GR_GPU_SPI)
enum { GICD_ISPENDR = 0x200 };
static const vaddr_t gpu = GR_GPU_BASE, distributor = GR_GIC_BASE;
static void begin(void) {}
static inline uint32_t io_read32(vaddr_t address) { return *gr_word(address); }
static inline void io_write32(vaddr_t address, uint32_t value) { *gr_word(address) = value; }
static inline void dsb(void) { __asm__ volatile("dsb sy" ::: "memory"); }
""",
        ("intid_of",),
    ),
}


class WithGpuCaches(CheckedMachine):
    """As CheckedMachine; a V3D may keep what a job wrote until the trace has its caches cleaned, so it reaches
    memory again then."""

    _held: Mapping[int, npt.NDArray[np.uint8]] = types.MappingProxyType({})

    def _look(self) -> None:
        if self._device.counters().jobs != self._started:
            self._held = self._device.access_map()
        super()._look()

    def _gpu_write(self, uc: Any, offset: int, size: int, value: int, user: Any) -> None:
        super()._gpu_write(uc, offset, size, value, user)
        if offset == _CLEAN and value & _FLM_CLEAN:
            self.model.gpu(dict(self._held))


def _function(text: str, name: str) -> str:
    """A function of a C file."""
    head = rf"^(?:static |uint32_t |void |bool )[^\n;]*\b{name}\([^;{{]*\)\n\{{\n"
    (found,) = re.findall(rf"(?ms){head}.*?^\}}\n", text)
    return str(found)


@functools.cache
def _compiled(port: ForeignPort, changes: tuple[tuple[str, str], ...]) -> Firmware:
    text = port.source.read_text(encoding="utf-8")
    own = [port.before]
    if port.with_enum:
        own += re.findall(r"(?ms)^enum \{.*?^\};\n", text)[:1]
    taken = sorted((*port.functions, _READ, _WRITE, _WAIT), key=lambda name: text.index(f"{name}("))
    own += [f"__attribute__((noinline)) {_function(text, name)}" for name in taken]  # so that they have a name
    foreign = "\n".join(own)
    for old, new in changes:
        assert foreign.count(old) == 1, (old, foreign.count(old))
        foreign = foreign.replace(old, new)

    def write(folder: Path) -> None:
        shutil.copytree(kept("v3d42", carveout_bytes=CARVEOUT_BYTES, mmu=True), folder)
        for file, names in {"qemu_virt.c": (_READ, _WRITE), "port.c": (_WAIT,)}.items():
            source = (folder / file).read_text(encoding="utf-8")
            for name in names:
                assert source.count(name) == 1, (file, name)
                source = source.replace(name, f"board_{name}")
            if file == "qemu_virt.c":
                assert source.count(_ON) == 1
                source = source.replace(_ON, f"static void begin(void);\n{_ON}    begin();\n") + foreign
            (folder / file).write_text(source, encoding="utf-8")

    # Variables lie far from the code.
    found = firmware.load(firmware.compiled_once(write, "EXTRA_CFLAGS=-mcmodel=small"))
    return mapped_cached(Kind.UNCACHED)(found) if port.is_cached else found
