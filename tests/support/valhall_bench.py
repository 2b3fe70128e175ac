# SPDX-License-Identifier: BSD-2-Clause
"""Valhall instructions by their fields, and programs of them on flat memory (tests/vgpu/valhall_bench.c)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_tools.gpus import mali
from host_tools.gpus.mali.valhall import COUNT, TABLE, WRITE_COUNT, Field, Instruction
from host_tools.gpus.mali.valhall_values import VALUES
from host_tools.vgpu import build

Words = NDArray[np.uint32]
BY_NAME = {row.name: row for row in TABLE}
BASE, CODE, INPUT, OUTPUT, STORAGE, GROUP = 0x7F00_0000_0000, 0, 0x4000, 0x8000, 0xC000, 0x1_4000
BYTES = 0x1_8000
THREAD, GLOBAL_ID = 55, 60  # registers
END, WAIT = 15, 1
U0, U1, ZERO = 0x80, 0x82, 0xC0  # pairs of uniforms: INPUT, OUTPUT
_MODEL = Path(mali.__file__).with_name("vgpu")


def encode(name: str, sources: Sequence[int] = (), to: int = 0, **fields: int) -> int:
    """An instruction.

    Args:
        sources: bytes, as instructions have them.
        to: destination, or staging register.
        fields: values of modifiers and numbers by their names (`offset` for any), and of parts of sources as
            part0, part1..; neg0, abs0.., invert; flow, page, writes.
    """
    row = BY_NAME[name]
    word = row.exact
    if row.writes:
        word |= to << 40 | fields.pop("writes", 3) << 46
    elif row.staging:
        word |= to << 40
    places: dict[str, Field] = {one.name: one for one in (*row.modifiers, COUNT, WRITE_COUNT)}
    places |= {one.name.strip("#:") or "constant": one for one in row.numbers}
    places |= {"flow": Field("flow", 59, 4), "page": Field("page", 57, 2), "result_register": Field("", 16, 6)}
    for source, code in zip(row.sources, sources, strict=True):
        word |= code << 8 * source.number
        if source.part:
            places[f"part{source.number}"] = source.part
        for at, what in ((source.negate, "neg"), (source.absolute, "abs")):
            if at >= 0:
                places[f"{what}{source.number}"] = Field(what, at, 1)
        if source.invert >= 0:
            places["invert"] = Field("invert", source.invert, 1)
    for key, value in fields.items():
        word |= (value & (1 << places[key].width) - 1) << places[key].low
    return word


def value(field: str, text: str) -> int:
    """The value of a field that is printed so."""
    return VALUES[field].index(text)


def in_place(row: Instruction) -> Mapping[str, int]:
    """Parts of sources for which elements are where they are."""
    plain = {"lanes": "b00", "pairs": "b00", "byte": "b0", "half": "h0"}
    return {
        f"part{one.number}": value(one.part.name, plain.get(one.part.name, "")) for one in row.sources if one.part
    }


class _Bench(ctypes.Structure):
    _fields_ = (
        ("memory", ctypes.c_void_p),
        *((name, ctypes.c_uint64) for name in ("base", "bytes", "code", "thread_storage", "group_storage")),
        *((name, ctypes.c_void_p) for name in ("uniform", "buffer", "table")),
        *(
            (name, ctypes.c_uint32)
            for name in ("uniforms", "tables", "buffers", "thread_bytes", "threads", "group")
        ),
        ("instructions", ctypes.c_uint64),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    engine = [path for folder in ("bifrost", "valhall") for path in sorted((_MODEL / folder).glob("*.c"))]
    shared = [build.HERE / name for name in ("workers.c", "meter.c", "access_map.c")]
    bench = Path(__file__).parents[1] / "vgpu" / "valhall_bench.c"
    return ctypes.CDLL(str(build.shared_object("valhall-bench", [bench, *engine, *shared])))


class Bench:
    """Memory with pages for code, input, output and storage, and runs on it.

    Attributes:
        memory: uint8 (BYTES,).
        status, error: of the latest run: 0, or the exception; what was wrong.
    """

    def __init__(self) -> None:
        self.memory = np.zeros(BYTES, np.uint8)
        self.status, self.error, self.instructions = 0, "", 0

    def words(self, at: int, count: int) -> Words:
        """What is in memory at an offset."""
        return self.memory[at : at + 4 * count].view(np.uint32)

    def run(
        self,
        code: Sequence[int],
        *,
        threads: int = 64,
        group: int = 64,
        uniforms: Sequence[int] = (BASE + INPUT, BASE + OUTPUT),
        thread_bytes: int = 0,
        has_group_storage: bool = False,
        tables: Sequence[Sequence[tuple[int, int]]] = (),
    ) -> int:
        """Run a program; `tables`: address and bytes of each buffer of each table. The status."""
        self.memory[CODE : CODE + 8 * len(code)] = np.array(code, np.uint64).view(np.uint8)
        pushed = np.array(uniforms, np.uint64)
        entries = [one for those in tables for one in those]
        kept = np.zeros(max(1, len(entries)), np.dtype([("va", "<u8"), ("bytes", "<u4"), ("_", "<u4")]))
        for number, (va, size) in enumerate(entries):
            kept[number] = va, size, 0
        starts = np.cumsum([0, *map(len, tables)]).astype(np.uint32)
        bench = _Bench(
            memory=self.memory.ctypes.data, base=BASE, bytes=BYTES, code=BASE + CODE,
            thread_storage=BASE + STORAGE, group_storage=BASE + GROUP if has_group_storage else 0,
            uniform=pushed.ctypes.data, buffer=kept.ctypes.data, table=starts.ctypes.data,
            uniforms=len(pushed), tables=len(tables), buffers=len(entries),
            thread_bytes=thread_bytes, threads=threads, group=group,
        )  # fmt: skip
        error = ctypes.create_string_buffer(512)
        self.status = _library().valhall_bench(ctypes.byref(bench), error, 512)
        self.error, self.instructions = error.value.decode(), bench.instructions
        return self.status

    def compute(self, word: int, rows: Words) -> Words:
        """What an instruction makes of r0 to r3 in r8 and r9, which are 0x5a5a1234 and r0 before it.

        Args:
            rows: uint32 (n, 4), n at most 1024 and a multiple of 64.

        Returns:
            uint32 (n, 2).
        """
        self.words(INPUT, rows.size)[:] = rows.reshape(-1)
        status = self.run(
            [
                encode("SHADDX.u64", (U0, GLOBAL_ID), 4, shift=4, part1=8),
                encode("LOAD.i128", (4,), 0, count=4, unsigned=1, flow=WAIT),
                encode("IADD_IMM.i32", (ZERO,), 8, constant=0x5A5A1234),
                encode("MOV.i32", (0,), 9),
                word,
                encode("SHADDX.u64", (U1, GLOBAL_ID), 6, shift=3, part1=8),
                encode("STORE.i64", (6,), 8, count=2, flow=END),
            ],
            threads=len(rows),
        )
        assert status == 0, (hex(status), self.error)
        return self.words(OUTPUT, 2 * len(rows)).reshape(-1, 2).copy()
