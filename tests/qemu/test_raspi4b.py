# SPDX-License-Identifier: BSD-2-Clause
"""The firmware of `rpi4` at EL3 on QEMU's Raspberry Pi 4, with the virtual V3D at its place on the board."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import firmware, raspi4b
from host_tools.runners.replay import RunnerError
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.networks import built, picture
from tests.support.raspi4b import qemu_or_skip
from tests.support.signing_samples import ES256
from trace_format.trace import Trace

SERIES = 3


@pytest.fixture(autouse=True, scope="module")
def machine() -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    qemu_or_skip()


def lenet() -> Trace:
    data = RAW.read_bytes()
    return build(Trace.parse(data), source=data, skip=KEEP_INPUTS)


def test_lenet_gives_what_the_virtual_gpu_gives() -> None:
    delivery = Delivery(sign_trace(lenet().build(), ES256))
    expected = runners.run("vgpu", delivery, ES256.public)
    found = runners.run("raspi4b", delivery, ES256.public, repeat=SERIES)
    assert found.ok, found.error
    assert (found.device, found.jobs, found.retries) == (raspi4b.DEVICE, expected.jobs, 0)
    assert found.outputs["prob"].tobytes() == expected.outputs["prob"].tobytes()


def test_a_trace_of_another_key_is_refused() -> None:
    found = runners.run("raspi4b", Delivery(s.signed(s.trace())), ES256.public)
    assert (found.ok, found.report.name) == (False, "KEY")


def test_firmware_of_another_board_is_refused() -> None:
    folder = firmware.build(ES256.public).folder
    delivery = Delivery(sign_trace(lenet().build(), ES256))
    with pytest.raises(
        RunnerError, match="made for another board than Raspberry Pi 4: expected gpu at 0xfec00000"
    ):
        runners.run("raspi4b", delivery, ES256.public, firmware=folder)


def test_another_gpu_is_refused() -> None:
    with pytest.raises(RunnerError, match="Raspberry Pi 4 has a v3d42-pi4, no mali_g71"):
        runners.run("raspi4b", Delivery(s.signed(s.trace())), s.KEY, gpu="mali_g71")


@pytest.mark.exhaustive
def test_mobilenet(shared_folder: Path) -> None:
    """The largest network of the tests: 4 million weights in the mailbox, megabytes of the carve-out."""
    delivery = Delivery(sign_trace(built("mobilenet_v1", shared_folder).build(), ES256))
    inputs = {"data": picture("mobilenet_v1")}
    expected = runners.run("vgpu", delivery, ES256.public, inputs)
    found = runners.run("raspi4b", delivery, ES256.public, inputs)
    assert found.ok, found.error
    assert found.outputs.keys() == expected.outputs.keys()
    for name, array in expected.outputs.items():
        assert found.outputs[name].tobytes() == array.tobytes()
