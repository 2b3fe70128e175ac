# SPDX-License-Identifier: BSD-2-Clause
"""Debian's panthor, its firmware file and PanVK on the virtual Mali-G610: ncnn's LeNet, twice, and recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.gpus.mali_csf.judging import flaws
from host_tools.machine.boot import RAM_END, GuestJob, boot
from host_tools.machine.console import GuestResult
from host_tools.machine.root import RecordRoot
from host_tools.passes.pipeline import build
from host_tools.record.convert import convert
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn.job import ncnn_job, ncnn_result
from host_tools.vgpu.build import qemu_plugin
from tests.support import networks
from tests.support.guest_programs import SHADER, record
from trace_format.actions import Op
from trace_format.errors import TraceError
from trace_format.trace import Trace

GPU = "mali_g610"
CALLS = 12  # of streams, on three queues; those with dispatches have 14


def run(root: RecordRoot, capture: Path) -> GuestResult:
    param, weights = networks.network(networks.LENET)
    job = ncnn_job(param, weights, {"data": networks.picture(networks.LENET)}, reference=True, gpu=GPU)
    return boot(job, root, qemu_plugin(), {"capture": str(capture)})


def test_ncnn_on_a_mali_whose_jobs_a_microcontroller_queues(root: RecordRoot, tmp_path: Path) -> None:
    captures = [tmp_path / f"{number}.cap" for number in range(2)]
    first, second = (run(root, capture) for capture in captures)
    assert "mali-g610 id 0xa867" in first.dmesg
    assert "CSF FW v1.1.0" in first.dmesg
    answer = ncnn_result(first.files)
    assert answer.versions["device"] == "Mali-G610"
    found, wanted = answer.outputs["prob"], answer.reference["prob"]
    assert relative_difference(found, wanted) <= 1e-5
    assert np.isfinite(found).all()
    assert first.counters["jobs"] == CALLS
    assert (first.files, first.counters) == (second.files, second.counters)
    assert captures[0].read_bytes() == captures[1].read_bytes()
    raw = convert(captures[0], ram_end=RAM_END, meta={"name": "lenet"}, notes={})
    ops = {Op(op) for op in raw.actions["op"]}
    memory = {Op.SET_GPU_PGTABLE, Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM, Op.UPLOAD, Op.CLEAR}
    assert ops == memory | {Op.REPLAY_START, Op.JOB, Op.RUN_STREAM}
    assert raw.jobs == CALLS


def test_a_shader_that_asks_how_large_a_buffer_is(root: RecordRoot, vadd: Path) -> None:
    """The size is loaded of the descriptor, by the table of tables."""
    files = {"job/vadd": vadd.read_bytes(), "job/vadd.spv": SHADER.read_bytes()}
    job = GuestJob("/job/vadd /job/vadd.spv 3000 1", files, frozenset({"job/vadd"}), GPU)
    assert "0 of 3000 sums are wrong" in boot(job, root, qemu_plugin()).output


def test_queues_that_wait_for_each_other(vadd: Path, tmp_path: Path) -> None:
    """They are recorded. No order of whole calls meets their waits, so no straight streams are made of them."""
    record("-o", tmp_path / "out.gtr", "--gpu", GPU, "--", vadd, SHADER, 3000)
    with pytest.raises(TraceError, match="a wait that would block"):
        build(Trace.read(tmp_path / "out.gtr"))


def test_a_network_is_recorded_built_and_replayed(root: RecordRoot, shared_folder: Path) -> None:
    """`record ncnn` has compared a replay of what it built with ncnn's CPU code."""
    raw = networks.recorded(networks.LENET, shared_folder, GPU)
    assert [slot.name for slot in raw.slots[:2]] == ["data", "prob"]
    assert not list(flaws(raw))
    assert raw.jobs == 1
