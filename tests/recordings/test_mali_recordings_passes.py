# SPDX-License-Identifier: BSD-2-Clause
"""The passes for job managers on the GPUReplay recordings: jobs find what they found, in less memory."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support.mali_watch import Reference
from trace_format.trace import Trace

# Signed bytes at most: what xz -9e makes of the recording's four files.
RECORDINGS = {"mnist": 27_532, "alexnet": 83_452, "mobilenet": 46_676}
JOB_MANAGER = ("power-states", "status-reads", "flush-ids", "address-spaces")
# AlexNet's 618 MiB take seconds a pass: of those the ones over memory that treat a job manager otherwise.
# MobileNet has the kinds of jobs that MNIST has, and more of them.
OTHERS = pytest.mark.exhaustive
ALONE: list[Any] = [("mnist", step) for step in PASSES]
ALONE += [pytest.param("mobilenet", step, marks=OTHERS) for step in PASSES]
ALONE += [pytest.param("alexnet", step, marks=OTHERS) for step in ("dead-memory", "plan-memory")]
# Without `volatile` no recording replays elsewhere: counters and a feature word (COHERENCY_FEATURES) differ.
# With `make test` those over memory and weights are left out; all of them by tests/vgpu/test_mali_passes.py.
KEPT = {"constants", "dead-memory", "plan-memory", "preparation", "relocate"}
WITHOUT: list[Any] = [
    pytest.param("mnist", step, marks=() if step in KEPT else OTHERS) for step in PASSES if step != "volatile"
]
WITHOUT += [pytest.param("mobilenet", step, marks=OTHERS) for step in PASSES if step != "volatile"]
WITHOUT += [pytest.param("alexnet", "plan-memory", marks=OTHERS)]


@functools.cache
def raw(folder: Path) -> Trace:
    return import_gpureplay(folder, folder.name)


@functools.cache
def reference(folder: Path) -> Reference:
    """The recording as it is, except what no replay can repeat: counters compared, polls of another machine."""
    trace = raw(folder)
    for step in ("volatile", "polls"):
        trace = PASSES[step](trace)
    return Reference(trace)


@pytest.fixture
def folder(recordings: Path, name: str) -> Path:
    return recordings / name


@pytest.mark.parametrize(
    ("name", "most"),
    [pytest.param(*row, marks=() if row[0] == "mnist" else OTHERS) for row in RECORDINGS.items()],
)
def test_built(folder: Path, name: str, most: int) -> None:
    before, after = reference(folder), build(raw(folder))
    assert len(sign_trace(after.build(), FileSigner(generate(Algorithm.ES256)))) <= most
    assert before.difference(after) == ""
    again = build(after)
    assert again.actions.tolist() == after.actions.tolist()
    assert (again.image == after.image, again.carveout_bytes) == (True, after.carveout_bytes)


# Which pages jobs access shows when they run: AlexNet's take a minute.
@pytest.mark.parametrize(
    "name", ["mnist", *(pytest.param(name, marks=OTHERS) for name in ("alexnet", "mobilenet"))]
)
def test_what_shares_memory(folder: Path) -> None:
    before = reference(folder)
    assert before.accessed is not None
    assert before.conflicts(before.trace) == []
    assert before.conflicts(build(raw(folder))) == []


@pytest.mark.parametrize(
    "name", ["mnist", *(pytest.param(name, marks=OTHERS) for name in ("alexnet", "mobilenet"))]
)
def test_what_is_compared(folder: Path, name: str) -> None:
    """All kinds of descriptors, their headers whole."""
    before = reference(folder)
    kinds = {part.what for job in before.jobs for part in job}
    assert {"header", "compute job", "renderer state", "shader", "uniform buffer", "thread storage"} <= kinds
    assert all(known.all() for job in before.known for part, known in job.items() if part.what == "header")


@pytest.mark.parametrize(("name", "step"), ALONE)
def test_a_pass_alone(folder: Path, name: str, step: str) -> None:
    before = reference(folder)
    after = PASSES[step](before.trace)
    assert before.difference(after) == ""
    assert before.conflicts(after) == []


@pytest.mark.parametrize(
    "name", ["mnist", *(pytest.param(name, marks=OTHERS) for name in ("alexnet", "mobilenet"))]
)
def test_the_passes_over_registers_alone(folder: Path) -> None:
    before = reference(folder)
    for step in JOB_MANAGER:
        after = PASSES[step](before.trace)
        assert len(after.actions) < len(before.trace.actions), step
        assert before.difference(after, runs=2) == "", step


@pytest.mark.parametrize(("name", "step"), WITHOUT)
def test_one_pass_left_out(folder: Path, name: str, step: str) -> None:
    after = build(raw(folder), skip=[step])
    assert reference(folder).difference(after) == ""
    assert reference(folder).conflicts(after) == []
