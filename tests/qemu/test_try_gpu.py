# SPDX-License-Identifier: BSD-2-Clause
"""`try-gpu` on QEMU's Raspberry Pi 4, in Debian's stock kernel: replays under pressure, cut-off runs, obstacles.

All of it in one boot, with `--exhaustive`: it takes minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools.machine.root import RecordRoot
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import firmware, raspi4b
from tests.support import raspi4b as pi
from tests.support.networks import recorded
from tests.support.signing_samples import ES256
from tests.support.try_gpu import guest_job, networks, said_by, unpacked

pytestmark = pytest.mark.exhaustive
GPU = "v3d42"
REPLAYS = 100
TIMEOUT_S = 3600  # one boot for all parts; on a busy computer it has a tenth of a core


@pytest.fixture(scope="module")
def folder(root: RecordRoot, shared_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive with MobileNet in it."""
    pi.qemu_or_skip()
    path = tmp_path_factory.mktemp("packed")
    raw = recorded("mobilenet_v1", shared_folder)
    (path / "mobilenet.gtr").write_bytes(build(raw, skip=KEEP_INPUTS).build())
    return unpacked(path, GPU, [path / "mobilenet.gtr"])


@pytest.fixture(scope="module")
def said(folder: Path, root: RecordRoot, vadd: Path) -> dict[str, list[str]]:
    """What each part of the guest's program printed, by its name."""
    parts = "check lenet cut_offs obstacles vulkan others"
    job = guest_job(folder, GPU, vadd, f"{REPLAYS} fec00000.gpu {GPU} {parts}")
    stub = firmware.build(ES256.public, platform="rpi4").binary.read_bytes()
    places = {raspi4b.KERNEL: root.kernel.read_bytes(), pi.DISK: pi.archive(root, job)}
    return said_by(pi.boot(root, stub, places, timeout_s=TIMEOUT_S)[0])


def test_each_network_gives_the_models_output_under_pressure(folder: Path, said: dict[str, list[str]]) -> None:
    lines = said["pressure"]
    assert [line for line in lines if line.startswith("status ")] == ["status 0"] * 3
    counts = {"lenet": REPLAYS, "mobilenet": 1, "jobs": 1}
    for name, slots in networks(folder, GPU).items():
        for slot in slots:
            count = counts.get(name, 2)
            assert f"try-gpu: {name}: {count} replays, {slot} is the model's output: byte for byte" in lines
    assert "try-gpu: the GPU is with v3d" in lines


def test_the_pages_stay_where_they_are(folder: Path, said: dict[str, list[str]]) -> None:
    """Each program says so at its end; the stress did move pages of others."""
    kept = [line for line in said["pages"] if line.endswith("are where they were")]
    assert len(kept) == 2 * len(networks(folder, GPU)) - 1  # a probe is replayed once
    assert all(int(count) > 0 for count in said["moved"])


def test_pages_of_all_sizes_serve(said: dict[str, list[str]]) -> None:
    assert said["small pages"][-1] == "status 0"
    assert any(line.endswith(", of pages of 4 KiB") for line in said["small pages"])


@pytest.mark.parametrize("name", ["interrupted", "killed program", "killed script", "damaged trace"])
def test_the_driver_has_the_gpu_again(said: dict[str, list[str]], name: str) -> None:
    assert said[name][-1] == "driver v3d"


def test_a_failed_stage_has_its_reason(said: dict[str, list[str]]) -> None:
    assert any(line.startswith("try-gpu: damaged: failed: error: ") for line in said["damaged trace"])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("busy", "try-gpu: the GPU is in use by sleep "),
        ("not taken", "error: fec00000.gpu: expected a driver that does nothing: 'gramophone-gpu take' binds it"),
        ("no io_uring", "error: memory: io_uring, which pins it: Operation not permitted: expected a kernel with"),
        ("hidden", "error: memory: /proc/self/pagemap: expected frame numbers, found none: they are hidden from"),
        ("no mem", "error: /dev/mem: No such file or directory: expected a kernel with DEVMEM"),
        ("second", "error: fec00000.gpu: another gramophone-gpu has the GPU: wait for its end"),
        ("no room", "error: memory: expected 16 MiB that are free, found less: end other programs"),
    ],
)
def test_obstacles_in_the_kernel(said: dict[str, list[str]], name: str, sentence: str) -> None:
    assert any(line.startswith(sentence) for line in said[name]), said[name]


def test_one_program_at_a_time_has_the_gpu(said: dict[str, list[str]]) -> None:
    """Giving it back waits for the replays, and does nothing when it has been given back."""
    assert said["first"] == ["status 0"]
    assert "the GPU is with v3d" in said["give back"]
    assert said["given back"] == ["the GPU is with v3d", "status 0"]


def test_the_driver_works_afterwards(said: dict[str, list[str]]) -> None:
    assert "0 of 1000 sums are wrong" in said["vulkan"]
