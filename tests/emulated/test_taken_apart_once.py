# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone replay` takes a signed trace apart once, whatever it runs on.

The machines with OP-TEE or Linux are left out, but not what is done before and after them.
"""

from __future__ import annotations

import cProfile
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.machine.console import GuestResult
from host_tools.runners import RUNNERS, user_space
from host_tools.runners.optee import bare_metal, images, linux, linux_machine
from host_tools.runners.optee.images import Board, Image
from host_tools.runners.optee.normal_world import NormalWorld, Request, Response
from signing import envelope
from tee_replayer.generator.status import Report, value_of
from tests.support import replayer_samples as s
from tests.support.firmware_samples import GCC
from tests.support.raspi4b import qemu_or_skip
from trace_format import layout
from trace_format.schema import Header
from trace_format.trace import Trace

INPUT = np.arange(6, dtype=np.float32).reshape(2, 3)
READERS: dict[str, Callable[..., object]] = {
    "envelope": envelope.split,
    "header": layout.read_header,
    "sections": layout.sections,
    "trace": Trace.of_sections.__func__,  # type: ignore[attr-defined]
}
ON = {
    "vgpu": ["vgpu"],
    "unicorn": ["unicorn"],
    "qemu": ["qemu"],
    "optee": ["optee"],
    "optee-linux": ["optee", "--normal-world", "linux"],
    "linux": ["linux"],
    "raspi4b": ["raspi4b"],
}


@pytest.fixture(autouse=True)
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Machines that have nothing to do but say that all is well; what was sent to them."""
    monkeypatch.chdir(tmp_path)
    sent: list[bytes] = []
    report = Report(**dict.fromkeys(Report.__dataclass_fields__, 0))
    report = Report(**{**asdict(report), "status": value_of("OK")})

    def invoke(request: Request) -> Response:
        sent.append(request.replay.delivery.data)
        return Response(0, 0, report, "")

    def boot_optee(_image: Image, job: Any, **_: Any) -> GuestResult:
        sent.append(job.files["job/net.sgtr"])
        answer = {"ok": False, "log": asdict(report)}
        return GuestResult("", {linux.ANSWER: json.dumps(answer).encode()}, "", 1.0, {})

    def job_with(_root: Any, _folder: Path, _command: str, files: dict[str, bytes], _gpu: str) -> None:
        sent.append(files["job/net.sgtr"])

    refusal = {**asdict(report), "status": value_of("KEY")}
    board = Board(0, 0, 0, 0, 0)
    monkeypatch.setattr(images, "image_for_key", lambda *_, **__: Image(Path("none"), board))
    monkeypatch.setattr(bare_metal, "BARE_METAL", NormalWorld("nothing", None, invoke))
    monkeypatch.setattr(linux_machine, "boot", boot_optee)
    monkeypatch.setattr(user_space, "build", lambda *_, **__: Path("none"))
    monkeypatch.setattr(user_space, "ready_root", lambda: None)
    monkeypatch.setattr(user_space, "qemu_plugin", lambda: None)
    monkeypatch.setattr(user_space, "job_with", job_with)
    monkeypatch.setattr(
        user_space,
        "boot",
        lambda *_, **__: GuestResult("", {"answer": json.dumps(refusal).encode()}, "", 1.0, {}),
    )
    return sent


def replay(data: bytes, *on: str) -> tuple[int, dict[str, int]]:
    """Exit status of a replay, and how often what was read."""
    Path("net.sgtr").write_bytes(data)
    Path("key.pem").write_bytes(s.KEY.pem())
    np.save("in.npy", INPUT)
    line = ["replay", "net.sgtr", "--key", "key.pem", "--input", "in=in.npy", "--on", *on]
    with cProfile.Profile() as profile:
        done = CliRunner().invoke(main, line, catch_exceptions=False)
    calls: dict[CodeType | str, int] = {row.code: row.callcount for row in profile.getstats()}
    return done.exit_code, {name: calls.get(reader.__code__, 0) for name, reader in READERS.items()}


def test_every_runner_is_here() -> None:
    assert ON.keys() == RUNNERS.keys()


@pytest.mark.parametrize(
    "on", [pytest.param(on, marks=[pytest.mark.exhaustive] if on in ("qemu", "raspi4b") else []) for on in ON]
)
def test_a_replay_takes_a_trace_apart_once(on: str, machines: list[bytes]) -> None:
    for name in [GCC] * (on in ("unicorn", "qemu", "raspi4b")) + ["qemu-system-aarch64"] * (on == "qemu"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is missing")
    if on == "raspi4b":
        qemu_or_skip()
    data = s.signed(s.trace())
    status, calls = replay(data, *ON[on])
    assert calls == dict.fromkeys(READERS, 1)
    assert status == (1 if on == "linux" else 0)
    is_whole = on in ("vgpu", "unicorn", "qemu", "raspi4b")
    assert machines == ([] if is_whole else [data]), "what was judged is what is sent"


@pytest.mark.parametrize("on", ["vgpu", "unicorn"])
def test_a_damaged_trace_is_not_taken_apart_again(on: str) -> None:
    """Each part up to the damage once; the device finds it by itself."""
    if on == "unicorn" and shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is missing")
    data = bytearray(s.signed(s.trace()))
    data[-1] ^= 1
    assert replay(bytes(data), on) == (1, dict.fromkeys(READERS, 1))
    data = bytearray(s.signed(s.trace()))
    at = envelope.split(bytes(data)).offset
    data[at + Header.sizeof()] ^= 0x80  # type of the first section
    assert replay(bytes(data), on) == (1, {"envelope": 1, "header": 1, "sections": 1, "trace": 0})


def test_what_is_no_signed_trace_reaches_no_device() -> None:
    assert replay(s.signed(s.trace())[:-1], "vgpu") == (2, {"envelope": 1, "header": 0, "sections": 0, "trace": 0})
