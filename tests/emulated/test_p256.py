# SPDX-License-Identifier: BSD-2-Clause
"""The firmware's ES256 as machine code of AArch64, in Unicorn: Wycheproof, and sums that are hard to add.

The seam and its libraries are those of a generated folder, linked by themselves: in the firmware the compiler
knows the key. tests/vgpu/test_p256.py has more cases, for the same C on this machine.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_ARM64, UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, UC_MODE_ARM, Uc
from unicorn.arm64_const import UC_ARM64_REG_LR, UC_ARM64_REG_SP, UC_ARM64_REG_W0, UC_ARM64_REG_X0

from tests.support import p256_cases as p
from tests.support.firmware_samples import GCC, compiled
from tests.support.sampling import SomeOf

CODE, DATA, RETURN = 0x10000, 0x100000, 0xF000
STACK, STACK_BYTES = 0x200000, 16 << 10
GOOD = 0x5AA53CC3
Verify = Callable[[p.Case], bool]


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = compiled(tmp_path_factory.mktemp("p256"), "v3d42")
    objects = ["crypto.o", "string.o", *sorted(map(str, out.glob("aws-lc/**/*.o")))]
    objects += sorted(map(str, out.glob("bearssl/**/*.o")))
    options = ["-nostdlib", "-static", "-fno-lto", "-Wl,--gc-sections", f"-Wl,-Ttext={CODE:#x}"]
    command = [GCC, *options, "-Wl,-e,gr_signature_verify", "-o", "verify.elf", *objects]
    subprocess.run(command, cwd=out, check=True)
    return out / "verify.elf"


@pytest.fixture(scope="module")
def machine(linked: Path) -> tuple[Uc, int]:
    emulated = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    emulated.mem_map(RETURN, 0x1000)
    emulated.mem_map(CODE, 0x10000)
    emulated.mem_map(DATA, 0x1000)
    emulated.mem_map(STACK, STACK_BYTES)
    with linked.open("rb") as file:
        elf = ELFFile(file)
        for section in map(elf.get_section_by_name, (".text", ".rodata")):
            assert section is not None
            emulated.mem_write(section["sh_addr"], section.data())
        return emulated, int(elf.header["e_entry"])


@pytest.fixture(scope="module")
def verify(machine: tuple[Uc, int]) -> Verify:
    emulated, entry = machine

    def verified(case: p.Case) -> bool:
        # At odd places, as in a trace; the stack holds what another verification may have left there.
        places = DATA + 1, DATA + 0x101, DATA + 0x203
        for place, data in zip(places, (case.digest, case.key, case.signature), strict=True):
            emulated.mem_write(place, data)
        for number, value in enumerate((*places, GOOD)):
            emulated.reg_write(UC_ARM64_REG_X0 + number, value)
        emulated.reg_write(UC_ARM64_REG_SP, STACK + STACK_BYTES)
        emulated.reg_write(UC_ARM64_REG_LR, RETURN)
        emulated.emu_start(entry, RETURN)
        return int(emulated.reg_read(UC_ARM64_REG_W0)) == GOOD

    return verified


def test_wycheproof(verify: Verify) -> None:
    wrong = [case.name for case in p.wycheproof() if verify(case) != case.good]
    assert not wrong


def test_equal_and_opposite_points_and_infinity(verify: Verify, some_of: SomeOf) -> None:
    wrong = [case.name for case in some_of(p.exceptional(), 100) if verify(case) != case.good]
    assert not wrong


def test_keys_that_are_no_points(verify: Verify) -> None:
    wrong = [case.name for case in p.bad_keys() if verify(case)]
    assert not wrong


def test_accesses_are_aligned(machine: tuple[Uc, int], verify: Verify) -> None:
    """With the MMU off, memory is of a kind that takes no others."""
    emulated, _ = machine
    odd = []

    def look(_emulated: Uc, _kind: int, address: int, size: int, _value: int, _data: object) -> None:
        if address % size:
            odd.append((hex(address), size))

    hook = emulated.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, look)
    try:
        assert verify(p.of_scalars(12345, 6789, 1011))
    finally:
        emulated.hook_del(hook)
    assert not odd
