# SPDX-License-Identifier: BSD-2-Clause
"""Firmware that no test changes: compiled once, and kept in the user's cache as runners keep theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from host_tools.runners import firmware, libraries
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import NO_EVIDENCE, Options
from tee_replayer.generator.platforms import platform_of
from tests.support import replayer_samples as s
from tests.support.firmware_samples import GCC, STRICT


def kept(
    gpu: str, platform: str = "qemu-virt", *, evidence: Evidence = NO_EVIDENCE, mmu: bool | None = None
) -> Path:
    """Folder of a compiled firmware for the samples' key, only to be read."""
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")

    def write(folder: Path) -> None:
        options = Options(gpu, platform_of(platform), s.KEY, libraries.source(), evidence=evidence, mmu=mmu)
        generate(options, folder)

    return firmware.compiled_once(write, STRICT)
