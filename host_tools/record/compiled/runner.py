# SPDX-License-Identifier: BSD-2-Clause
"""The program that runs a plan (guest/runner.c): compiled for the guest, and for this machine, where Mesa's driver
for the CPU judges a plan before anything is recorded."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.machine.initramfs import LIBRARIES
from host_tools.machine.root import RecordRoot
from host_tools.record.compiled.layout import Layout, Tensors
from host_tools.record.needs import GCC, GUEST_GCC, LAVAPIPE, VULKAN, Need, lavapipe, require
from host_tools.support import programs
from host_tools.support.cache import cache_dir, made_once
from host_tools.support.sandbox import Sandbox
from trace_format.files import read_file

SOURCE = Path(__file__).parent / "guest" / "runner.c"
CFLAGS = ("-std=c11", "-O1")
TIMEOUT_S = 900.0
PLAN, CONSTANTS, TENSORS, RESULT = "plan", "constants", "tensors", "result"  # its files


def for_guest(root: RecordRoot) -> Path:
    """The runner for the recording guest, whose Vulkan loader it links.

    Raises:
        RecordError: the compiler or Vulkan's headers are missing.
    """
    loader = root.tree / LIBRARIES / "libvulkan.so.1"
    return _made(GUEST_GCC, [str(loader), "-Wl,--allow-shlib-undefined"])


def judged(layout: Layout, shaders: Sequence[bytes], inputs: Tensors) -> dict[str, NDArray[np.generic]]:
    """What the plan computes on lavapipe, Mesa's Vulkan driver for this machine's CPU.

    Args:
        layout: of the plan.
        shaders: SPIR-V of its kernels.
        inputs: by name.

    Raises:
        RecordError: a package is missing, or the runner failed.
    """
    require(LAVAPIPE)
    driver = lavapipe()
    assert driver is not None
    runner = _made(GCC, ["-lvulkan"])
    with tempfile.TemporaryDirectory(prefix="gramophone-") as name:
        folder = Path(name)
        for file, data in files(layout, shaders, inputs).items():
            (folder / file).write_bytes(data)
        done = programs.run(
            [str(runner), PLAN, CONSTANTS, TENSORS, RESULT],
            timeout_s=TIMEOUT_S,
            merged=True,
            cwd=folder,
            sandbox=Sandbox(reads=(driver,), writes=(folder,)),
            env={**os.environ, "VK_ICD_FILENAMES": str(driver), "MESA_SHADER_CACHE_DISABLE": "true"},
        )
        if done.returncode:
            raise RecordError(f"the compiled network does not run on lavapipe: {done.stdout.strip()[-300:]}")
        return layout.results(read_file(folder / RESULT))


def files(layout: Layout, shaders: Sequence[bytes], inputs: Tensors) -> dict[str, bytes]:
    """The runner's files by name."""
    return {
        PLAN: layout.words(shaders),
        CONSTANTS: layout.constants(),
        TENSORS: layout.tensors(inputs),
    }


def _made(compiler: Need, libraries: Sequence[str]) -> Path:
    require(compiler, VULKAN)
    command = [compiler.name, *CFLAGS, "-idirafter", "/usr/include", str(SOURCE), *libraries]
    key = hashlib.sha256(SOURCE.read_bytes() + "\0".join(command).encode()).hexdigest()[:16]

    def make(folder: Path) -> None:
        folder.mkdir()
        done = programs.run([*command, "-o", str(folder / "runner")], merged=True)
        if done.returncode:
            raise RecordError(f"{SOURCE.name} does not compile: {done.stdout.strip()[-300:]}")

    return made_once(cache_dir("runner") / key, make) / "runner"
