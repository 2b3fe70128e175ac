# SPDX-License-Identifier: BSD-2-Clause
"""Encrypted traces in Unicorn: by a device's secret or a fleet's key, with AES instructions and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.demo.digits import load as load_digits
from host_tools.families.family import profile_of
from host_tools.passes.pipeline import build
from host_tools.runners import firmware as firmwares
from host_tools.runners import libraries
from host_tools.runners.replay import ReplayResult
from signing import encryption
from signing.delivery import Delivery
from tee_replayer.generator.decryption import Decryption
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import encryption_samples as e
from tests.support import replayer_samples as s
from tests.support.bare_metal import COMPILER, require
from tests.support.firmware_samples import small_mali
from trace_format.trace import Trace

CASES = list(e.cases())


@pytest.fixture(autouse=True)
def needs() -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """What the emulated board keeps: its secret."""
    (tmp_path / "device.secret").write_bytes(e.SECRET)
    return tmp_path


def made(platform: str, decryption: Decryption, gpu: str = "v3d42") -> Path:
    """A board's firmware after make, from the cache."""

    def write(folder: Path) -> None:
        options = Options(gpu, platform_of(platform), s.KEY, libraries.source(), decryption=decryption)
        generate(options, folder)

    return firmwares.compiled_once(write)


def run(folder: Path, trace: bytes, store: Path | None = None, **inputs: np.ndarray) -> ReplayResult:
    options = {"firmware": folder, "store": store, "has_log": False}
    return runners.run("unicorn", Delivery(e.signed(trace)), s.KEY, inputs, **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("trace", "status"), [row[1:] for row in CASES], ids=[name for name, _, _ in CASES])
def test_what_is_refused(trace: bytes, status: str, store: Path) -> None:
    """As the core on the host refuses it (tests/vgpu/test_encryption.py)."""
    found = run(made("qemu-virt", Decryption(True, e.FLEET_BYTES)), trace, store)
    assert found.report.name == status


def test_by_the_devices_secret(store: Path) -> None:
    folder = made("qemu-virt", Decryption(True))
    assert run(folder, e.encrypted(e.STRANGER, e.DEVICE), store).ok
    assert run(folder, e.encrypted(e.DEVICE)).report.name == "ENCRYPTED"  # without it
    assert run(folder, e.plain(), store).ok


def test_without_the_option_a_device_refuses_it() -> None:
    assert run(made("qemu-virt", Decryption()), e.encrypted(e.FLEET)).report.name == "HEADER"


@pytest.mark.parametrize(
    "platform",
    [
        pytest.param("qemu-virt", id="AES instructions", marks=pytest.mark.exhaustive),  # those of the tests above
        pytest.param("rpi4", id="no AES instructions"),
    ],
)
def test_lenet_gives_the_same_bytes(platform: str) -> None:
    plain = build(Trace.read(RAW)).build()
    inputs = load_digits()[:1].inputs()[0]
    folder = made(platform, Decryption(True, e.FLEET_BYTES))
    expected = run(folder, plain, data=inputs)
    trace = encryption.encrypt(plain, [e.public(e.FLEET)])
    with encryption.reading_with([e.FLEET]):
        found = run(folder, trace, data=inputs)
    assert expected.ok
    assert found.ok, found.error
    assert found.outputs["prob"].tobytes() == expected.outputs["prob"].tobytes()


def test_a_board_whose_cores_are_asked(tmp_path: Path) -> None:
    """The HiKey960's description does not say: its firmware has code for both."""
    plain = small_mali(tmp_path).build()
    folder = made("hikey960", Decryption(True, e.FLEET_BYTES), profile_of("mali_g71").name)
    trace = encryption.encrypt(plain, [e.public(e.FLEET)])
    with encryption.reading_with([e.FLEET]):
        assert run(folder, trace).report.name == run(folder, plain).report.name != "ENCRYPTED"
