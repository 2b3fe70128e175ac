# SPDX-License-Identifier: BSD-2-Clause
"""`make demo-mali`: what it says of itself is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.examples import mali
from host_tools.vgpu.build import QEMU
from tests.support.bare_metal import COMPILER, require


@pytest.mark.exhaustive
def test_two_digits_in_the_secure_world(
    recordings: Path, mnist_weights: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    require(COMPILER, "gcc-aarch64-linux-gnu")
    require(QEMU, "qemu-system-arm")
    status = mali.main([str(recordings), "--digits", "2"])
    said = " ".join(capsys.readouterr().out.split())
    assert (status, "2 of 2 right; NumPy agrees on 2, largest" in said) == (0, True)


def test_files_that_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mali.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'weights' / 'mnist.npz'}: No such file or directory\n"
    (tmp_path / "w.npz").write_bytes(b"")
    assert mali.main([str(tmp_path), "--weights", str(tmp_path / "w.npz")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'mnist' / 'gr_io_history'}: No such file or directory\n"
