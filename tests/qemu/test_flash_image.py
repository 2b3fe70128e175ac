# SPDX-License-Identifier: BSD-2-Clause
"""The flash image for QEMU's machine boots as the firmware on its own does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from host_tools import runners
from host_tools.flash.pack import Sources, pack
from host_tools.runners import firmware
from host_tools.vgpu import build
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.replayer_samples import signed, trace


@pytest.fixture
def folder() -> Path:
    """A compiled firmware, from the cache."""
    require(build.QEMU, "qemu-system-arm")
    require(COMPILER, "gcc-aarch64-linux-gnu")
    return firmware.build(s.KEY).folder


def test_the_image_boots(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firmware, "check_binary", lambda *_: None)  # what follows the firmware is no part of it
    data = signed(trace())
    (tmp_path / "net.sgtr").write_bytes(data)
    image, _ = pack(folder, Sources([tmp_path / "net.sgtr"]))
    shutil.copytree(folder, tmp_path / "out")
    (tmp_path / "out" / "firmware.bin").write_bytes(image)
    expected = runners.run("qemu", Delivery(data), s.KEY, firmware=folder)
    found = runners.run("qemu", Delivery(data), s.KEY, firmware=tmp_path / "out")
    assert found.ok, found.error
    assert found.outputs["out"].tobytes() == expected.outputs["out"].tobytes()
    assert found.instructions == expected.instructions
