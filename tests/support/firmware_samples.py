# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of compiled firmware share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.passes.pipeline import build
from host_tools.runners import firmware, libraries
from host_tools.runners.replay import Tensor
from tee_replayer.generator.boards import Board
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import NO_EVIDENCE, Options
from tee_replayer.generator.platforms import platform_of
from tests.support import mali_samples as m
from tests.support import replayer_samples as s
from trace_format.actions import Op
from trace_format.schema import SlotKind
from trace_format.trace import Trace

GCC = f"{firmware.CROSS}gcc"
STRICT = "EXTRA_CFLAGS=-Werror"


def compiled(
    folder: Path,
    gpu: str,
    platform: str | Board = "qemu-virt",
    carveout_bytes: int | None = None,
    evidence: Evidence = NO_EVIDENCE,
    mmu: bool | None = None,
) -> Path:
    """A compiled firmware for the samples' key, in `folder`/out."""
    out = folder / "out"
    generate(_options(gpu, platform, carveout_bytes=carveout_bytes, evidence=evidence, mmu=mmu), out)
    firmware.compile_firmware(out, STRICT)
    return out


def kept(
    gpu: str,
    platform: str | Board = "qemu-virt",
    *,
    carveout_bytes: int | None = None,
    evidence: Evidence = NO_EVIDENCE,
    mmu: bool | None = None,
) -> Path:
    """The same, compiled once and kept in the user's cache: a folder only to be read."""
    options = _options(gpu, platform, carveout_bytes=carveout_bytes, evidence=evidence, mmu=mmu)

    def write(folder: Path) -> None:
        generate(options, folder)

    return firmware.compiled_once(write, STRICT)


def _options(gpu: str, platform: str | Board, **more: Any) -> Options:
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    return Options(gpu, platform_of(platform), s.KEY, libraries.source(), **more)


def small_mali(folder: Path) -> Trace:
    """A recording made by hand; waits are short, for Unicorn stops at each look at the clock."""
    found = build(import_gpureplay(m.write(folder, m.recording()), "small"), skip=m.NEED_CHAINS)
    actions = found.actions.copy()
    actions["value"][actions["op"] == Op.WAIT_IRQ] = 3000
    actions["value"][actions["op"] == Op.INTERVAL] = 30
    return found.with_(actions=actions)


def values(sample: Trace, value: float) -> dict[str, Tensor]:
    """The same number for all inputs and parameters."""
    return {
        slot.name: np.full(slot.shape, value, np.float32) for slot in sample.slots if slot.kind != SlotKind.OUTPUT
    }
