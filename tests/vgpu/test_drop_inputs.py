# SPDX-License-Identifier: BSD-2-Clause
"""`build --drop-inputs`: the recorded input is left out, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.model.equivalence import difference
from host_tools.model.observe import random_inputs
from host_tools.passes.pipeline import build
from host_tools.runners.replay import ReplayRequest
from signing.sign import sign_trace
from tests.support.signing_samples import ES256
from trace_format.actions import Columns, Op
from trace_format.schema import SlotKind
from trace_format.trace import Trace


@pytest.fixture(scope="module")
def kept() -> Trace:
    return build(Trace.read(RAW))


@pytest.fixture(scope="module")
def dropped() -> Trace:
    return build(Trace.read(RAW), keep_inputs=False)


def test_a_given_input_gives_the_same(kept: Trace, dropped: Trace) -> None:
    assert difference(kept, dropped, random_inputs(kept, seed=5)) == ""


def test_only_the_input_is_gone(kept: Trace, dropped: Trace) -> None:
    (slot,) = (slot for slot in dropped.slots if slot.kind == SlotKind.INPUT)
    (before,) = (slot for slot in kept.slots if slot.kind == SlotKind.INPUT)
    assert (before.bound, slot.bound) == (True, False)
    uploaded = [int(Columns(t.actions).bytes[Columns(t.actions).is_op(Op.UPLOAD)].sum()) for t in (kept, dropped)]
    assert uploaded[0] - uploaded[1] == slot.numpy_dtype.itemsize * 28 * 28
    assert len(kept.build()) - len(dropped.build()) > 2000  # compressed: most of the picture is black


def test_a_device_refuses_to_replay_without_it(dropped: Trace) -> None:
    signed = sign_trace(dropped.build(), ES256)
    result = runners.run("vgpu", ReplayRequest(signed, ES256.public, random_inputs(dropped, seed=5)))
    assert result.ok
    result = runners.run("vgpu", ReplayRequest(signed, ES256.public))
    assert not result.ok
    assert "given no data" in result.error


def test_the_command_says_what_must_be_given(tmp_path: Path) -> None:
    line = ["build", str(RAW), "-o", str(tmp_path / "net.gtr"), "--drop-inputs"]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "a replay must be given: data"
