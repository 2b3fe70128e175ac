# SPDX-License-Identifier: BSD-2-Clause
"""The twelve stages of a bring-up in whole machines: QEMU's virt and its Raspberry Pi 4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.extras.bringup import console, kit
from host_tools.extras.bringup.judge import IDENTITY, TIME, judged
from host_tools.passes.pipeline import build
from host_tools.runners import firmware as firmwares
from tee_replayer.generator import boards
from tests.support.bare_metal import COMPILER, require
from tests.support.bringup_kit import bringup_kit
from tests.support.raspi4b import qemu_or_skip
from trace_format import profile
from trace_format.trace import Trace

TIMEOUT_S = 1800


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits' network and an input."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    folder = tmp_path_factory.mktemp("network")
    (folder / "net.gtr").write_bytes(build(Trace.parse(RAW.read_bytes())).build())
    np.save(folder / "x.npy", np.random.default_rng(61).random((1, 28, 28), dtype=np.float32))
    return folder


@pytest.mark.parametrize(("platform", "machine"), [(boards.QEMU_VIRT, "qemu"), ("rpi4", "raspi4b")])
def test_twelve_stages(network: Path, tmp_path: Path, platform: str, machine: str) -> None:
    if machine == "raspi4b":
        qemu_or_skip()
    made = bringup_kit(tmp_path, platform, network / "net.gtr", network / "x.npy", 1)
    fw = firmwares.load(made / kit.FIRMWARE)
    text = kit.EMULATIONS[machine](fw, (made / kit.REQUEST).read_bytes(), "v3d42", TIMEOUT_S)
    said = console.read(text)
    assert list(said.stages) == list(console.STAGES)
    assert all(stage.ok for stage in said.stages.values()), text
    wanted = console.read((made / kit.EXPECTED).read_text(encoding="utf-8"))
    # Unicorn, whose console the kit has, counts no time of the CPU, and has other identities than QEMU.
    others = [one for one in judged(said, wanted, profile.load("v3d42")) if one.kind not in (TIME, IDENTITY)]
    assert others == []
