# SPDX-License-Identifier: BSD-2-Clause
"""A text that names a large image takes no memory for it, and every command refuses what has no end."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.text.reader import assemble
from host_tools.text.words import TextError
from tests.support.signing_samples import ES256
from tests.support.trace_samples import sample
from tests.support.trace_text import plain
from trace_format import limits

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
    "assemble -o out",
    "verify --key pub.pem",
    "report -o out",
    "build -o out",
    "strip -o out",
    "diff other.gtr",
    "sign --signing-key pub.pem -o out",
    "getpub -o out",
    "verify-log --log-key pub.pem",
    "verify-report --key pub.pem --nonce 0001020304050607",
)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_hole_of_40_gib_is_refused(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback; nothing is written."""
    monkeypatch.chdir(tmp_path)
    for name in ("hole", "other.gtr"):
        with Path(name).open("wb") as file:
            file.truncate(40 * GIB if name == "hole" else 0)
    Path("pub.pem").write_bytes(ES256.public.pem())
    command, *options = line.split()
    found = CliRunner().invoke(main, [command, "hole", *options])
    assert found.exit_code == 2, found.output
    assert "hole: size of the file in bytes: expected at most " in found.stderr
    assert str(40 * GIB) in found.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize("line", ["dump", "lint", "assemble -o out", "verify-log --log-key key"])
def test_a_device_is_not_read(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = line.split()
    found = CliRunner().invoke(main, [command, "/dev/zero", *options])
    assert found.exit_code == 2, found.output
    assert "/dev/zero: what it is: expected a regular file, found a device" in found.stderr
