# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee submit`, and a joint trace's networks, over a libteec that plays the replayer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.device import slots
from host_tools.runners.optee.normal_world import tee_result
from tee_replayer.generator.status import value_of
from tests.optee.libteec import SLOT_BYTES, Fake, run

LOAD_BEGIN, RUN = 0, 5  # gramophone_pta.h
CHOOSE, DESCRIBE_NETWORK, SUBMIT, STEP = range(17, 21)
BUSY = 0xFFFF000D
PIECES = 7


@pytest.fixture
def sharing(fake: Fake) -> Fake:
    """A device that takes joint traces."""
    fake.lib.fake_share(PIECES)
    return fake


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "joint.sgtr"
    path.write_bytes(b"S" * 100 + bytes(32))
    np.save(tmp_path / "in.npy", np.random.default_rng(2).integers(0, 256, SLOT_BYTES, np.uint8))
    return path


def arguments(trace: Path, *more: object, command: str = "submit") -> list[object]:
    where = trace.parent
    return [command, trace, "--input", f"data={where}/in.npy", "-o", f"prob={where}/out.npy", *more]


def test_a_request_with_a_deadline(sharing: Fake, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = 5_000_000_000
    given = arguments(trace, "--network", "first", "--deadline", late, "--repeat", 2)
    status, found = run(sharing, capsys, *given)
    assert (status, found["replays"], found["pieces"]) == (0, 2, 2 * PIECES)
    calls = [call[0] for call in sharing.calls]
    assert (calls.count(CHOOSE), calls.count(SUBMIT), calls.count(STEP), calls.count(RUN)) == (1, 2, 2 * PIECES, 0)
    (asked, _) = (call[2:4] for call in sharing.calls if call[0] == SUBMIT)
    assert asked == (late & 0xFFFFFFFF, late >> 32)
    assert np.array_equal(np.load(trace.parent / "out.npy"), np.load(trace.parent / "in.npy") ^ 0x5A)
    assert sharing.left_open == [0, 0, 0]


def test_whenever_there_is_time(sharing: Fake, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(sharing, capsys, *arguments(trace, "--network", "first"))[0] == 0
    assert [call[2:4] for call in sharing.calls if call[0] == SUBMIT] == [(0xFFFFFFFF, 0xFFFFFFFF)]


def test_a_trace_that_another_session_has_loaded(
    sharing: Fake, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the same if its id is in the file; otherwise nothing is done."""
    index = 3  # of LOAD_BEGIN
    sharing.lib.fake_fail(index, BUSY)
    assert run(sharing, capsys, *arguments(trace, "--network", "first"))[0] == 0
    trace.write_bytes(b"S" * 100)
    sharing.clear()
    sharing.lib.fake_share(PIECES)
    sharing.lib.fake_fail(index, BUSY)
    status, found = run(sharing, capsys, *arguments(trace, "--network", "first"))
    assert (status, found["error"]) == (2, f"{trace}: another trace is loaded, and in use: lenet")
    assert sharing.calls[index][0] == LOAD_BEGIN
    sharing.clear()
    sharing.lib.fake_share(PIECES)
    sharing.lib.fake_fail(index, BUSY)
    status, found = run(sharing, capsys, *arguments(trace, "--network", "first", command="replay"))
    assert (status, found["result"]) == (2, f"{BUSY:#010x}"), "a replay shares nothing"


def test_a_trace_that_another_session_is_sending(
    sharing: Fake, trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sharing.lib.fake_sending(3)
    assert run(sharing, capsys, *arguments(trace, "--network", "first"))[0] == 0
    assert [call[0] for call in sharing.calls].count(LOAD_BEGIN) == 3
    monkeypatch.setattr(slots, "SENDING_S", 0.1)
    sharing.lib.fake_sending(1000)
    status, found = run(sharing, capsys, *arguments(trace, "--network", "first"))
    assert (status, "another session has been sending a trace" in found["error"]) == (2, True)


def test_a_replay_of_one_network(sharing: Fake, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(sharing, capsys, *arguments(trace, "--network", "first", command="replay"))[0] == 0
    assert RUN in [call[0] for call in sharing.calls]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "the trace has several networks: say which, with --network: first, second"),
        (["--network", "third"], "no network 'third'; there are: first, second"),
        (["--network", "second"], "no input 'data'; there are: none"),
        (["--network", "first", "--deadline", "0"], "expected microseconds, 1 or more, found '0'"),
        (["--network", "first", "--deadline", "soon"], "expected microseconds, 1 or more, found 'soon'"),
    ],
)
def test_what_cannot_be_asked(
    more: list[str], message: str, sharing: Fake, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = run(sharing, capsys, *arguments(trace, *more))
    assert status == 2
    assert message in found["error"]
    assert SUBMIT not in [call[0] for call in sharing.calls]


def test_a_deadline_that_cannot_be_kept(sharing: Fake, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments(trace, "--network", "first", "--deadline", 1)
    assert run(sharing, capsys, *given)[0] == 0
    at = [call[0] for call in sharing.calls].index(SUBMIT)
    (trace.parent / "out.npy").unlink()
    sharing.clear()
    sharing.lib.fake_share(PIECES)
    sharing.lib.fake_fail(at, tee_result(value_of("DEADLINE")))
    status, found = run(sharing, capsys, *given)
    assert (status, found["result"]) == (1, f"{tee_result(value_of('DEADLINE')):#010x}")
    assert not (trace.parent / "out.npy").exists()


def test_a_device_without_a_queue(fake: Fake, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = run(fake, capsys, *arguments(trace))
    assert status == 2
    assert "the device was generated without it" in found["error"]
    assert "schedule in its device file" in found["error"]
