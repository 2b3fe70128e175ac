# SPDX-License-Identifier: BSD-2-Clause
"""What a verifier measures of OP-TEE's core, and the secret that follows from a hardware unique key."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners.optee.measurement import core_measurement
from host_tools.support.elf import is_elf
from signing import device_keys
from tests.support import dummy_core
from trace_format.errors import GramophoneError


def test_code_and_constants_are_measured() -> None:
    core = dummy_core.elf()
    measured = dummy_core.CODE[:16] + dummy_core.CODE[24:] + dummy_core.CONSTANTS
    assert is_elf(core)
    assert core_measurement(core, "tee.elf") == hashlib.sha256(measured).digest()


def test_any_byte_of_them_counts_and_no_other() -> None:
    core = dummy_core.elf()
    good = core_measurement(core, "tee.elf")
    for at in range(
        dummy_core.FILE_AT, dummy_core.FILE_AT + len(dummy_core.CODE + dummy_core.CONSTANTS + dummy_core.DATA)
    ):
        changed = bytearray(core)
        changed[at] ^= 1
        inside = at - dummy_core.FILE_AT
        counts = inside < len(dummy_core.CODE + dummy_core.CONSTANTS) and not 16 <= inside < 24
        assert (core_measurement(bytes(changed), "tee.elf") != good) == counts


def test_what_is_relocated_cannot_be_measured() -> None:
    data_at = dummy_core.BASE + len(dummy_core.CODE + dummy_core.CONSTANTS)
    assert core_measurement(dummy_core.elf(relocated=data_at), "tee.elf")
    for address in (dummy_core.BASE, data_at - 1):
        with pytest.raises(GramophoneError, match=f"tee.elf: the core relocates {address:#x}, which is measured"):
            core_measurement(dummy_core.elf(relocated=address), "tee.elf")


@pytest.mark.parametrize("data", [b"\x7fELF", b"\x7fELF" + bytes(100), dummy_core.elf()[:300]])
def test_a_damaged_file(data: bytes) -> None:
    with pytest.raises(GramophoneError, match=r"^tee.elf: "):
        core_measurement(data, "tee.elf")


def test_an_elf_file_that_is_no_core() -> None:
    with pytest.raises(
        GramophoneError, match=r"expected OP-TEE's core with symbols \(tee.elf\), found no __text_start"
    ):
        core_measurement(dummy_core.elf(symbols=("main",)), "a.out")


def test_the_secret_of_a_hardware_unique_key() -> None:
    """As core/kernel/huk_subkey.c computes it: HMAC of a number in memory's order, and the purpose."""
    huk = bytes(range(16))
    header = (Path(device_keys.__file__).parents[1] / "tee_replayer/optee/gramophone_pta.h").read_text()
    assert "#define GRAMOPHONE_HUK_USAGE 0x47524c47u" in header
    assert '#define GRAMOPHONE_HUK_PURPOSE "gramophone device"' in header
    text = bytes.fromhex("474c5247") + b"gramophone device"
    assert device_keys.secret_of_huk(huk) == hmac.new(huk, text, hashlib.sha256).digest()


def test_a_file_that_is_no_hardware_unique_key(tmp_path: Path) -> None:
    (tmp_path / "huk").write_bytes(bytes(15))
    for words, sentence in (
        (("--huk", tmp_path / "huk"), "huk: a hardware unique key: expected 16 bytes, found 15"),
        (("--huk", tmp_path / "huk", "--secret", tmp_path / "huk"), "--secret cannot be combined with --huk"),
    ):
        done = CliRunner().invoke(main, ["enrol", *map(str, words), "-o", str(tmp_path / "out")])
        assert (done.exit_code, sentence in done.output) == (2, True), done.output
    assert not (tmp_path / "out").exists()
