# SPDX-License-Identifier: BSD-2-Clause
"""Firmware files of GPUs: kept by their hash, and no other file passes for one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from host_tools.machine import gpu_firmware
from host_tools.machine.errors import RecordError
from host_tools.machine.gpu_firmware import FIRMWARE, firmware_file

MALI = FIRMWARE["mali-arch10.8"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gpu_firmware, "cache_dir", lambda *_: tmp_path)
    return tmp_path


def test_a_file_that_is_kept_is_not_fetched(folder: Path) -> None:
    known = replace(MALI, sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    (folder / known.sha256).write_bytes(b"abc")
    assert firmware_file(known, "trixie") == b"abc"


def test_another_file_is_refused_and_not_kept(folder: Path) -> None:
    (folder / MALI.sha256).write_bytes(b"abc")
    with pytest.raises(RecordError, match=r"expected the file whose SHA-256 is 43c3c36b.*found ba7816bf"):
        firmware_file(MALI, "trixie")
    assert not (folder / MALI.sha256).exists()
