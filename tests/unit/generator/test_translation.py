# SPDX-License-Identifier: BSD-2-Clause
"""Translation tables of firmware: a walk finds what was asked for, everywhere, and nothing else."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tee_replayer.generator import boards, translation
from tee_replayer.generator.board_checks import BoardError, Range, check_bits
from tee_replayer.generator.translation import Kind, Mapped, Region, build, cached_bytes, walk

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAGE = 4 * KIB
BASE = 7 * PAGE  # of the tables
TOP = 1 << translation.ADDRESS_BITS


@st.composite
def apart(draw: st.DrawFn) -> list[Region]:
    """Regions that do not overlap: gaps and sizes of pages, 2 MiB, GiB, and what lies around them."""
    sizes = st.sampled_from((PAGE, 2 * PAGE, 2 * MIB - PAGE, 2 * MIB, 2 * MIB + PAGE, GIB - PAGE, GIB, GIB + PAGE))
    rows = draw(st.lists(st.tuples(sizes | st.just(0), sizes, st.sampled_from(Kind)), min_size=1, max_size=8))
    at, found = 0, []
    for number, (gap, size, kind) in enumerate(rows):
        found.append(Region(f"region {number}", Range(at + gap, size), kind))
        at += gap + size
    return found


def kind_at(regions: list[Region], address: int) -> Kind | None:
    return next((r.kind for r in regions if r.range.base <= address < r.range.end), None)


@given(apart(), st.data())
def test_a_walk_finds_what_was_asked_for(regions: list[Region], data: st.DataObject) -> None:
    tables = build(regions)
    encoded = tables.encode(BASE)
    ends = itertools.chain.from_iterable((r.range.base, r.range.end) for r in regions)
    places = {place + step for place in ends for step in (-1, 0, 1)}
    places |= {data.draw(st.integers(0, 1 << tables.address_bits)) for _ in range(20)}
    for address in places:
        if address < 0:
            continue
        kind = kind_at(regions, address)
        expected = Mapped(address, kind) if kind else None
        assert walk(encoded, BASE, tables.address_bits, address) == expected, hex(address)


@given(apart())
def test_as_few_tables_as_blocks_allow(regions: list[Region]) -> None:
    """A table below another has at least two kinds of descriptors, or it would be one block."""
    for table in build(regions).tables[1:]:
        kinds = {entry & ~translation.OUTPUT for entry in table}
        assert len(kinds) > 1 or next(iter(kinds)) & 3 == translation.TABLE


@pytest.mark.parametrize("name", [name for name in boards.names() if name != boards.OPTEE])
def test_every_page_of_a_board(name: str) -> None:
    """W^X, the guard page, what is shared, what is cached, and that nothing else is mapped."""
    board = boards.load(name).with_mmu(True)
    tables = board.translation
    encoded = tables.encode(BASE)

    def at(address: int) -> Kind | None:
        found = walk(encoded, BASE, tables.address_bits, address)
        assert found is None or found.address == address & ~translation.FAR
        return found.kind if found else None

    rom, ram, carveout, mailbox = (board.memory[key] for key in boards.MEMORY)
    cached = cached_bytes(carveout)
    assert cached == 2 * MIB
    assert {at(a) for a in range(rom.base, rom.end, PAGE)} == {Kind.CODE}
    assert at(ram.base) is None, "the stack's guard"
    assert {at(a) for a in range(ram.base + PAGE, ram.end, PAGE)} == {Kind.DATA}
    assert {at(a) for a in range(carveout.base, carveout.end - cached, PAGE)} == {Kind.UNCACHED}
    assert {at(a) for a in range(carveout.end - cached, carveout.end, PAGE)} == {Kind.DATA}
    for address in range(mailbox.base, mailbox.end, PAGE * 16):
        far = address | translation.FAR
        assert walk(encoded, BASE, tables.address_bits, far) == Mapped(address, Kind.SHARED)
        assert at(address) is None
    for device in board.devices.values():
        assert {at(a) for a in range(device.base, device.end, 4)} == {Kind.DEVICE}
    ranges = [rom, ram, carveout, board.mailbox, *board.devices.values()]
    for found in ranges:
        for beside in (found.base - PAGE, found.end + PAGE - 1):
            inside = any(r.base <= beside | PAGE - 1 and beside & -PAGE < r.end for r in ranges)
            assert beside < 0 or inside or at(beside) is None, hex(beside)


def test_attributes() -> None:
    """Arm DDI 0487, D5.3.3: AttrIndx 4:2, NS 5, AP[2] 7, SH 9:8, AF 10, XN 54."""
    fields = {
        kind: tuple(kind.value >> shift & mask for shift, mask in ((2, 7), (5, 1), (7, 1), (8, 3), (54, 1)))
        for kind in Kind
    }
    device, cached, uncached = 0, 1, 2  # MAIR_EL3: 0x00, 0xff, 0x44
    assert [translation.MAIR >> 8 * i & 0xFF for i in range(3)] == [0x00, 0xFF, 0x44]
    assert fields == {
        Kind.CODE: (cached, 0, 1, 3, 0),
        Kind.DATA: (cached, 0, 0, 3, 1),
        Kind.UNCACHED: (uncached, 0, 0, 2, 1),
        Kind.SHARED: (uncached, 1, 0, 2, 1),
        Kind.DEVICE: (device, 0, 0, 2, 1),
    }


@pytest.mark.parametrize(
    ("end", "bits", "physical"),
    [(PAGE, 32, 0), (4 * GIB, 32, 0), (4 * GIB + PAGE, 33, 1), (64 * GIB + PAGE, 37, 2)],
)
def test_as_many_bits_as_are_needed(end: int, bits: int, physical: int) -> None:
    tables = build([Region("last", Range(end - PAGE, PAGE), Kind.DATA)])
    assert tables.address_bits == bits
    assert (tables.tcr & 63, tables.tcr >> 16 & 7, tables.tcr >> 31, tables.tcr >> 23 & 1) == (
        64 - bits,
        physical,
        1,
        1,
    )
    assert walk(tables.encode(BASE), BASE, bits, 1 << bits) is None


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([(PAGE + 16, PAGE)], r"first \(0x1010 to 0x200f\): with an MMU, expected whole pages"),
        ([(0, PAGE - 16)], "expected whole pages of 0x1000 bytes"),
        ([(0, 0)], "expected whole pages"),
        ([(TOP, PAGE)], "expected addresses below 0x2000000000"),
        ([(0, 2 * PAGE), (PAGE, PAGE)], r"first \(.*\) and second \(.*\) share a page: their attributes differ"),
    ],
)
def test_what_cannot_be_mapped(ranges: list[tuple[int, int]], said: str) -> None:
    regions = [
        Region(name, Range(*numbers), kind)
        for name, numbers, kind in zip(("first", "second"), ranges, (Kind.CODE, Kind.DATA), strict=False)
    ]
    with pytest.raises(BoardError, match=said):
        build(regions)


def test_damaged_tables_are_noticed() -> None:
    tables = build([Region("one", Range(2 * MIB, PAGE), Kind.DATA)])
    encoded = bytearray(tables.encode(BASE))
    encoded[1] ^= 0x40  # the first descriptor leads behind the tables
    with pytest.raises(ValueError, match="outside of the tables"):
        walk(bytes(encoded), BASE, tables.address_bits, 2 * MIB)
    encoded = bytearray(tables.encode(BASE))
    encoded[2 * PAGE + 6] ^= 0x20  # may be executed by lower levels: no attribute of ours
    with pytest.raises(ValueError, match="is of no kind"):
        walk(bytes(encoded), BASE, tables.address_bits, 2 * MIB)


def test_devices_are_whole_pages_around_them() -> None:
    board = boards.load("rpi4")
    devices = {**board.devices, "gpu": Range(0xFEC00010, 0x8000)}
    found = {region.name: region.range for region in translation.regions(board.memory, devices)}
    assert found["devices.gpu"] == Range(0xFEC00000, 0x9000)


def test_a_small_carveout_is_cached_in_part() -> None:
    assert [cached_bytes(Range(0, size)) for size in (PAGE, MIB, 8 * MIB, GIB)] == [0, 256 * KIB, 2 * MIB, 2 * MIB]


def test_boards_that_have_no_mmu(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"optee\.toml: mmu: OP-TEE has tables of its own"):
        boards.load(boards.OPTEE).with_mmu(True)
    odd = tmp_path / "odd.toml"
    text = 'like = "rpi4"\n[memory]\nram = { base = 0x20000, bytes = 0x5fff0 }\n'
    odd.write_text(text)
    with pytest.raises(
        BoardError, match=r"odd\.toml: memory\.ram \(0x21000 to 0x7ffef\): with an MMU, expected whole"
    ):
        boards.read(odd)
    text = text.replace('"rpi4"', '"rpi4"\nmmu = false')
    odd.write_text(text)
    with pytest.raises(BoardError, match=r"is one bit from memory\.rom .*: bit 28 of 0x0 makes it 0x10000000"):
        boards.read(odd)
    odd.write_text(text + "mailbox = { base = 0x10100000, bytes = 0x100000 }\n")
    assert not boards.read(odd).mmu


def test_only_real_boards_have_it_by_default() -> None:
    assert {name for name in boards.names() if boards.load(name).mmu} == {"hikey960", "rk3576", "rpi4"}
    board = boards.load("rpi4")
    assert board.with_mmu(False) == dataclasses.replace(board, mmu=False)


@pytest.mark.parametrize("name", [name for name in boards.names() if name != boards.OPTEE])
def test_no_flipped_bit_of_a_secure_address_leads_to_the_mailbox(name: str) -> None:
    board = boards.load(name)
    mailbox = board.mailbox
    for key in boards.SECURE:
        found = board.memory[key]
        places = {found.base + step * PAGE for step in range(found.bytes // PAGE)} if found.bytes <= GIB else set()
        for place in {found.base, found.end - 1, *places}:
            for bit in range(64):
                assert not mailbox.base <= place ^ 1 << bit < mailbox.end, (key, hex(place), bit)


@given(st.integers(0, 1 << 36), st.integers(1, 1 << 20), st.integers(0, 36), st.data())
def test_a_mailbox_one_bit_away_is_found(base: int, size: int, bit: int, data: st.DataObject) -> None:
    """Whatever address of a range leads there, and no other mailbox."""
    found = Range(base, size)
    place = base + data.draw(st.integers(0, size - 1))
    near = place ^ 1 << bit
    if base <= near < base + size:
        return
    with pytest.raises(BoardError, match=r"is one bit from memory\.rom"):
        check_bits("file", {"rom": found}, Range(near, 1))
    check_bits("file", {"rom": found}, Range(near ^ 3 << 38, 1))
