# SPDX-License-Identifier: BSD-2-Clause
"""`try-gpu` for a Raspberry Pi 5, as far as an emulator has one: a V3D 7.1 at the board's addresses, with
the block "sms", in the recording machine. Debian's kernel and its v3d.ko are real. The power domain is missing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.machine import boot
from host_tools.machine.root import RecordRoot
from host_tools.vgpu.build import qemu_plugin
from tests.support.try_gpu import guest_job, networks, said_by, unpacked

pytestmark = pytest.mark.exhaustive
GPU, REPLAYS = "v3d71", 3
# The recording machine says that it is this board.
BOARD = r"""
printf 'raspberrypi,5-model-b\0brcm,bcm2712\0' >/tmp/compatible
mount --bind /tmp/compatible /sys/firmware/devicetree/base/compatible
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("packed"), GPU)


@pytest.fixture(scope="module")
def said(folder: Path, root: RecordRoot, vadd: Path) -> dict[str, list[str]]:
    """What each part of the guest's program printed, by its name."""
    words = f"{REPLAYS} 1002000000.gpu {GPU} check lenet cut_offs vulkan others"
    job = guest_job(folder, GPU, vadd, words, before=BOARD, place="v3d71-pi5")
    return said_by(boot.boot(job, root, qemu_plugin()))


def test_nothing_is_in_the_way(said: dict[str, list[str]]) -> None:
    assert said["check"][0].startswith(
        "try-gpu: a Raspberry Pi authenticates traces and checks them; it keeps nothing"
    )
    assert said["check"][1:] == ["try-gpu: nothing is in the way", "status 0"]


def test_each_network_gives_the_models_output(folder: Path, said: dict[str, list[str]]) -> None:
    lines = said["pressure"]
    assert [line for line in lines if line.startswith("status ")] == ["status 0"] * 2
    for name, slots in networks(folder, GPU).items():
        for slot in slots:
            count = {"lenet": REPLAYS, "jobs": 1}.get(name, 2)
            assert f"try-gpu: {name}: {count} replays, {slot} is the model's output: byte for byte" in lines
    assert "try-gpu: the GPU is with v3d" in lines


@pytest.mark.parametrize("name", ["interrupted", "killed program", "killed script", "damaged trace"])
def test_the_driver_has_the_gpu_again(said: dict[str, list[str]], name: str) -> None:
    assert said[name][-1] == "driver v3d"


def test_the_driver_works_afterwards(said: dict[str, list[str]]) -> None:
    assert "0 of 1000 sums are wrong" in said["vulkan"]
