# SPDX-License-Identifier: BSD-2-Clause
"""memcpy, memset and memmove of the firmware, in Unicorn: the right bytes, and aligned accesses only."""

from __future__ import annotations

import random
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st
from unicorn import UC_ARCH_ARM64, UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, UC_MODE_ARM, Uc, arm64_const

from tests.support.firmware_samples import GCC

CODE, MEMORY, END, PAGE = 0x10000, 0x20000, 0x1000, 0x4000
FROM, TO = MEMORY + 0x1000, MEMORY + 0x2000  # parts of memory, far enough from each other


class Machine:
    """The functions, and a page of memory."""

    def __init__(self, elf: Path) -> None:
        with elf.open("rb") as file:
            image = ELFFile(file)
            symbols, text = map(image.get_section_by_name, (".symtab", ".text"))
            assert isinstance(symbols, SymbolTableSection)
            assert text is not None
            self.functions = {row.name: row["st_value"] for row in symbols.iter_symbols()}
            code = text.data()
        self.core = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self.core.mem_map(CODE, PAGE)
        self.core.mem_write(CODE, code)
        self.core.mem_map(MEMORY, PAGE)
        self.unaligned: list[tuple[int, int]] = []
        self.core.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, self._look)

    def _look(self, _core: Uc, _kind: int, address: int, size: int, _value: int, _data: object) -> None:
        if address % min(size, 8):
            self.unaligned.append((address, size))

    def call(self, name: str, to: int, second: int, size: int, before: bytes) -> bytes:
        """Memory after a call on memory that was `before`."""
        self.core.mem_write(MEMORY, before)
        self.unaligned.clear()
        registers = (arm64_const.UC_ARM64_REG_X0, arm64_const.UC_ARM64_REG_X1, arm64_const.UC_ARM64_REG_X2)
        for register, value in zip(registers, (to, second, size), strict=True):
            self.core.reg_write(register, value)
        self.core.reg_write(arm64_const.UC_ARM64_REG_LR, END)
        self.core.emu_start(self.functions[name], END, count=100_000)
        assert self.core.reg_read(arm64_const.UC_ARM64_REG_X0) == to
        assert self.unaligned == []
        return bytes(self.core.mem_read(MEMORY, PAGE))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    elf = tmp_path_factory.mktemp("string") / "string.elf"
    source = str(resources.files("baremetal") / "string.S")
    command = [GCC, "-nostdlib", "-static", f"-Wl,-Ttext={CODE:#x}", "-Wl,-e,memcpy", "-o", str(elf), source]
    subprocess.run(command, check=True)
    return Machine(elf)


SIZES = st.integers(0, 400)
OFFSETS = st.integers(0, 24)
MEMORIES = st.integers(0).map(lambda seed: random.Random(seed).randbytes(PAGE))


def moved(before: bytes, to: int, start: int, size: int) -> bytes:
    """The same by Python."""
    after = bytearray(before)
    after[to - MEMORY : to - MEMORY + size] = before[start - MEMORY : start - MEMORY + size]
    return bytes(after)


@given(before=MEMORIES, to=OFFSETS, start=OFFSETS, size=SIZES)
def test_memcpy(machine: Machine, before: bytes, to: int, start: int, size: int) -> None:
    assert machine.call("memcpy", TO + to, FROM + start, size, before) == moved(
        before, TO + to, FROM + start, size
    )


@given(before=MEMORIES, to=OFFSETS, distance=st.integers(-300, 300), size=SIZES)
def test_memmove_of_what_overlaps(machine: Machine, before: bytes, to: int, distance: int, size: int) -> None:
    start = TO + to + distance
    assert machine.call("memmove", TO + to, start, size, before) == moved(before, TO + to, start, size)


@given(before=MEMORIES, to=OFFSETS, byte=st.integers(0, 0xFFFFFFFF), size=SIZES)
def test_memset(machine: Machine, before: bytes, to: int, byte: int, size: int) -> None:
    after = bytearray(before)
    after[TO - MEMORY + to : TO - MEMORY + to + size] = bytes((byte & 0xFF,)) * size
    assert machine.call("memset", TO + to, byte, size, before) == bytes(after)
