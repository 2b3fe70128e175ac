# SPDX-License-Identifier: BSD-2-Clause
"""The client library and `gramophone-tee` over a libteec that plays the replayer in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from host_tools.device import library
from host_tools.device.evidence import pem
from host_tools.device.library import Session, TeeError
from host_tools.runners.optee.normal_world import tee_result
from tee_replayer.generator.status import statuses, value_of
from tests.optee.libteec import Fake, run
from tests.support.signing_samples import ES256
from trace_format.errors import GramophoneError

CHUNK = 256 << 10  # gramophone_tee.c
SLOT = CHUNK + 5
LOAD_BEGIN, LOAD_DATA, LOAD, DESCRIBE, SET_INPUT, RUN, GET_OUTPUT = range(7)  # gramophone_pta.h
CONTEXT, MEMORY, OPEN, SHARE = 0x100, 0x101, 0x102, 0x103  # fake_libteec.c
NONE, VALUE, IN, OUT = 0, 1, 0xD, 0xE  # TEEC_PARAM_TYPES
BAD_PARAMETERS, COMMUNICATION, BUSY, OUT_OF_MEMORY = 0xFFFF0006, 0xFFFF000E, 0xFFFF000D, 0xFFFF000C
API, TEE, TRUSTED_APP = 1, 3, 4  # TEEC_ORIGIN_*


def pieces(total: int) -> list[int]:
    return [CHUNK] * (total // CHUNK) + ([total % CHUNK] if total % CHUNK else [])


@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 7])
def test_a_trace_is_sent_in_pieces(size: int, fake: Fake, opened: Callable[..., Session]) -> None:
    data = b"S" + np.random.default_rng(size).bytes(size - 1)
    with opened() as session:
        session.load(data)
        assert fake.calls[3] == (LOAD_BEGIN, VALUE, size, 0, 0)
        assert fake.calls[4:-1] == [(LOAD_DATA, IN, 0, 0, piece) for piece in pieces(size)]
        assert fake.calls[-1] == (LOAD, NONE, 0, 0, 0)
        assert fake.ffi.buffer(fake.lib.fake_trace(), size)[:] == data
    assert fake.left_open == [0, 0, 0]


def test_a_trace_is_shared_with_a_device_that_streams(fake: Fake, opened: Callable[..., Session]) -> None:
    """Of each load only the last one's memory stays shared; what changes in it, the device sees."""
    fake.lib.fake_stream()
    data = bytearray(b"S" * (CHUNK + 7))
    with opened() as session:
        for _ in range(2):
            session.load(data)
            assert fake.calls[-3:] == [
                (LOAD_BEGIN, VALUE, len(data), 0, 0),
                (SHARE, 1, 0, 0, len(data)),  # TEEC_MEM_INPUT
                (LOAD, IN, 0, 0, len(data)),
            ]
            assert fake.left_open == [1, 1, 2]
        session.run()
        assert fake.calls[-1] == (RUN, IN, 0, 0, len(data))
        data[0] = 0
        with pytest.raises(TeeError) as caught:
            session.run()
        assert caught.value.result == tee_result(value_of("CHUNK"))
    assert fake.left_open == [0, 0, 0]


def test_memory_that_cannot_be_shared(fake: Fake, opened: Callable[..., Session]) -> None:
    fake.lib.fake_stream()
    with opened() as session:
        fake.lib.fake_fail(fake.lib.fake_count() + 1, OUT_OF_MEMORY)
        with pytest.raises(TeeError) as caught:
            session.load(b"S")
        assert (caught.value.result, caught.value.origin) == (OUT_OF_MEMORY, API)
    assert fake.left_open == [0, 0, 0]


def test_slots_inputs_and_outputs(fake: Fake, opened: Callable[..., Session]) -> None:
    data = np.random.default_rng(1).bytes(SLOT)
    with opened() as session:
        session.load(b"S")
        slots = [(session.text(slot.name), slot.kind, slot.rank, slot.bytes) for slot in session.slots()]
        assert slots == [("data", 1, 1, SLOT), ("prob", 2, 1, SLOT)]
        session.set_input(0, data)
        assert fake.calls[-2:] == [(SET_INPUT, VALUE | IN << 4, 0, at, n) for at, n in ((0, CHUNK), (CHUNK, 5))]
        session.run()
        assert session.output(1, SLOT) == bytes(byte ^ 0x5A for byte in data)
        assert fake.calls[-2:] == [(GET_OUTPUT, VALUE | OUT << 4, 1, at, n) for at, n in ((0, CHUNK), (CHUNK, 5))]
        assert session.text(session.manifest().name) == "lenet"
        assert session.log()["jobs"] == 14


@pytest.mark.parametrize("size", [0, SLOT - 1, SLOT + 1])
def test_data_of_another_size_than_the_slot_is_not_sent(
    size: int, fake: Fake, opened: Callable[..., Session]
) -> None:
    with opened() as session:
        session.load(b"S")
        for transfer in (lambda: session.set_input(0, bytes(size)), lambda: session.output(1, size)):
            with pytest.raises(TeeError) as caught:
                transfer()
            assert (caught.value.result, caught.value.origin) == (BAD_PARAMETERS, API)
            assert not caught.value.refused
            assert fake.calls[-1][0] == DESCRIBE


def _replay(opened: Callable[..., Session]) -> None:
    with opened() as session:
        session.load(b"S" * (CHUNK + 1))
        session.set_input(0, bytes(SLOT))
        session.run()
        session.output(1, SLOT)


@pytest.mark.parametrize("at", range(12))
def test_whichever_call_fails_ends_it(at: int, fake: Fake, opened: Callable[..., Session]) -> None:
    """Nothing is called after the call that failed, its result is passed on, and nothing stays open."""
    sequence = [CONTEXT, MEMORY, OPEN, LOAD_BEGIN, LOAD_DATA, LOAD_DATA, LOAD, DESCRIBE, SET_INPUT, SET_INPUT, RUN]
    sequence += [DESCRIBE]
    fake.lib.fake_fail(at, BUSY)
    with pytest.raises(TeeError) as caught:
        _replay(opened)
    assert [call[0] for call in fake.calls] == sequence[: at + 1]
    expected = API if at < 2 else TEE if at == 2 else TRUSTED_APP
    assert (caught.value.result, caught.value.origin) == (BUSY, expected)
    assert "another session has the GPU" in str(caught.value)
    assert fake.left_open == [0, 0, 0]


def test_an_answer_of_another_size_is_refused(fake: Fake, opened: Callable[..., Session]) -> None:
    with opened() as session:
        session.load(b"S")
        fake.lib.fake_answer_less(1)
        for call in (session.manifest, session.log, session.slots, lambda: session.output(1, SLOT)):
            with pytest.raises(TeeError) as caught:
                call()
            assert (caught.value.result, caught.value.origin) == (COMMUNICATION, API)


def test_whom_and_as_whom(fake: Fake, opened: Callable[..., Session]) -> None:
    uuids = {}
    for via in (library.TA, library.PTA):
        opened(via=via).close()
        uuids[via] = bytes(fake.ffi.buffer(fake.lib.fake_uuid(), 16))[:4]
    assert uuids == {"ta": 0x905ABB08.to_bytes(4, "little"), "pta": 0xCEEFCA54.to_bytes(4, "little")}
    for login, number in (("public", 0), ("user", 1), ("group", 2)):
        fake.clear()
        opened(login=login, group=77).close()
        assert (fake.lib.fake_state(3), fake.lib.fake_state(4)) == (number, 77 if login == "group" else 0)


def test_each_status_has_its_text(fake: Fake, opened: Callable[..., Session]) -> None:
    for status in statuses().values():
        if status.name == "OK":
            continue
        fake.clear()
        fake.lib.fake_fail(3, tee_result(status.value))
        with pytest.raises(TeeError) as caught, opened() as session:
            session.load(b"S")
        assert status.text in str(caught.value)
        assert caught.value.refused


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "net.sgtr"
    path.write_bytes(b"S" * 100)
    return path


def test_the_command_runs_a_trace(
    fake: Fake, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = np.random.default_rng(2).integers(0, 256, (1, SLOT), np.uint8)
    np.save(tmp_path / "in.npy", data)
    arguments = ["replay", trace, "--input", f"data={tmp_path}/in.npy", "--output", f"prob={tmp_path}/out.npy"]
    status, found = run(fake, capsys, *arguments, "--repeat", 3)
    assert status == 0
    assert (found["log"]["jobs"], found["log"]["actions"], found["replays"]) == (14, 307, 3)
    assert [call[0] for call in fake.calls].count(RUN) == 3
    assert np.array_equal(np.load(tmp_path / "out.npy"), data[0] ^ 0x5A)
    assert fake.left_open == [0, 0, 0]


def test_the_command_tells_of_a_trace(fake: Fake, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fake, capsys, "info") == (0, {"ok": True, "via": "ta"})
    status, found = run(fake, capsys, "info", trace, "--via", "pta")
    assert (status, found["name"], found["via"]) == (0, "lenet", "pta")
    status, found = run(fake, capsys, "slots", trace)
    data = {"name": "data", "kind": "input", "dtype": "uint8", "shape": [SLOT], "bytes": SLOT, "bound": False}
    assert found["slots"] == [data, data | {"name": "prob", "kind": "output"}]
    assert run(fake, capsys, "verify", trace) == (0, {"ok": True, "name": "lenet"})


@pytest.mark.parametrize("command", ["info", "slots", "verify", "replay"])
def test_a_refused_trace_is_exit_status_1(
    command: str, fake: Fake, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace.write_bytes(b"X" * 100)
    status, found = run(fake, capsys, command, trace)
    assert (status, found["result"]) == (1, f"{tee_result(value_of('SIGNATURE')):#010x}")


def numbers(path: Path) -> list[int]:
    """Of the entries in a file."""
    data = path.read_bytes()
    assert len(data) % library.ENTRY_BYTES == 0
    return [data[at] for at in range(0, len(data), library.ENTRY_BYTES)]


def test_the_log_is_taken_before_there_is_no_room(
    fake: Fake, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.clear(slot_bytes=8)
    fake.lib.fake_log()
    np.save(tmp_path / "in.npy", np.zeros(8, np.uint8))
    arguments = ["replay", trace, "--input", f"data={tmp_path}/in.npy", "--repeat", 100]
    log, nonce = tmp_path / "replay.log", bytes(range(8))
    status, found = run(fake, capsys, *arguments)
    assert (status, found["result"]) == (1, f"{library.LOG:#010x}")
    assert "replay 64" in found["error"]
    assert "'gramophone-tee log FILE' takes the entries that wait" in found["error"]
    status, found = run(fake, capsys, "log", log, "--nonce", nonce.hex(), "--attestation", tmp_path / "report")
    assert (status, found["entries"]) == (0, 64)
    assert (tmp_path / "report").read_bytes() == nonce
    assert run(fake, capsys, "verify", trace)[0] == 0
    status, found = run(fake, capsys, *arguments, "--entries", log)
    assert (status, found["entries"]) == (0, 102)
    assert numbers(log) == list(range(166))
    trace.write_bytes(b"X" * 100)
    assert run(fake, capsys, *arguments, "--entries", log)[0] == 1
    assert numbers(log) == list(range(167)), "that of the refusal, too"


def test_the_devices_key(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake.lib.fake_log()
    assert run(fake, capsys, "device-key", "-o", tmp_path / "key.pem")[0] == 0
    key = bytes([4, 1, *bytes(63)])
    assert (tmp_path / "key.pem").read_bytes() == pem(key)
    public = ES256.public  # the same form as that of a key that is one
    assert pem(public.raw) == public.pem()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["log", "F"],
            "the device was generated without it (evidence",
        ),
        (["device-key", "-o", "F"], "the device was generated without it"),
        (["log", "net.sgtr"], "expected entries of a replay log, 240 bytes each, found 100 bytes"),
        (["log", "F", "--nonce", "00" * 8], "--nonce and --attestation require each other"),
        (["log", "F", "--nonce", "00" * 65], "expected 8 to 64 bytes in hexadecimal"),
        (["log", "none/F"], "none"),
        (["log", "F", "--nonce", "00" * 8, "--attestation", "none/F"], "none"),
        (["replay", "net.sgtr", "--attestation", "F"], "--nonce and --attestation require each other"),
    ],
)
def test_evidence_that_cannot_be_had(
    arguments: list[str],
    message: str,
    fake: Fake,
    trace: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(trace.parent)
    status, found = run(fake, capsys, *arguments)
    assert (status, message in found["error"]) == (2, True), found["error"]
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]
    assert fake.left_open == [0, 0, 0]


def test_a_failed_replay_names_the_action(fake: Fake, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake.clear(slot_bytes=8)
    np.save(trace.with_name("in.npy"), np.zeros(8, np.uint8))
    out = trace.with_name("out.npy")
    arguments = ["replay", trace, "--input", f"data={trace.with_name('in.npy')}"]
    assert run(fake, capsys, *arguments)[0] == 0
    at = [call[0] for call in fake.calls].index(RUN)
    fake.clear(slot_bytes=8)
    fake.lib.fake_fail(at, tee_result(value_of("FAULT")))
    status, found = run(fake, capsys, *arguments, "--output", f"prob={out}")
    assert (status, found["log"]["jobs"]) == (1, 14)
    assert "the GPU reported a fault" in found["error"]
    assert "replay 1, action 0" in found["error"]
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no value for data"),
        (["--input", "nope=F"], "no input 'nope'; there are: data"),
        (["--input", "prob=F"], "no input 'prob'; there are: data"),
        (["--input", "data=F", "--output", "data=G"], "no output 'data'; there are: prob"),
        (["--input", "data=F", "--input", "data=F"], "input 'data' is given twice"),
        (["--input", "data=MISSING"], "MISSING: No such file or directory"),
        (["--input", "data=F", "--output", "prob=NO/DIR"], "NO/DIR: No such file or directory"),
    ],
)
def test_what_does_not_fit_the_slots(
    arguments: list[str],
    message: str,
    fake: Fake,
    trace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "F.npy", np.zeros(SLOT, np.uint8))
    (tmp_path / "F.npy").rename("F")
    status, found = run(fake, capsys, "replay", trace, *arguments)
    assert status == 2
    assert message in found["error"]
    assert RUN not in [call[0] for call in fake.calls]


def test_no_such_trace(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = run(fake, capsys, "verify", tmp_path / "none.sgtr")
    assert (status, found["error"]) == (2, f"{tmp_path}/none.sgtr: No such file or directory")
    (tmp_path / "empty.sgtr").touch()
    status, found = run(fake, capsys, "verify", tmp_path / "empty.sgtr")
    assert (status, found["error"]) == (
        2,
        f"{tmp_path}/empty.sgtr: expected a signed trace, found an empty file",
    )


def test_no_device(
    fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """libteec says ITEM_NOT_FOUND of all of these."""
    expected = {
        tmp_path / "tee0": "there is no TEE: is OP-TEE in the firmware",
        Path("/dev/null"): "OP-TEE finds no such TA",
    }
    for device, message in expected.items():
        fake.clear()
        fake.lib.fake_fail(0, library.ITEM_NOT_FOUND)
        monkeypatch.setattr(library, "DEVICE", device)
        status, found = run(fake, capsys, "info")
        assert status == 2
        assert message in found["error"]


def test_no_library(tmp_path: Path) -> None:
    with pytest.raises(GramophoneError, match=r"cannot be loaded.*Debian: libteec2"):
        Session(library=str(tmp_path / "none.so"))
