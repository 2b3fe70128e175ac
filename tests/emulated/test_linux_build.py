# SPDX-License-Identifier: BSD-2-Clause
"""The folder of `generate --platform linux` compiles without warnings, and exports what its header declares."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from host_tools.runners import libraries
from host_tools.runners.firmware import CROSS, compile_firmware
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support.bare_metal import require
from tests.support.replayer_samples import KEY

COMPILERS = {"gcc": f"{CROSS}gcc", "clang": "clang --target=aarch64-linux-gnu"}


@pytest.mark.parametrize("compiler", [pytest.param("gcc", marks=pytest.mark.exhaustive), "clang"])
def test_it_compiles(compiler: str, tmp_path: Path) -> None:
    require(f"{CROSS}gcc", "gcc-aarch64-linux-gnu")
    require(compiler, compiler)
    out = generate(Options("v3d42", platform_of("linux"), KEY, libraries.source()), tmp_path / "out")
    make = [f"CROSS_COMPILE={CROSS}", f"CC={COMPILERS[compiler]}", "EXTRA_CFLAGS=-Werror"]
    compile_firmware(out, "all", *make)

    def symbols(*arguments: str) -> set[str]:
        done = subprocess.run([f"{CROSS}nm", *arguments], check=True, capture_output=True, text=True, cwd=out)
        return {line.split()[-1] for line in done.stdout.splitlines() if len(line.split()) > 1}

    declared = set(re.findall(r"\b(gramophone_gpu_\w+)\(", (out / "gramophone_gpu.h").read_text(encoding="utf-8")))
    assert symbols("-D", "--defined-only", "libgramophone_gpu.so") == declared
    # The core's own memory functions: those of the C library may access memory unaligned.
    assert not {"memcpy", "memset", "memmove"} & symbols("--undefined-only", "core.o")


def test_other_flags_build_anew(tmp_path: Path) -> None:
    """Objects of another compiler, or of other flags, are not linked."""
    require(f"{CROSS}gcc", "gcc-aarch64-linux-gnu")
    out = generate(Options("v3d42", platform_of("linux"), KEY, libraries.source()), tmp_path / "out")
    cross = f"CROSS_COMPILE={CROSS}"
    compile_firmware(out, "npy.o", cross)
    first = (out / "npy.o").read_bytes()
    compile_firmware(out, "npy.o", cross, "EXTRA_CFLAGS=-DGRAMOPHONE_UNUSED -O0")
    assert (out / "npy.o").read_bytes() != first
    compile_firmware(out, "npy.o", cross)
    assert (out / "npy.o").read_bytes() == first


def test_a_compiler_for_another_machine_is_named(tmp_path: Path) -> None:
    """Before anything is compiled; what needs no compiler for AArch64 is made."""
    out = generate(Options("v3d42", platform_of("linux"), KEY, libraries.source()), tmp_path / "out")
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho riscv64-linux-gnu\n", encoding="utf-8")
    compiler.chmod(0o755)
    done = subprocess.run(["make", f"CC={compiler}"], cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    expected = f"{compiler} compiles for 'riscv64-linux-gnu', this is for AArch64 Linux: make CROSS_COMPILE="
    assert expected in done.stderr
    assert not list(out.glob("*.o"))
    assert subprocess.run(["make", f"CC={compiler}", "clean"], cwd=out, check=False).returncode == 0


def test_the_compiler_names_its_binutils(tmp_path: Path) -> None:
    """`make CC=aarch64-linux-gnu-gcc` alone is enough."""
    require(f"{CROSS}gcc", "gcc-aarch64-linux-gnu")
    out = generate(Options("v3d42", platform_of("linux"), KEY, libraries.source()), tmp_path / "out")
    compile_firmware(out, "libgramophone_gpu.a", f"CC={CROSS}gcc")
    assert (out / "core.o").exists()
