# SPDX-License-Identifier: BSD-2-Clause
"""The firmware's crypto seam and its libraries as machine code of AArch64, linked by themselves, in Unicorn.

In the firmware the compiler knows the key, and calls nothing that it need not.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import UC_ARCH_ARM64, UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, UC_MODE_ARM, Uc
from unicorn.arm64_const import UC_ARM64_REG_CPACR_EL1, UC_ARM64_REG_LR, UC_ARM64_REG_SP, UC_ARM64_REG_X0

from tests.support.firmware_samples import GCC
from tests.support.wycheproof import DigestCase

CODE, DATA, DATA_BYTES, RETURN = 0x10000, 0x100000, 0x10000, 0xF000
STACK, STACK_BYTES = 0x200000, 16 << 10
GOOD, WORD = 0x5AA53CC3, (1 << 32) - 1  # a value of "good", as the core has; verdicts are of 32 bits
FUNCTIONS = ("gr_signature_verify", "gr_sha256")
SIMD_ALLOWED = 3 << 20  # CPACR_EL1.FPEN; startup.S does the like for EL3


class Seam:
    """Calls functions of the seam.

    Attributes:
        core: the emulator.
        functions: addresses by name.
    """

    def __init__(self, folder: Path, *more: str) -> None:
        """Link the seam of a compiled folder, with further functions of it."""
        functions = (*FUNCTIONS, *more)
        objects = ["crypto.o", "string.o"]
        objects += sorted(str(path) for path in folder.glob("aws-lc/**/*.o"))
        objects += sorted(str(path) for path in folder.glob("bearssl/**/*.o"))
        options = ["-nostdlib", "-static", "-fno-lto", "-Wl,--gc-sections", f"-Wl,-Ttext={CODE:#x}"]
        options += [f"-Wl,-e,{FUNCTIONS[0]}", *(f"-Wl,-u,{name}" for name in functions)]
        subprocess.run([GCC, *options, "-o", "seam.elf", *objects], cwd=folder, check=True)
        self.core = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        for start, size in ((RETURN, 0x1000), (CODE, 0x10000), (DATA, DATA_BYTES), (STACK, STACK_BYTES)):
            self.core.mem_map(start, size)
        self.core.reg_write(UC_ARM64_REG_CPACR_EL1, SIMD_ALLOWED)
        with (folder / "seam.elf").open("rb") as file:
            elf = ELFFile(file)
            for section in map(elf.get_section_by_name, (".text", ".rodata")):
                assert section is not None
                self.core.mem_write(section["sh_addr"], section.data())
            table = elf.get_section_by_name(".symtab")
            assert isinstance(table, SymbolTableSection)
            self.functions = {row.name: int(row["st_value"]) for row in table.iter_symbols()}

    @contextmanager
    def watching(self) -> Iterator[list[tuple[int, int]]]:
        """Meanwhile, (address, size) of memory accesses that are not aligned: with the MMU off, none may be."""
        odd: list[tuple[int, int]] = []

        def look(_core: Uc, _kind: int, address: int, size: int, _value: int, _data: object) -> None:
            if address % size:
                odd.append((address, size))

        hook = self.core.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, look)
        try:
            yield odd
        finally:
            self.core.hook_del(hook)

    def call(self, name: str, *arguments: int) -> int:
        """What a function returns in X0; its stack holds what an earlier call may have left there."""
        for number, value in enumerate(arguments):
            self.core.reg_write(UC_ARM64_REG_X0 + number, value)
        self.core.reg_write(UC_ARM64_REG_SP, STACK + STACK_BYTES)
        self.core.reg_write(UC_ARM64_REG_LR, RETURN)
        self.core.emu_start(self.functions[name], RETURN)
        return int(self.core.reg_read(UC_ARM64_REG_X0))

    def verifies(self, name: str, case: DigestCase) -> bool:
        """A function's verdict on a digest, a key and a signature; they lie at odd addresses, as in a trace."""
        places = DATA + 1, DATA + 0x101, DATA + 0x203
        for place, data in zip(places, (case.digest, case.key, case.signature), strict=True):
            self.core.mem_write(place, data)
        return self.call(name, *places, GOOD) & WORD == GOOD
