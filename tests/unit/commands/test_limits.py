# SPDX-License-Identifier: BSD-2-Clause
"""A text that names a large image takes no memory for it, and every command refuses what has no end."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners.optee import images, ta
from host_tools.text.reader import assemble
from host_tools.text.words import TextError
from tee_replayer import crypto
from tee_replayer.crypto import hashes
from tests.support.commands import split
from tests.support.signing_samples import ES256
from tests.support.trace_samples import sample
from tests.support.trace_text import plain
from trace_format import limits
from trace_format.errors import LimitError

GIB = 1 << 30


def test_an_image_of_zeros() -> None:
    """28 KB took 8 GiB."""
    lines = plain(sample().build()).split("\n")
    at = next(index for index, line in enumerate(lines) if line.startswith("image "))
    text = "\n".join([*lines[:at], f"image {4 * GIB}", f"0x00000000: zeros {4 * GIB}"])
    tracemalloc.start()
    try:
        with pytest.raises(TextError, match=r"net\.txt.*size of the image in bytes: expected at most 268435456"):
            assemble(text, "net.txt")
        assert tracemalloc.get_traced_memory()[1] < 64 * limits.MIB
    finally:
        tracemalloc.stop()


COMMANDS = (
    "inspect",
    "dump",
    "lint",
    "speed time",
    "assemble -o out",
    "verify trace --key pub.pem",
    "report -o out",
    "build -o out",
    "strip -o out",
    "diff other.gtr",
    "sign --signing-key pub.pem -o out",
    "key public -o out",
    "verify log --log-key pub.pem",
    "publish provenance --signing-key pub.pem -o out",
    "verify provenance --trace other.gtr --key pub.pem",
    "verify attestation --key pub.pem --nonce 0001020304050607",
)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_hole_of_40_gib_is_refused(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback; nothing is written."""
    monkeypatch.chdir(tmp_path)
    for name in ("hole", "other.gtr"):
        with Path(name).open("wb") as file:
            file.truncate(40 * GIB if name == "hole" else 0)
    Path("pub.pem").write_bytes(ES256.public.pem())
    command, options = split(line.split())
    found = CliRunner().invoke(main, [*command, "hole", *options])
    assert found.exit_code == 2, found.output
    assert "hole: size of the file in bytes: expected at most " in found.stderr
    assert str(40 * GIB) in found.stderr
    assert not Path("out").exists()


# Of these the file is not the first word, or one in a folder; hole: what is one there.
ELSEWHERE = (
    ("key show hole", "hole"),
    ("bench hole --key pub.pem", "hole"),
    ("audit-firmware hole", "hole"),
    ("audit-firmware folder", "folder/firmware.elf"),
    ("flash --check hole", "hole"),
    ("lint net.gtr --allow hole", "hole"),
    ("diff net.gtr hole", "hole"),
    ("sign net.gtr --signing-key hole -o out", "hole"),
    ("verify trace net.gtr --key hole", "hole"),
    ("replay net.gtr --key hole --on vgpu", "hole"),
    ("replay hole --key pub.pem --on vgpu", "hole"),
    ("publish suit import hole --key pub.pem -o out", "hole"),
    ("verify trace net.gtr --key pub.pem --transparency hole --transparency-key pub.pem", "hole"),
    ("enrol --secret hole -o out", "hole"),
    ("generate --gpu v3d42 --platform qemu-virt --key hole -o out", "hole"),
    ("generate --gpu v3d42 --board hole --key pub.pem -o out", "hole"),
    ("generate --gpu v3d42 --platform qemu-virt --key pub.pem -o folder", "folder/generated.sha256"),
    ("publish sbom folder -o out", "folder/replayer.h"),
    ("record onnx hole -o out", "hole"),
)


@pytest.mark.parametrize(("line", "hole"), ELSEWHERE)
def test_a_hole_elsewhere_is_refused(
    line: str, hole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with Path(hole).open("wb") as file:
        file.truncate(40 * GIB)
    Path("net.gtr").write_bytes(sample().build())
    Path("pub.pem").write_bytes(ES256.public.pem())
    found = CliRunner().invoke(main, line.split())
    assert found.exit_code == 2, found.output
    assert f"error: {hole}: size of the file in bytes: expected at most " in found.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda folder: hashes.found("bearssl", folder, ()), "inc/bearssl.h"),
        (lambda folder: crypto.Libraries(folder).versions, "debian/changelog"),
        (images.read_board, "sub.mk"),
        (images.is_for_ta_only, "sub.mk"),
        (lambda folder: ta.public_part(folder / "key.pem"), "key.pem"),
    ],
    ids=["library", "changelog", "board", "TA only", "TA key"],
)
def test_a_hole_in_a_folder_is_refused(read: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(40 * GIB)
    with pytest.raises(LimitError, match=f"^{path}: size of the file in bytes: expected at most "):
        read(tmp_path)


@pytest.mark.parametrize("line", ["dump", "lint", "assemble -o out", "verify log --log-key key"])
def test_a_device_is_not_read(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, options = split(line.split())
    found = CliRunner().invoke(main, [*command, "/dev/zero", *options])
    assert found.exit_code == 2, found.output
    assert "/dev/zero: not readable: expected a regular file, found a device" in found.stderr
