# SPDX-License-Identifier: BSD-2-Clause
"""What a virtual V3D 7.1 does otherwise than a 4.2: registers, interrupts, dispatches, lists."""

from __future__ import annotations

import dataclasses
import re
import struct
from typing import Any

import numpy as np
import pytest

from host_tools.families.transfers import Transfer
from host_tools.gpus.v3d import copies, jobs, lists
from host_tools.gpus.v3d.disassembly import instruction, program
from host_tools.vgpu import VgpuError, build
from host_tools.vgpu.build import FAMILIES
from tests.support.qpu_asm71 import assemble
from tests.support.v3d_lists import Lists
from tests.support.vgpu_model import (
    ACTION,
    DATA,
    MMU_ON,
    TABLE,
    TILE_LIST,
    TILE_LIST_VA,
    WRITE,
    Board,
)
from trace_format import profile

GPU = profile.load("v3d71")
HUB_LINE, CORE_LINE = GPU.interrupts.index("hub"), GPU.interrupts.index("core")
CSD_DONE = 0x40
# V3DV's no-op list (Mesa 25.0.7, src/broadcom/vulkan/v3dvx_queue.c): as in vgpu_model.py, and packet 25, which
# clears and is one byte long here.
RENDER_LIST = b"".join(
    [
        bytes([121, *[0] * 8]) * 3,
        bytes([126, 4, 123, 0, 0, 0, 0, 122, *[0] * 8, 25]),
        struct.pack("<BII", 20, TILE_LIST_VA, TILE_LIST_VA + len(TILE_LIST)),
        bytes([23, 0, 0, 13]),
    ]
)


class Board71(Board):
    """A V3D 7.1 with the double of its compute engine, driven as Linux 6.12 does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"gpu": "v3d71", **options})

    def mmu_on(self) -> None:
        self.hub(0x1204, TABLE >> 12)
        self.hub(0x1200, MMU_ON)
        self.hub(0x1000, 1)
        self.flush()
        self.core(0x64, 0x47)
        self.hub(0x64, 0x7A)

    def dispatch(self, action: int = 0, va: int = 0x10000) -> None:
        for number, value in enumerate((0x10000, 0x10000, 0x110, 1, ACTION + action, va, 0), 1):
            self.core(0x930 + 4 * number, value)
        self.core(0x930, 0x10000)


def test_a_dispatch_and_its_interrupt() -> None:
    b = Board71()
    b.dispatch(WRITE, 0x11008)
    assert b.ram.word(DATA + 0x1008) == 0xC0FFEE
    assert b.levels == [(CORE_LINE, True)]
    assert b.core(0x50) == CSD_DONE
    assert [b.core(0x958 + 4 * i) for i in (0, 3, 5, 6, 7)] == [0x10000, 0x110, ACTION + WRITE, 0x11008, 0]
    assert b.core(0x968) == 0  # no batch left to hand out
    b.core(0x58, CSD_DONE)
    assert b.levels == [(CORE_LINE, True), (CORE_LINE, False)]


def test_a_fault_is_the_hubs() -> None:
    """The address that it reports is shifted: there are 36 bits (Linux v3d_irq.c)."""
    b = Board71()
    b.dispatch(WRITE, 0x14008)
    assert b.levels == [(HUB_LINE, True)]
    assert b.hub(0x50) == 1 << 5
    assert b.hub(0x1234) << 4 == 0x14000


def test_errors_name_the_gpu() -> None:
    with pytest.raises(VgpuError, match=r"^v3d71: a job starts with the MMU off"):
        Board71(mmu=False).dispatch()
    for offset, value, message in (
        (0x94C, 1, r"core0 0x094c \(core0.CSD_QUEUED_CFG7\) of 0x00000001: reserved or not modelled"),
        (0x944, 4, r"\(core0.CSD_QUEUED_CFG5\) of 0x00000004: reserved"),
        (0x58, 0x80, r"\(core0.INT_CLR\) of 0x00000080: reserved"),
        (0x904, 0, r"core0 0x0904: unknown register"),
    ):
        with pytest.raises(VgpuError, match=rf"^v3d71: write to .*{message}"):
            Board71().core(offset, value)
    with pytest.raises(VgpuError, match=r"^v3d71: read of hub 0x0700 .*TFU"):
        Board71().hub(0x700)


def test_a_list_that_stores_nothing() -> None:
    b = Board71()
    b.lists((0x10000, RENDER_LIST), (TILE_LIST_VA, TILE_LIST))
    b.run_list(0x10000, len(RENDER_LIST), render=True)
    assert b.core(0x50) == 1
    words = {"core0.CLE_CT1QBA": 0x10000, "core0.CLE_CT1QEA": 0x10000 + len(RENDER_LIST)}
    memory = {0x10000: RENDER_LIST, TILE_LIST_VA: TILE_LIST}
    assert lists.transfer(GPU, "render", words.__getitem__, lambda _, va, size: memory[va][:size]) is None


def moved(b: Board71, job: Lists) -> tuple[Transfer | None, bytes]:
    """What a list is read as, and what two pages hold after it was executed."""
    render = job.render_list(TILE_LIST_VA)
    b.lists((0x12000, render), (TILE_LIST_VA, job.tile_list()))
    memory = {0x12000: render, TILE_LIST_VA: job.tile_list()}
    words = {"core0.CLE_CT1QBA": 0x12000, "core0.CLE_CT1QEA": 0x12000 + len(render)}
    found = lists.transfer(GPU, "render", words.__getitem__, lambda _, va, size: memory[va][:size])
    b.run_list(0x12000, len(render), render=True)
    assert b.core(0x50) == 1
    return found, b.ram.bytes[DATA - b.ram.base :][:0x2000].tobytes()


@pytest.mark.parametrize(("item", "filled"), [(1, False), (2, False), (4, False), (4, True)])
def test_a_list_that_copies_or_fills_and_the_job_in_its_place(item: int, filled: bool) -> None:
    data = np.random.default_rng(5).bytes(0x2000)
    job = (
        Lists.fill(0x11004, 200, 0x12345678, version=71)
        if filled
        else Lists.copy(0x10000 + item, 0x11000, 300, item, version=71)
    )
    by_list, by_job = Board71(), Board71(library=build.library())
    for b in (by_list, by_job):
        b.ram.put(DATA, data)
    transfer, expected = moved(by_list, job)
    assert transfer is not None
    assert expected != data
    by_job.lists((0x12000, copies.memory(GPU, [transfer], 0x12000)))
    for name, value in copies.job(GPU, [transfer], 0, 0x12000):
        by_job.gpu.write32(GPU.register(name).offset, value)
    assert by_job.core(0x50) == CSD_DONE
    assert by_job.ram.bytes[DATA - by_job.ram.base :][:0x2000].tobytes() == expected


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"common": 1 << 4}, "only one render target of 32 bits"),
        ({"common": 1 << 42}, "only one render target of 32 bits"),
        ({"common": 1 << 52}, "in tiles of 64 x 64"),
        ({"target": 1 << 6 | 1 << 25}, "only a render target of 8-bit unsigned"),
        ({"target": 1 << 6 | 1 << 27}, "only a render target of 8-bit unsigned"),
        ({"target": 1 << 6 | 1 << 7}, "only a render target of 8-bit unsigned"),
    ],
)
def test_frames_that_are_not_modelled(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(VgpuError, match=error):
        moved(Board71(), dataclasses.replace(Lists.copy(0x10000, 0x11000, 300, 4, version=71), **changes))


def test_the_program_of_copies_is_what_its_text_says() -> None:
    for word, text in copies.PROGRAM_71:
        assert instruction("v3d71", word).text == text
        assert assemble(text) == word.to_bytes(8, "little")


def test_names_in_the_shared_code_are_at_the_same_place() -> None:
    """C files use the V3D 4.2's names of registers and bits; what has moved is in struct v3d_chip."""
    folder = next(path for path in FAMILIES if path.parent.name == "v3d")
    pattern = re.compile(r"^(?:#define |    )([A-Z][A-Z0-9_]+)(?: = | )(0x[0-9a-f]+)", re.MULTILINE)
    maps = (folder / "device" / f"{name}_register_map.h" for name in ("v3d", "v3d71"))
    old, new = (dict(pattern.findall(path.read_text())) for path in maps)
    moved = {name for name in old if name in new and int(old[name], 16) != int(new[name].removesuffix("u"), 16)}
    moved.remove("V3D_BOARD_WINDOW_BYTES")  # the shared code has room for the larger one
    assert int(old["V3D_BOARD_WINDOW_BYTES"], 16) > int(new["V3D_BOARD_WINDOW_BYTES"], 16)
    assert {"CORE_CSD_QUEUED_CFG0", "CORE_GMP_CFG", "CORE_INT_STS_CSDDONE"} <= moved
    gone = {name for name in old.keys() - new.keys() if not name.startswith(("PM_", "ASB_", "RPIVID_", "V3D_"))}
    for path in folder.rglob("*.c"):
        if path.name not in ("v3d_registers.c", "v3d71_registers.c"):
            used = set(re.findall(r"\w+", path.read_text()))
            assert not used & (moved | gone), path.name


def test_batches_of_a_dispatch() -> None:
    assert jobs.batches(GPU, 7) == 7
    assert jobs.batches(profile.load("v3d42"), 7) == 8


def test_the_end_of_a_shader_is_found() -> None:
    code = assemble("nop; nop; thrsw\nnop; nop; thrsw\nnop; nop\nnop; nop; thrsw\nnop; nop\nnop; nop\nnop; nop")
    words = [int.from_bytes(code[i : i + 8], "little") for i in range(0, len(code), 8)]
    assert len(program("v3d71", lambda index: words[index], single_segment=False)) == 6
