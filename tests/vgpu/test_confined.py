# SPDX-License-Identifier: BSD-2-Clause
"""What runs foreign code is in a sandbox: hostile code in its place achieves nothing; without the sandbox it does.

The hostile code stands where the virtual GPU and ncnn are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.record import onnx_model
from host_tools.record.ncnn import cpu
from host_tools.support.sandbox import VARIABLE
from host_tools.vgpu import confined
from host_tools.vgpu.binding import follows_data
from signing.delivery import Delivery
from tests.support import attacks
from tests.support import replayer_samples as s
from tests.support.sandbox import needs
from tests.support.signing_commands import run
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

Hostile = Callable[..., Any]
Place = Callable[[Path, pytest.MonkeyPatch, Hostile], str]


def lint(_tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    monkeypatch.setattr("host_tools.audit.dynamic.follow", hostile)
    return run("lint", str(RAW), "--dynamic", status=2).output


def build(tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    monkeypatch.setattr("host_tools.api.building.build", hostile)
    return run("build", str(RAW), "-o", str(tmp / "net.gtr"), status=2).output


def note_of_build(tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    """The check of what the recording says that its jobs access."""
    monkeypatch.setattr("host_tools.passes.note_check.watched", hostile)
    return run("build", str(RAW), "-o", str(tmp / "net.gtr"), status=2).output


def report(_tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    monkeypatch.setattr("host_tools.accesses.data_flow.follow", hostile)
    return run("report", str(RAW), status=1).output  # what a run ends with is a part of it


def ncnn(tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    monkeypatch.setattr("host_tools.record.ncnn.cpu.load", hostile)
    for name in ("net.param", "net.bin"):
        (tmp / name).write_bytes(b"")
    return str(cpu.run(tmp / "net.param", tmp / "net.bin", {}))


def onnx(tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    monkeypatch.setattr("onnx.load_model_from_string", hostile)
    (tmp / "net.onnx").write_bytes(b"")
    return str(onnx_model.read(tmp / "net.onnx"))


def onnx_runtime(_tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    monkeypatch.setattr("onnxruntime.InferenceSession", hostile)
    return str(
        onnx_model.run(onnx_model.OnnxModel(b"", {}, {}, (), {}, (), ()), {"data": np.zeros(1, np.float32)})
    )


def replay(_tmp: Path, monkeypatch: pytest.MonkeyPatch, hostile: Hostile) -> str:
    monkeypatch.setattr("host_tools.runners.vgpu.VirtualGpu", hostile)
    return str(runners.run("vgpu", Delivery(s.signed(Trace.read(RAW))), s.KEY))


PLACES = (lint, build, note_of_build, report, ncnn, onnx, onnx_runtime, replay)
SOME = ("read_a_file", "write_a_file", "open_a_socket", "start_a_program", "signal_the_parent")


def cases() -> Iterator[Any]:
    """Each attack in each place; without --exhaustive one attack in each place, and what each does unconfined."""
    for at, place in enumerate(PLACES):
        for name in SOME:
            is_kept = name == SOME[at % len(SOME)]
            for mode, is_enough in (("on", is_kept), ("off", is_kept and at < len(SOME))):
                marks = [] if is_enough else [pytest.mark.exhaustive]
                yield pytest.param(place, name, mode, marks=marks, id=f"{place.__name__}-{name}-{mode}")


@pytest.mark.parametrize(("place", "name", "mode"), list(cases()))
def test_an_attack(place: Place, name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What became of it is the error's text: this comes out of every sandbox."""
    if mode == "on":
        needs(files=name in attacks.BY_FILES)
    monkeypatch.setenv(VARIABLE, mode)
    folder = attacks.prepare(tmp_path / "outside")

    try:
        said = place(tmp_path, monkeypatch, attacks.hostile(name, folder))
    except GramophoneError as error:
        said = str(error)
    assert f"the attack was {'refused' if mode == 'on' else 'done'}" in said
    assert attacks.untouched(folder) or mode == "off"


def test_the_library_is_there_before(tmp_path: Path) -> None:
    """In the sandbox nothing can be compiled."""
    assert confined.call(lambda: follows_data("v3d42"), bool) is True
    (tmp_path / "file").write_bytes(b"text")
    assert confined.call((tmp_path / "file").read_bytes, bytes, reads=(tmp_path,)) == b"text"
