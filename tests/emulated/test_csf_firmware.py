# SPDX-License-Identifier: BSD-2-Clause
"""Firmware for a Mali-G610, with a stand-in for the file that its microcontroller runs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.gpus.mali_csf.stand_in import stand_in
from tests.support.bare_metal import COMPILER, require
from tests.support.hostile_streams import HOSTILE, accepted
from tests.support.replayer_samples import ES256, signed

DEVICE = 'gpu = "{gpu}"\nboard = "wide.toml"\nkey = "pub.pem"\nprofile = "plain"\n'
FIRMWARE = 'gpu_firmware = "mcu.bin"\n'


def run(status: int, words: Sequence[object]) -> str:
    result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.output


def device(folder: Path, text: str) -> Path:
    """A device file, and what it names: a board like qemu-virt, with room for the GPU's 2 MiB of registers."""
    board = resources.files("baremetal") / "boards" / "qemu-virt.toml"
    wide = board.read_text().replace(
        "gpu = { base = 0x0b000000, bytes = 0x20000 }", "gpu = { base = 0x0b000000, bytes = 0x200000 }"
    )
    (folder / "wide.toml").write_text(wide)
    (folder / "qemu_virt.c").write_bytes((resources.files("baremetal") / "qemu_virt.c").read_bytes())
    (folder / "pub.pem").write_bytes(ES256.public.pem())
    (folder / "mcu.bin").write_bytes(stand_in())
    (folder / "device.toml").write_text(text)
    return folder / "device.toml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DEVICE.format(gpu="mali_g610"), "expected gpu_firmware = FILE"),
        (DEVICE.format(gpu="v3d42") + FIRMWARE, "takes no gpu_firmware"),
    ],
)
def test_devices_that_are_refused(tmp_path: Path, text: str, says: str) -> None:
    assert says in run(2, ["generate", device(tmp_path, text), "-o", tmp_path / "out"])


def test_firmware_replays_and_refuses(tmp_path: Path) -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    run(0, ["generate", device(tmp_path, DEVICE.format(gpu="mali_g610") + FIRMWARE), "-o", tmp_path / "out"])
    subprocess.run(["make", "-s", "-C", tmp_path / "out", "EXTRA_CFLAGS=-Werror"], check=True)
    where = ["--key", tmp_path / "pub.pem", "--on", "unicorn", "--firmware", tmp_path / "out"]
    good, bad = tmp_path / "good.sgtr", tmp_path / "bad.sgtr"
    good.write_bytes(signed(accepted()))
    assert "1 jobs" in run(0, ["replay", good, *where])
    bad.write_bytes(signed(HOSTILE["a store"][0](accepted())))
    assert "a command stream has an instruction that no trace may have" in run(1, ["replay", bad, *where])
