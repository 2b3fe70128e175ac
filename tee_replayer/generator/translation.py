# SPDX-License-Identifier: BSD-2-Clause
"""Translation tables of bare-metal firmware: every address it may use, with attributes, mapped to itself but for
the mailbox, which is seen far from everything else: no flipped bit of a secure address leads there.

The tables are constants of the firmware, made here from the board's description, so that nothing can write to them
and no code fills them. Format: Arm DDI 0487 (Armv8-A), D5: VMSAv8-64, 4 KiB granule, EL3's regime, which has one
range of addresses and one privilege.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from struct import pack, unpack_from

from tee_replayer.generator.board_checks import BoardError, Range
from trace_format.licence import SPDX
from trace_format.schema import PAGE_BYTES as PAGE

ENTRIES, ENTRY_BYTES = 512, 8
SHIFTS = {1: 30, 2: 21, 3: 12}  # of an address at each level: 1 GiB, 2 MiB, 4 KiB
ADDRESS_BITS = 39  # the most that a walk from level 1 takes
ADDRESSES = 1 << ADDRESS_BITS - 2  # of a board
_STEPS = {1 << shift for shift in SHIFTS.values()}
TABLE, BLOCK, LAST_PAGE = 3, 1, 3  # the low two bits: a table, a block at level 1 or 2, a page at level 3
OUTPUT = (1 << 48) - PAGE
ACCESSED, NEVER_EXECUTE, READ_ONLY, NON_SECURE = 1 << 10, 1 << 54, 1 << 7, 1 << 5
PRIVILEGED = 1 << 6  # AP[1]: RES1 where there is one privilege
INNER_SHAREABLE, OUTER_SHAREABLE = 3 << 8, 2 << 8
# MAIR_EL3: Device-nGnRnE, Normal write-back with allocation, Normal non-cacheable.
DEVICE_MEMORY, CACHED_MEMORY, UNCACHED_MEMORY = 0, 1, 2
MAIR = 0x44FF00
CACHED_BYTES = 2 << 20  # of the carve-out: head, actions, slots and a chunk of most traces
FAR = 3 << ADDRESS_BITS - 2  # bits of the mailbox's address that no other address has: two, so that one is too few
GUARD_BYTES = PAGE  # below the stack, which the linker script puts at the start of `ram`


class Kind(Enum):
    """What an address is for; the value has the bits of its descriptors."""

    CODE = ACCESSED | PRIVILEGED | INNER_SHAREABLE | CACHED_MEMORY << 2 | READ_ONLY
    DATA = ACCESSED | PRIVILEGED | INNER_SHAREABLE | CACHED_MEMORY << 2 | NEVER_EXECUTE
    UNCACHED = ACCESSED | PRIVILEGED | OUTER_SHAREABLE | UNCACHED_MEMORY << 2 | NEVER_EXECUTE
    SHARED = UNCACHED | NON_SECURE  # of the normal world: what the firewall keeps from it cannot be read here
    DEVICE = ACCESSED | PRIVILEGED | OUTER_SHAREABLE | DEVICE_MEMORY << 2 | NEVER_EXECUTE


@dataclass(frozen=True)
class Region:
    """Addresses of one kind, whole pages.

    Attributes:
        name: for messages.
        far: bits of the addresses that the physical ones lack.
    """

    name: str
    range: Range
    kind: Kind
    far: int = 0


@dataclass(frozen=True)
class Tables:
    """Translation tables.

    Attributes:
        address_bits: that are translated.
        tables: the descriptors of each table, the first level's first; a descriptor of a table has its number
            instead of its address.
    """

    address_bits: int
    tables: tuple[tuple[int, ...], ...]

    @property
    def tcr(self) -> int:
        """TCR_EL3: walks through the caches, 4 KiB granule, as many physical bits as there are virtual ones."""
        sizes = (32, 36, 40)  # of physical addresses, as PS numbers them
        physical = next(number for number, bits in enumerate(sizes) if self.address_bits <= bits)
        walks = 1 << 8 | 1 << 10 | 3 << 12  # write-back with allocation, inner shareable
        return 1 << 31 | 1 << 23 | physical << 16 | walks | (64 - self.address_bits)

    def encode(self, base: int) -> bytes:
        """The tables as they lie at an address, a multiple of 4096, one after the other; each takes 4096 bytes."""
        return b"".join(
            pack(f"<{ENTRIES}Q", *(_linked(entry, base) for entry in table), *(0,) * (ENTRIES - len(table)))
            for table in self.tables
        )

    def source(self, ranges: Mapping[str, Range]) -> str:
        """The tables as assembly for the symbol gr_translation, which refuses to assemble for other ranges."""
        lines = [f"// {SPDX}", "// Translation tables for EL3, made from the board's description; do not edit."]
        for name, found in ranges.items():
            macro = f"GR_{name.upper()}"
            lines.append(f"#if {macro}_BASE != {found.base:#x} || {macro}_BYTES != {found.bytes:#x}")
            lines.append(f'#error "{macro}_*: the translation tables are for other numbers: use generate --board"')
            lines.append("#endif")
        size = len(self.tables) * PAGE
        lines += ['    .section .rodata.translation, "a"', "    .balign 4096", "    .global gr_translation"]
        lines += ["    .type gr_translation, %object", f"    .size gr_translation, {size}", "gr_translation:"]
        for number, table in enumerate(self.tables):
            lines += [f"    // table {number}", *_lines(table), f"    .balign {PAGE}"]
        return "\n".join([*lines, ""])


def _linked(entry: int, base: int) -> int:
    return base + (entry >> 2) * PAGE | TABLE if _is_link(entry) else entry


def _is_link(entry: int) -> bool:
    """Whether a descriptor of `Tables` has a table's number; pages have ACCESSED set, which no number reaches."""
    return entry & 3 == TABLE and not entry & ACCESSED


def _lines(table: Sequence[int]) -> Iterator[str]:
    """Directives for a table; descriptors of pages or blocks that follow one another are one."""
    at = 0
    while at < len(table):
        if _is_link(table[at]):
            yield f"    .quad gr_translation + {(table[at] >> 2) * PAGE:#x} + {TABLE}"
            at += 1
            continue
        step = table[at + 1] - table[at] if at + 1 < len(table) else 0
        step = step if step in _STEPS else 0
        end = at + 1
        while end < len(table) and table[end] - table[end - 1] == step:
            end += 1
        if not table[at]:
            yield f"    .zero {(end - at) * ENTRY_BYTES}"
        elif end == at + 1:
            yield f"    .quad {table[at]:#x}"
        else:
            yield f"    .set .Lentry, {table[at]:#x}"
            yield f"    .rept {end - at}"
            yield "    .quad .Lentry"
            yield f"    .set .Lentry, .Lentry + {step:#x}"
            yield "    .endr"
        at = end


def cached_bytes(carveout: Range) -> int:
    """Bytes at the carve-out's end that are cached: for what the CPU alone uses, from the end downwards."""
    return min(CACHED_BYTES, carveout.bytes // 4 // PAGE * PAGE)


def seen_far(mailbox: Range) -> Range:
    """The addresses at which firmware with an MMU finds the mailbox."""
    return Range(mailbox.base | FAR, mailbox.bytes)


def regions(memory: Mapping[str, Range], devices: Mapping[str, Range]) -> list[Region]:
    """What the firmware of a board with these ranges reaches; `Board` says what they are."""
    rom, ram, carveout = (memory[name] for name in ("rom", "ram", "carveout"))
    cached = cached_bytes(carveout)
    found = [
        Region("memory.rom", rom, Kind.CODE),
        Region("memory.ram", Range(ram.base + GUARD_BYTES, ram.bytes - GUARD_BYTES), Kind.DATA),
        Region("memory.carveout", Range(carveout.base, carveout.bytes - cached), Kind.UNCACHED),
        Region("memory.mailbox", seen_far(memory["mailbox"]), Kind.SHARED, FAR),
    ]
    if cached:
        found.append(Region("memory.carveout", Range(carveout.end - cached, cached), Kind.DATA))
    for name, device in devices.items():
        start, end = device.base // PAGE * PAGE, -(-device.end // PAGE) * PAGE
        found.append(Region(f"devices.{name}", Range(start, end - start), Kind.DEVICE))
    return found


def build(wanted: Sequence[Region]) -> Tables:
    """Tables that map these regions, each with the largest blocks that fit, and nothing else.

    Raises:
        BoardError: a region is no whole pages, overlaps another of another kind, or lies too high.
    """
    for region in wanted:
        found = region.range
        if found.base % PAGE or found.bytes % PAGE or found.bytes <= 0:
            raise BoardError(f"{region.name} ({found}): with an MMU, expected whole pages of {PAGE:#x} bytes")
        limit = 1 << ADDRESS_BITS if region.far else ADDRESSES
        if found.end > limit:
            raise BoardError(f"{region.name} ({found}): with an MMU, expected addresses below {ADDRESSES:#x}")
    ordered = sorted(wanted, key=lambda region: region.range.base)
    for one, other in pairwise(ordered):
        if one.range.end > other.range.base and one.kind != other.kind:
            raise BoardError(
                f"{one.name} ({one.range}) and {other.name} ({other.range}) share a page: their attributes differ"
            )
    bits = max(32, (max(region.range.end for region in wanted) - 1).bit_length())
    tables: list[list[int]] = []
    _fill(tables, _joined(ordered), 1, 0, 1 << bits - SHIFTS[1])
    return Tables(bits, tuple(map(tuple, tables)))


def _joined(ordered: Sequence[Region]) -> list[Region]:
    """One region in place of those of a kind that touch, so that a block can map them."""
    found: list[Region] = []
    for region in ordered:
        last = found[-1] if found else region
        alike = (last.kind, last.far) == (region.kind, region.far)
        if found and alike and last.range.end >= region.range.base:
            start, end = last.range.base, max(last.range.end, region.range.end)
            region = replace(found.pop(), range=Range(start, end - start))
        found.append(region)
    return found


def _fill(tables: list[list[int]], wanted: Sequence[Region], level: int, base: int, count: int) -> int:
    """Add a table of `count` descriptors from `base`, and those below it; its number."""
    number, size = len(tables), 1 << SHIFTS[level]
    table: list[int] = []
    tables.append(table)
    for address in range(base, base + count * size, size):
        inside = [r for r in wanted if r.range.base < address + size and r.range.end > address]
        whole = next((r for r in inside if r.range.base <= address and r.range.end >= address + size), None)
        if whole:
            table.append(address & ~whole.far | whole.kind.value | (LAST_PAGE if level == 3 else BLOCK))
        elif inside:
            table.append(_fill(tables, inside, level + 1, address, ENTRIES) << 2 | TABLE)
        else:
            table.append(0)
    return number


@dataclass(frozen=True)
class Mapped:
    """What a walk finds: the physical address, and the kind."""

    address: int
    kind: Kind


def walk(data: bytes, base: int, address_bits: int, address: int) -> Mapped | None:
    """Translate an address as the processor does; None: it faults.

    Args:
        data: the encoded tables.
        base: their address.
        address_bits: that are translated.
        address: which.

    Raises:
        ValueError: a descriptor leads out of the tables, or has attributes of no kind.
    """
    if address >> address_bits:
        return None
    at = 0
    for level, shift in SHIFTS.items():
        if not 0 <= at <= len(data) - PAGE:
            raise ValueError(f"a descriptor for {address:#x} leads to {base + at:#x}, outside of the tables")
        index = address >> shift & ENTRIES - 1
        entry = int(unpack_from("<Q", data, at + index * ENTRY_BYTES)[0])
        if not entry & 1 or (level == 3 and entry & 3 != LAST_PAGE):
            return None
        if level == 3 or entry & 3 == BLOCK:
            inside = (1 << shift) - 1
            kinds = [kind for kind in Kind if entry & ~(OUTPUT | 3) == kind.value]
            if not kinds or entry & OUTPUT & inside:
                raise ValueError(f"the descriptor for {address:#x}, {entry:#x}, is of no kind")
            return Mapped(entry & OUTPUT & ~inside | address & inside, kinds[0])
        at = (entry & OUTPUT) - base
    raise AssertionError("a walk ends at level 3")


def checked(wanted: Sequence[Region]) -> Tables:
    """`build`, and what a walk of the encoded tables finds: at both ends of each region, and beside it.

    Raises:
        BoardError: as `build`.
    """
    tables, base = build(wanted), PAGE
    data = tables.encode(base)
    for region in wanted:
        first, last = region.range.base, region.range.end - PAGE
        for address in (first, last, first - PAGE, last + PAGE):
            found = walk(data, base, tables.address_bits, address) if address >= 0 else None
            right = [
                Mapped(address & ~other.far, other.kind)
                for other in wanted
                if other.range.base <= address < other.range.end
            ]
            assert found == (right[0] if right else None), f"{address:#x}: {found}, {right}"
    return tables
