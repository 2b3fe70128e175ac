# SPDX-License-Identifier: BSD-2-Clause
"""The virtual V3D against register logs of the real kernel driver: every access in order, every read compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from host_tools.vgpu import VirtualGpu
from tests.support import vgpu_model

BLOCKS = {"hub": 0x0, "core": 0x4000, "brdg": 0x8000, "pm": 0xC000, "asb": 0x10000, "rasb": 0x14000}
LINE = re.compile(r"([RW]) (\w+) ([0-9a-f]{4}) 4 ([0-9a-f]{8})")
TABLE_BASE = 0x1204
LISTS = {0x160: vgpu_model.BIN_LIST, 0x164: vgpu_model.RENDER_LIST}  # by the register that gives their start
TILE_LIST_PA = 0x41000000


@dataclass(frozen=True)
class Access:
    line: int
    write: bool
    block: str
    offset: int
    value: int


@dataclass(frozen=True)
class Interrupt:
    line: int
    level: bool


def parse(path: Path) -> Iterator[Access | Interrupt]:
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if match := LINE.fullmatch(text):
            yield Access(number, match[1] == "W", match[2], int(match[3], 16), int(match[4], 16))
        elif match := re.match(r"# irq line ([01]) ", text):
            yield Interrupt(number, match[1] == "1")
        else:
            assert text.startswith("# "), f"{path.name}:{number}: {text!r}"


def guest_memory(log: list[Access | Interrupt]) -> vgpu_model.Ram:
    """Memory that a driver which made these accesses must have had: no-op lists where it submitted lists."""
    ram = vgpu_model.Ram(0x40000000, 2 << 30)
    writes = [event for event in log if isinstance(event, Access) and event.write]
    (table,) = {w.value << 12 for w in writes if w.block == "hub" and w.offset == TABLE_BASE}
    frame = TILE_LIST_PA
    ram.map(table, vgpu_model.TILE_LIST_VA, [frame])
    ram.put(frame, vgpu_model.TILE_LIST)
    starts = [w for w in writes if w.block == "core" and w.offset in LISTS]
    for va, data in sorted({(w.value, LISTS[w.offset]) for w in starts}):
        frame += 0x1000
        ram.map(table, va, [frame])
        ram.put(frame + va % 0x1000, data)
    return ram


@pytest.mark.parametrize(
    ("name", "options", "jobs"),
    [
        ("v3d_vadd", {}, 1),
        ("v3d_ncnn_tiny", {}, 28),
        ("v3d_hang", {"hang_job": 1}, 0),
        ("v3d_mmu_fault", {"fault_job": 1}, 0),
        ("v3d_vadd_pi4_power", {"gpu": "v3d42-pi4"}, 1),
    ],
)
def test_log(register_logs: Path, name: str, options: dict[str, Any], jobs: int) -> None:
    """No value is left out as volatile: all reads of these logs are reproduced."""
    log = list(parse(register_logs / f"{name}.log"))
    ram = guest_memory(log)
    levels: list[bool] = []
    reads = 0
    with VirtualGpu(
        memory={ram.base: ram.bytes},
        on_interrupt=lambda line, level: levels.append(level),
        library=vgpu_model.library(),
        **{"gpu": "v3d42", **options},
    ) as gpu:
        for event in log:
            where = f"{name}.log:{event.line}"
            if isinstance(event, Interrupt):
                assert levels, f"{where}: no interrupt change"
                assert levels.pop(0) == event.level, where
                continue
            assert not levels, f"{where}: interrupt line went to {levels}, unrecorded"
            offset = BLOCKS[event.block] + event.offset
            if event.write:
                gpu.write32(offset, event.value)
            else:
                reads += 1
                assert f"{gpu.read32(offset):08x}" == f"{event.value:08x}", where
        assert not levels
        assert reads > 100
        assert gpu.counters().jobs == jobs
        assert gpu.counters().faults == (name == "v3d_mmu_fault")
        assert gpu.counters().resets == (name in ("v3d_hang", "v3d_mmu_fault", "v3d_vadd_pi4_power"))
