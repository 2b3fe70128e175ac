# SPDX-License-Identifier: BSD-2-Clause
"""Framed files on the guest's console, and what the recorder concludes from them."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.machine.console import parse_frames, read_console
from host_tools.machine.errors import RecordError
from host_tools.record.ncnn.job import ncnn_result


def frame(name: str, data: bytes, end: bytes = b"\n") -> bytes:
    """As guest/init sends it."""
    begin = f"@gramophone begin {name} {len(data)} {hashlib.sha256(data).hexdigest()}".encode()
    text = base64.b64encode(data)
    lines = [b"@" + text[at : at + 76] for at in range(0, len(text), 76)]
    return end.join([begin, *lines, f"@gramophone end {name}".encode(), b""])


@given(
    st.dictionaries(st.text("abc/._", min_size=1, max_size=8), st.binary(max_size=300), max_size=4),
    st.sampled_from([b"\n", b"\r\n"]),
    st.lists(st.sampled_from([b"[ 1.0] boot message\n", b"\n", b"\xff\xfe\n", b" @ not ours\n"]), max_size=3),
)
def test_frames_are_read_back(files: dict[str, bytes], end: bytes, noise: list[bytes]) -> None:
    console = b"".join(noise)
    for name, data in files.items():
        text = frame(name, data, end)
        at = text.index(b"\n") + 1  # a kernel message inside the frame
        console += text[:at] + b"".join(noise) + text[at:] + b"".join(noise)
    assert parse_frames(console) == files


GOOD = frame("out/x", b"some data that matters")
OTHER = frame("y", b"")


@pytest.mark.parametrize(
    ("console", "message"),
    [
        (GOOD[: GOOD.index(b"@gramophone end")], "frame out/x is cut short"),
        (GOOD.replace(b"begin out/x 22", b"begin out/x 23"), "expected 23 bytes, found 22"),
        (GOOD.replace(b"begin out/x 22", b"begin out/x many"), "console line 1: expected '@gramophone begin"),
        (GOOD.replace(b"@c29t", b"@c29u"), "expected sha256"),
        (GOOD.replace(b"@c29t", b"@c2!t"), "not base64"),
        (GOOD.replace(b"@c29t", b"@29t"), "not base64"),
        (GOOD.replace(b"end out/x", b"end out/y"), "expected the end of frame out/x"),
        (b"@gramophone end out/x\n", "none is open"),
        (GOOD.splitlines(keepends=True)[0] + OTHER, "frame y begins inside frame out/x"),
        (OTHER + OTHER, "frame y is sent twice"),
        (b"@c29tZQ==\n" + GOOD, "console line 1: data outside any frame"),
    ],
    ids=[
        "cut short",
        "longer than sent",
        "no length",
        "bit flipped",
        "bad character",
        "character lost",
        "wrong end",
        "only an end",
        "nested",
        "twice",
        "only data",
    ],
)
def test_malformed_frames(console: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        parse_frames(console)


def session(**changes: bytes) -> bytes:
    """A console as of a run that went well, with frames replaced."""
    frames = {
        "uptime": b"3.20 6.34\n",
        "output": b"hello\n",
        "dmesg": b"[    3.1] [drm] Initialized v3d 1.0.0 for b000000.gpu on minor 0\n",
        "out/report": b"ncnn 1.0\n",
        "status": b"0\n",
    }
    return b"".join(frame(name, data) for name, data in {**frames, **changes}.items())


def test_a_good_session() -> None:
    result = read_console(session(), "", {"jobs": 1})
    assert (result.output, result.files) == ("hello\n", {"report": b"ncnn 1.0\n"})
    assert result.seconds == pytest.approx(3.14)
    assert result.counters == {"jobs": 1}


@pytest.mark.parametrize(
    ("console", "message"),
    [
        (
            b"[ 2.0] Kernel panic - not syncing: Attempted to kill init!\r\n",
            "panicked: Kernel panic - not syncing: Att",
        ),
        (session(insmod=b"v3d.ko: insmod failed\n"), "could not load the GPU's driver: v3d.ko: insmod failed"),
        (session()[: session().index(b"@gramophone begin status")], "ended before its job did"),
        (
            session(status=b"7\n", output=b"Traceback\nValueError: no such blob\n"),
            "status 7: .*ValueError: no such blob",
        ),
        (session(dmesg=b"[ 5] v3d b000000.gpu: [drm] *ERROR* Resetting GPU for hang.\n"), "Resetting GPU"),
        (session(dmesg=b"[ 5] panfrost b000000.gpu: js fault, js=1, status=DATA_INVALID_FAULT\n"), "js fault"),
        (
            session(dmesg=b"[ 5] v3d b000000.gpu: MMU error from client L2T (0) at 0xdead00, pte invalid\n"),
            "MMU error",
        ),
        (session(dmesg=b"[ 5] panfrost b000000.gpu: Unhandled Page fault in AS0 at VA 0x0\n"), "Page fault"),
    ],
    ids=["panic", "insmod", "no status", "program failed", "hang", "Mali job", "MMU fault", "Mali page fault"],
)
def test_sessions_that_went_wrong(console: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_console(console, "", {"jobs": 1})


def test_report_of_an_inference() -> None:
    files = {
        "out/report": b"ncnn 1.0.2\ndevice V3D 4.2.14.0\noutput gpu 0 prob 2x1\noutput cpu 0 prob 2x1\n",
        "out/gpu/0": bytes.fromhex("0000803f00000040"),
        "out/cpu/0": bytes.fromhex("0000803f00004040"),
    }
    result = ncnn_result(read_console(session(**files), "", {"jobs": 1}).files)
    assert result.versions == {"ncnn": "1.0.2", "device": "V3D 4.2.14.0"}
    assert result.outputs["prob"].tolist() == [[1.0], [2.0]]
    assert result.reference["prob"].tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize(
    "files",
    [
        {"out/report": b"output gpu 0 prob 2\n"},
        {"out/report": b"output gpu 0 prob 2\n", "out/gpu/0": bytes(4)},
        {"out/report": b"output gpu 0 prob 2\n", "out/gpu/0": bytes(7)},
        {"out/report": b"output gpu 0 prob\n", "out/gpu/0": bytes(8)},
        {"out/report": b"output tpu 0 prob 2\n", "out/tpu/0": bytes(8)},
        {"out/report": b"output gpu 0 prob two\n", "out/gpu/0": bytes(8)},
    ],
    ids=["no file", "too short", "torn", "no shape", "unknown back end", "shape in words"],
)
def test_reports_that_do_not_fit(files: dict[str, bytes]) -> None:
    with pytest.raises(RecordError, match="does not fit"):
        ncnn_result(read_console(session(**files), "", {"jobs": 1}).files)
