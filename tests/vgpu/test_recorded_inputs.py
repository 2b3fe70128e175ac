# SPDX-License-Identifier: BSD-2-Clause
"""Inputs that were recorded are left out of a built trace, and nothing else changes; `build --keep-inputs`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools import runners
from host_tools.accesses.observe import random_inputs
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.model.equivalence import difference
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import KEEP_INPUTS, build
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support.signing_samples import ES256
from trace_format.actions import Columns, Op
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Trace


@pytest.fixture(scope="module")
def kept() -> Trace:
    return build(Trace.read(RAW), skip=KEEP_INPUTS)


@pytest.fixture(scope="module")
def dropped() -> Trace:
    return build(Trace.read(RAW))


def test_a_given_input_gives_the_same(kept: Trace, dropped: Trace) -> None:
    assert difference(kept, dropped, random_inputs(kept, seed=5), replays=2) == ""


def test_only_the_input_is_gone(kept: Trace, dropped: Trace) -> None:
    (slot,) = (slot for slot in dropped.slots if slot.kind == SlotKind.INPUT)
    (before,) = (slot for slot in kept.slots if slot.kind == SlotKind.INPUT)
    assert (before.bound, slot.bound) == (True, False)
    uploaded = [int(Columns(t.actions).bytes[Columns(t.actions).is_op(Op.UPLOAD)].sum()) for t in (kept, dropped)]
    assert uploaded[0] - uploaded[1] == slot.numpy_dtype.itemsize * 28 * 28
    assert len(kept.build()) - len(dropped.build()) > 2000  # compressed
    assert kept.carveout_bytes - dropped.carveout_bytes >= PAGE_BYTES


def test_a_device_refuses_to_replay_without_it(dropped: Trace) -> None:
    signed = sign_trace(dropped.build(), ES256)
    result = runners.run("vgpu", Delivery(signed), ES256.public, random_inputs(dropped, seed=5))
    assert result.ok
    result = runners.run("vgpu", Delivery(signed), ES256.public)
    assert not result.ok
    assert "given no data" in result.error


def test_it_can_be_built_again(kept: Trace, dropped: Trace) -> None:
    again = build(dropped)
    assert difference(kept, again, random_inputs(kept, seed=5)) == ""
    assert [slot.bound for slot in again.slots] == [False, False]


def test_memory_that_is_mapped_again_between_jobs_keeps_it(kept: Trace) -> None:
    """What passes over memory do not change, they leave as it is."""
    rows = kept.actions
    remap = rows[Columns(rows).is_op(Op.MAP_GPU_MEM)][:1].copy()
    remap["b"] += 1
    last = int(np.flatnonzero(Columns(rows).is_op(Op.JOB))[-1])
    moving = kept.with_(actions=np.concatenate([rows[:last], remap, rows[last:]]))
    assert PASSES[KEEP_INPUTS[0]](moving) is moving


@pytest.mark.parametrize("keep", [False, True])
def test_the_command_says_what_must_be_given(keep: bool, kept: Trace, dropped: Trace, tmp_path: Path) -> None:
    line = ["build", str(RAW), "-o", str(tmp_path / "net.gtr"), *["--keep-inputs"][:keep]]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert (done.stdout.splitlines()[-1] == "inputs required at replay: data") == (not keep)
    assert np.array_equal(Trace.read(tmp_path / "net.gtr").actions, (kept if keep else dropped).actions)


def test_the_command_says_that_it_is_built_already(dropped: Trace, tmp_path: Path) -> None:
    built = tmp_path / "net.gtr"
    built.write_bytes(dropped.build())
    for source, said in ((RAW, 0), (built, 1)):
        done = CliRunner().invoke(main, ["build", str(source), "-o", str(tmp_path / "again.gtr")])
        assert done.exit_code == 0, done.output
        assert done.stderr.count(f"warning: {source} is built already") == said
