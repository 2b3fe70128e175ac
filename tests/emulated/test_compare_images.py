# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone diff` of images and of firmware: by parts, and what each was made for."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.flash.containers import FIRMWARE, take_apart
from host_tools.flash.manifest import NAME
from host_tools.flash.pack import Sources, pack
from tee_replayer.generator.device import find
from tests.support import replayer_samples as s
from tests.support.archives import extract
from tests.support.image_samples import Packed
from tests.support.replayer_samples import signed, trace


@pytest.fixture
def packed(images: Callable[[str], Packed]) -> Packed:
    return images("qemu-virt")


def diff(old: Path, new: Path, status: int = 1) -> tuple[dict[str, Any], list[str]]:
    """What the command prints, as JSON and as text."""
    found = CliRunner().invoke(main, ["diff", str(old), str(new), "--json"])
    assert found.exit_code == status, found.output
    text = CliRunner().invoke(main, ["diff", str(old), str(new)])
    assert text.exit_code == status
    data = json.loads(found.stdout)
    assert isinstance(data, dict)
    return data, text.stdout.splitlines()[1:]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_same(packed: Packed, tmp_path: Path) -> None:
    old, new = (write(tmp_path / name, packed.image) for name in ("old.img", "new.img"))
    data, lines = diff(old, new, status=0)
    assert (data["same"], data["parts"], data["traces"]) == (True, [], {})
    assert {FIRMWARE, NAME} <= set(data["same_parts"])
    assert lines == ["The images have the same parts, made for the same device."]


def test_another_trace(packed: Packed, tmp_path: Path) -> None:
    sample = trace()
    other = tmp_path / "net.sgtr"
    other.write_bytes(signed(sample.with_(meta=sample.meta | {"security_version": 4})))
    image, _ = pack(packed.folder, Sources([other]))
    old, new = write(tmp_path / "old.img", packed.image), write(tmp_path / "new.img", image)
    data, lines = diff(old, new)
    assert FIRMWARE in data["same_parts"]
    assert NAME in {part["name"] for part in data["parts"]}
    (name,) = data["traces"]
    versions = [row for row in data["traces"][name]["manifest"] if row["name"] == "security_version"]
    assert [row["new"] for row in versions] == ["4"]
    assert f"trace in {name}:" in lines
    assert lines[-2].startswith(f"The same parts: {FIRMWARE}")
    assert lines[-1] == "Nothing else differs."


def test_a_byte_of_the_firmware(packed: Packed, tmp_path: Path) -> None:
    at = packed.place(FIRMWARE) + 1000
    old, new = write(tmp_path / "old.img", packed.image), write(tmp_path / "new.img", packed.flipped(at))
    data, lines = diff(old, new)
    (part,) = data["parts"]
    assert (part["name"], part["differ"], part["first"], part["last"]) == (FIRMWARE, 1, 1000, 1000)
    size = len(take_apart(packed.image).files[FIRMWARE].data)
    assert f"  {FIRMWARE}: {size} bytes, 1 differ, from 0x3e8 to 0x3e8" in lines
    assert lines[-1] == "Note: what contradicts itself in an image was not compared further."


def test_another_device(packed: Packed, tmp_path: Path) -> None:
    """The constant of which the image says what it was made for."""
    firmware = (packed.folder / FIRMWARE).read_bytes()
    changed = firmware.replace(found_device(firmware), found_device(firmware, min_security_version=3))
    old, new = write(tmp_path / "old.bin", firmware), write(tmp_path / "new.bin", changed)
    data, lines = diff(old, new)
    assert data["kinds"] == ["firmware (plain bytes)"] * 2
    assert data["made_for"] == [{"name": "min_security_version", "old": "0", "new": "3"}]
    assert lines[:2] == ["made for:", "  min_security_version: 0 -> 3"]
    assert lines[-1] == "Nothing else differs."


def found_device(firmware: bytes, **changes: Any) -> bytes:
    """The bytes of that constant, changed."""
    device = next(device for _, device in find(firmware))
    return replace(device, **changes).encoded


def test_sections_of_an_elf(packed: Packed, tmp_path: Path) -> None:
    elf = (packed.folder / "firmware.elf").read_bytes()
    code = (packed.folder / FIRMWARE).read_bytes()[:64]
    at = elf.find(code)
    assert at > 0
    changed = elf[:at] + bytes([elf[at] ^ 1]) + elf[at + 1 :]
    data, lines = diff(write(tmp_path / "old.elf", elf), write(tmp_path / "new.elf", changed))
    (part,) = data["parts"]
    assert (part["differ"], part["first"]) == (1, 0)
    assert lines[-1] == "Note: what is not loaded was compared only as a whole."
    data, lines = diff(tmp_path / "old.elf", write(tmp_path / "longer.elf", elf + b"\0"))
    assert (data["parts"], data["outside_parts"]) == ([], True)
    assert "Bytes outside of all parts differ." in lines


def test_an_archive_and_its_folder(images: Callable[[str], Packed], tmp_path: Path) -> None:
    packed = images("hikey960")
    old = write(tmp_path / "image.tar", packed.image)
    with tarfile.open(old) as archive:
        extract(archive, tmp_path / "out")
    data, lines = diff(old, tmp_path / "out")
    assert data["parts"] == []
    assert lines[0] == "kind: image for a board (archive) -> image for a board (folder)"


def test_a_trace_and_an_image(packed: Packed, tmp_path: Path) -> None:
    old, new = write(tmp_path / "net.gtr", s.trace().build()), write(tmp_path / "new.img", packed.image)
    for pair in ((old, new), (new, old)):
        found = CliRunner().invoke(main, ["diff", *map(str, pair)])
        assert found.exit_code == 2
        assert found.stderr.startswith(f"error: {new} at offset 0x0: ")


def test_neither(packed: Packed, tmp_path: Path) -> None:
    old, new = write(tmp_path / "a.img", packed.image), write(tmp_path / "b", b"nothing that is known")
    found = CliRunner().invoke(main, ["diff", str(old), str(new)])
    assert found.exit_code == 2
    assert found.stderr.startswith(f"error: {new}: ")
