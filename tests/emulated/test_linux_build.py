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


@pytest.mark.parametrize("compiler", COMPILERS)
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
