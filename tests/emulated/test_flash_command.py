# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone flash`: what it is called with, and what it does not pack."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.flash.containers import FIRMWARE
from host_tools.flash.errors import FlashError
from host_tools.flash.pack import Sources, pack
from signing.sign import sign_trace
from tests.support import replayer_samples as s
from tests.support.archives import extract
from tests.support.image_samples import STRANGER, Packed, command, sample
from tests.support.replayer_samples import signed, trace


def test_an_unpacked_archive(images: Callable[[str], Packed], tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(images("hikey960").image)) as tar:
        extract(tar, tmp_path)
    assert command(f"flash --check {tmp_path}").exit_code == 0
    (tmp_path / "more.bin").write_bytes(b"1")
    (tmp_path / "flash.sh").write_text("fastboot flash fip other.bin\n")
    found = command(f"flash --check {tmp_path}")
    assert found.exit_code == 1
    assert ": is none of the files of such an image: expected nothing, found there" in found.stdout
    assert "flash.sh at 0x" in found.stdout
    (tmp_path / "more.bin").rename(tmp_path / f"{'x' * 120}.bin")
    long = command(f"flash --check {tmp_path}")
    assert (long.exit_code, "not the files of an archive" in long.stderr) == (2, True), long.output
    (tmp_path / f"{'x' * 120}.bin").unlink()
    (tmp_path / "flash.sh").unlink()
    (tmp_path / "flash.sh").symlink_to(tmp_path / "net.sgtr")
    assert "'flash.sh' in the folder: expected a file, found" in command(f"flash --check {tmp_path}").stderr


def test_the_command(images: Callable[[str], Packed], tmp_path: Path) -> None:
    packed = images("qemu-virt")
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    (tmp_path / "other.pem").write_bytes(STRANGER.public.pem())
    image = tmp_path / "image"
    made = command(f"flash {packed.folder} -o {image} --trace {packed.folder.parent}/net.sgtr --json")
    assert made.exit_code == 0, made.output
    assert image.read_bytes() == packed.image
    good = command(f"flash --check {image} --key {tmp_path}/pub.pem --json")
    assert good.exit_code == 0, good.output
    assert json.loads(good.stdout)["manifest_sha256"] == json.loads(made.stdout)["manifest_sha256"]
    assert json.loads(good.stdout)["findings"] == []
    assert json.loads(good.stdout)["not_derived"] == ["firmware.bin", "net.sgtr"]
    assert "not derived      firmware.bin, net.sgtr: compare" in command(f"flash --check {image}").stdout
    bad = command(f"flash --check {image} --key {tmp_path}/other.pem --json")
    assert bad.exit_code == 1
    finding = json.loads(bad.stdout)["findings"][0]
    assert finding.keys() == {"piece", "offset", "what", "expected", "found"}
    assert finding["piece"] == FIRMWARE
    assert "NOT what it must be" in command(f"flash --check {image} --key {tmp_path}/other.pem").stdout


def test_usage(images: Callable[[str], Packed], tmp_path: Path) -> None:
    folder = images("qemu-virt").folder
    net, board = folder.parent / "net.sgtr", images("hikey960").folder
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.fip").write_bytes(b"no package")
    cases = {
        f"flash --check {net}": "net.sgtr: not an image that 'gramophone flash' wrote",
        f"flash --check {tmp_path}/nothing": "nothing: No such file",
        f"flash --check {tmp_path}/empty": "expected a file gramophone.json, found none",
        f"flash {tmp_path} -o {tmp_path}/x": "replayer.h: No such file or directory: 'gramophone",
        f"flash {folder} -o {tmp_path}/x --fip y": "--fip cannot be used for the platform qemu-virt",
        f"flash {folder} -o {tmp_path}/x --trace {net} --trace {net}": "there are two traces called net.sgtr",
        f"flash {folder} -o {tmp_path}/x --trace {folder}/Makefile": "Makefile.sgtr",
        f"flash {images('rpi4').folder} -o {tmp_path}/x --boot-firmware {net}": "expected a folder with",
        f"flash {board} -o {tmp_path}/x --fip {tmp_path}/no.fip": "no.fip at offset 0x0: FIP header",
    }
    for line, reason in cases.items():
        found = command(line)
        assert (found.exit_code, reason in found.stderr) == (2, True), (line, found.stderr)
    assert not (tmp_path / "x").exists()


def test_traces_that_the_device_refuses(images: Callable[[str], Packed], tmp_path: Path) -> None:
    folder = images("qemu-virt").folder
    (tmp_path / "a.sgtr").write_bytes(sign_trace(trace().build(), STRANGER))
    (tmp_path / "b.sgtr").write_bytes(sample("hikey960", tmp_path))
    for name, reason in (("a", "signed by an unknown key"), ("b", "GPU profile: expected 0x")):
        with pytest.raises(FlashError, match=f"{name}.sgtr: the device refuses this trace: {reason}"):
            pack(folder, Sources([tmp_path / f"{name}.sgtr"]))


def test_a_trace_that_breaks_the_policy_is_not_packed(images: Callable[[str], Packed], tmp_path: Path) -> None:
    bad = trace(*s.PROLOGUE, *s.REPLAY, s.write("hub.MMU_PT_PA_BASE", 0), meta={"security_version": 1})
    (tmp_path / "a.sgtr").write_bytes(signed(bad))
    reason = r"a\.sgtr: the device refuses this trace: the register policy does not allow this access, action 9"
    with pytest.raises(FlashError, match=reason):
        pack(images("qemu-virt").folder, Sources([tmp_path / "a.sgtr"]))


def test_a_damaged_trace_is_not_packed(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """The place named is that in the trace's own file."""
    data = bytearray(sample("qemu-virt", tmp_path))
    data[-1] ^= 1
    (tmp_path / "a.sgtr").write_bytes(data)
    with pytest.raises(FlashError, match=r"a\.sgtr at 0x") as caught:
        pack(images("qemu-virt").folder, Sources(traces=(tmp_path / "a.sgtr",)))
    assert int(str(caught.value).split(" at ")[1].split(":")[0], 0) < len(data)


def test_a_trace_that_asks_for_inputs(images: Callable[[str], Packed], tmp_path: Path) -> None:
    (tmp_path / "a.sgtr").write_bytes(signed(trace(slots=s.slots(bound=False))))
    with pytest.raises(FlashError, match=r"a\.sgtr: no value for in, and nothing on this board gives one"):
        pack(images("rpi4").folder, Sources([tmp_path / "a.sgtr"]))


def test_a_firmware_that_is_not_for_the_platform(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """A folder's head changed by hand: the firmware's own bytes say otherwise."""
    shutil.copytree(images("rpi4").folder, tmp_path / "out")
    header = tmp_path / "out" / "replayer.h"
    header.write_text(header.read_text().replace("on rpi4;", "on qemu-virt;", 1))
    with pytest.raises(FlashError, match="platform in the firmware: expected qemu-virt, found rpi4"):
        pack(tmp_path / "out", Sources())
