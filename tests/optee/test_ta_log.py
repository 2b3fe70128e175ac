# SPDX-License-Identifier: BSD-2-Clause
"""The TA with a replay log: its tail is kept in storage before anything goes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.optee.compiled_ta import (
    ACCESS_DENIED,
    ATTEST,
    BAD_PARAMETERS,
    CORRUPT,
    DEVICE_KEY,
    GET_ENTRIES,
    LOG,
    LOG_OPEN,
    LOG_TAIL,
    NO_SPACE,
    NOT_SUPPORTED,
    RUN,
    SOURCES,
    SUCCESS,
    Ta,
    compiled,
)


@pytest.fixture(scope="module")
def logging_library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compiled(tmp_path_factory.mktemp("ta"), (SOURCES / "policy.h").read_text(), log=True)


@pytest.fixture
def logging_device(logging_library: Path) -> Ta:
    found = Ta(logging_library)
    assert found.open() == SUCCESS
    return found


def test_the_log_goes_on_over_boots(logging_device: Ta) -> None:
    device = logging_device
    assert (device.load(0), device.invoke(RUN)) == (SUCCESS, SUCCESS)
    device.close()
    assert device.open() == SUCCESS  # the log is that of the boot, not of the session
    assert [device.lib.fake_tail(boots) for boots in (True, False)] == [1, 3]
    assert device.lib.fake_objects() == 1
    device.lib.fake_boot()
    assert device.open() == SUCCESS
    assert [device.lib.fake_tail(boots) for boots in (True, False)] == [2, 4]


def test_the_tail_is_kept_before_anything_goes_out(logging_device: Ta) -> None:
    """A storage that fails from then on: no output, no entry, no attestation."""
    device = logging_device
    assert device.load(0) == SUCCESS
    device.lib.fake_storage(0, NO_SPACE, 0)
    assert device.invoke(RUN) == LOG
    assert not device.lib.fake_loaded()
    out = bytearray(64)
    assert [device.invoke(GET_ENTRIES, out), device.invoke(ATTEST, bytes(8), out)] == [LOG, LOG]
    assert not any(out)
    assert device.load(0) == LOG
    assert not device.lib.fake_loaded()
    device.lib.fake_storage(0, 0, 0)
    assert device.invoke(GET_ENTRIES, out) == SUCCESS
    assert out.startswith(b"entries\0")


@pytest.mark.parametrize(
    "storage", [(CORRUPT, 0, 0), (0, NO_SPACE, 0), (0, 0, 1)], ids=["open", "create", "short"]
)
def test_without_a_tail_no_session_opens(storage: tuple[int, int, int], logging_device: Ta) -> None:
    device = logging_device
    device.close()
    device.lib.fake_boot()
    device.lib.fake_storage(*storage)
    assert device.open() == LOG
    assert not device.lib.fake_open()
    device.lib.fake_storage(0, 0, 0)
    assert device.open() == SUCCESS


def test_a_pseudo_ta_that_keeps_no_log_gets_no_session(logging_device: Ta) -> None:
    logging_device.close()
    for command in (LOG_OPEN, LOG_TAIL):
        logging_device.lib.fake_fail(command, NOT_SUPPORTED)
        assert logging_device.open() == (NOT_SUPPORTED if command == LOG_OPEN else LOG)
        assert not logging_device.lib.fake_open()


def test_evidence_comes_through(logging_device: Ta) -> None:
    device, out = logging_device, bytearray(64)
    assert device.invoke(ATTEST, b"a nonce of 20 bytes.", out) == SUCCESS
    assert (device.sizes[1], bytes(out[:11])) == (11, b"attestation")
    assert device.invoke(DEVICE_KEY, out) == SUCCESS
    assert (device.sizes[0], bytes(out[:3])) == (3, b"key")
    calls = len(device.calls)
    assert device.invoke(ATTEST, bytes(65), out) == BAD_PARAMETERS
    assert device.invoke(ATTEST, out, out) == BAD_PARAMETERS
    assert device.invoke(LOG_OPEN, bytes(48)) == device.invoke(LOG_TAIL, bytearray(48)) == ACCESS_DENIED
    assert [row[0] for row in device.calls[calls:]] in ([], [LOG_TAIL])  # of ATTEST
