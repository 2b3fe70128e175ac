# SPDX-License-Identifier: BSD-2-Clause
"""What the description of a board must not contradict: its ranges of addresses, and names that its port uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import combinations
from pathlib import Path

from trace_format.errors import TraceError, listed
from trace_format.schema import PAGE_BYTES

# Of ranges of memory, the unit of base and size: Armv8-A's vector table (VBAR_EL3), the stack, pages of the GPU.
_UNITS = {"rom": 0x800, "ram": 16, "carveout": PAGE_BYTES, "mailbox": PAGE_BYTES}
PHYSICAL_BITS = 48  # of an address of an Armv8-A
MAX_CARVEOUT = PAGE_BYTES << 24  # struct gr_device has 24 bits for its pages
_COMMON = ("port.c", "main.c", "startup.S", "mmu.S", "firmware.ld")  # of every port
_OF_OPTEE = {"GR_GPU_BASE", "GR_GIC_BASE", "GR_FIREWALL_BASE", "GR_GPU_SPI"}  # as sub.mk takes them
_MACRO = re.compile(r"\bGR_[A-Z0-9_]+\b")


class BoardError(TraceError):
    """A board's description is malformed, or contradicts itself."""


@dataclass(frozen=True)
class Range:
    """Physical addresses from `base`, `bytes` of them."""

    base: int
    bytes: int

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.base + self.bytes

    def __str__(self) -> str:
        return f"{self.base:#x} to {self.end - 1:#x}"


def check_ranges(
    file: str, memory: Mapping[str, Range], devices: Mapping[str, Range], reserved: Mapping[str, Range]
) -> None:
    """All ranges have a size, and lie apart; devices may lie where no memory of ours may.

    Raises:
        BoardError: naming `file` and the keys.
    """
    for name, found in _named(memory=memory, devices=devices, reserved=reserved):
        unit = _UNITS.get(name.removeprefix("memory."), 4 if name.startswith("devices.") else 1)
        if found.bytes <= 0 or found.bytes % unit:
            expected = f"a multiple of {unit:#x}, above 0"
            raise BoardError(f"{name}.bytes", expected=expected, found=f"{found.bytes:#x}", file=file)
        if found.base % unit:
            raise BoardError(
                f"{name}.base", expected=f"a multiple of {unit:#x}", found=f"{found.base:#x}", file=file
            )
    if memory["carveout"].bytes >= MAX_CARVEOUT:
        raise BoardError(
            "memory.carveout.bytes",
            expected=f"less than {MAX_CARVEOUT:#x}",
            found=f"{memory['carveout'].bytes:#x}",
            file=file,
        )
    for one, other in combinations(_named(memory=memory, devices=devices, reserved=reserved), 2):
        (first, a), (second, b) = one, other
        if second.startswith("reserved.") and not first.startswith("memory."):
            continue
        if a.base < b.end and b.base < a.end:
            raise BoardError(f"{first} ({a}) overlaps {second} ({b})", file=file)


def check_bits(file: str, secure: Mapping[str, Range], mailbox: Range) -> None:
    """No flipped bit of a secure address leads to the mailbox.

    Raises:
        BoardError: naming `file`, the range, the bit and an address.
    """
    for name, found in secure.items():
        for bit in range(PHYSICAL_BITS):
            for start, end in _flipped(found, 1 << bit):
                both = max(start, mailbox.base), min(end, mailbox.end)
                if both[0] < both[1]:
                    raise BoardError(
                        f"memory.mailbox ({mailbox}) is one bit from memory.{name} ({found}): bit {bit} of "
                        f"{both[0] ^ 1 << bit:#x} makes it {both[0]:#x}; move it, or set mmu = true",
                        file=file,
                    )


def _flipped(found: Range, bit: int) -> Iterator[tuple[int, int]]:
    """Where a range's addresses are with one bit flipped, as pieces (start, end), but for some inside."""
    both = 2 * bit  # an aligned block of that size, when it lies in the range, stays there
    for block in {found.base // both * both, (found.end - 1) // both * both}:
        for half in (block, block + bit):
            start, end = max(half, found.base), min(half + bit, found.end)
            if start < end:
                yield start ^ bit, (start ^ bit) + end - start


def _named(**tables: Mapping[str, Range]) -> Iterator[tuple[str, Range]]:
    for table, ranges in tables.items():
        yield from ((f"{table}.{name}", found) for name, found in ranges.items())


def check_files(names: tuple[str, ...]) -> None:
    """A port's files have names, and give objects, that nothing else in the generated folder has."""
    taken = {"board.h", *_COMMON, "replayer.h", "replayer.c", "crypto.c", "port.h"}
    others = ("string.S", "translation.S", "replayer.c", "crypto.c")
    objects = {Path(name).stem: name for name in (*_COMMON, *others)}
    for name in names:
        stem = Path(name).stem
        other = name if name in taken or name.startswith("gramophone_") else None
        other = other if name.endswith(".h") else objects.get(stem, other)
        if other:
            raise BoardError(
                f"sources: {name} collides with {other} of the generated folder: give it another name"
            )
        if not name.endswith(".h"):
            objects[stem] = name


_OF_CRYPTO = "GR_AES"  # crypto/aws_lc_aes.c takes it


def check_used(sources: Mapping[str, bytes], devices: Mapping[str, Range], constants: Mapping[str, int]) -> None:
    """Every name is used by the port, or by OP-TEE where there are no sources; BoardError otherwise."""
    known = {*used_names(sources), _OF_CRYPTO} if sources else _OF_OPTEE
    users = [*sources, *_COMMON] if sources else ["sub.mk"]
    for key, macro in [
        *((f"devices.{name}", f"GR_{name.upper()}_BASE") for name in devices),
        *((f"constants.{name}", f"GR_{name.upper()}") for name in constants),
    ]:
        if macro not in known:
            raise BoardError(f"{key}: nothing uses {macro}: none of {listed(users)}")


def used_names(sources: Mapping[str, bytes]) -> set[str]:
    """Macros that a port's sources, and those that all ports share, may take from a board."""
    texts = [*sources.values(), *((resources.files("baremetal") / name).read_bytes() for name in _COMMON)]
    return {name for text in texts for name in _MACRO.findall(text.decode(errors="replace"))}
