# SPDX-License-Identifier: BSD-2-Clause
"""Kernels from GLSL to SPIR-V, by Khronos' own compiler; it runs on this machine, not in the guest."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from host_tools.machine.errors import RecordError
from host_tools.record.needs import GLSLANG, require
from host_tools.support import programs
from host_tools.support.sandbox import Sandbox
from trace_format.files import read_file

TIMEOUT_S = 300.0


def spirv(kernels: Sequence[str]) -> list[bytes]:
    """SPIR-V for Vulkan 1.1 of each kernel.

    Raises:
        RecordError: there is no compiler, or it refuses a kernel.
    """
    require(GLSLANG)
    compiler = str(shutil.which(GLSLANG.name))
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name, ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda item: _one(compiler, Path(name), *item), enumerate(kernels)))


def _one(compiler: str, folder: Path, number: int, kernel: str) -> bytes:
    source, made = folder / f"{number}.comp", folder / f"{number}.spv"
    source.write_text(kernel, encoding="utf-8")
    done = programs.run(
        [compiler, "-V", "--target-env", "vulkan1.1", "-o", str(made), str(source)],
        timeout_s=TIMEOUT_S,
        merged=True,
        sandbox=Sandbox(writes=(folder,)),
    )
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
        raise RecordError(f"{GLSLANG.name} refuses a kernel: {' '.join(said)[:300]}")
    return read_file(made)
