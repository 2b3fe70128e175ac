# SPDX-License-Identifier: BSD-2-Clause
"""Debian's panthor, its own firmware file and PanVK on the virtual Mali-G610: ncnn's LeNet, twice."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.machine import placements
from host_tools.machine.boot import boot
from host_tools.machine.console import GuestResult
from host_tools.machine.root import RecordRoot
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn.job import ncnn_job, ncnn_result
from host_tools.vgpu.build import qemu_plugin
from tests.support import networks, panthor

DISPATCHES = 14


def run(root: RecordRoot, *, reference: bool) -> GuestResult:
    param, weights = networks.network(networks.LENET)
    job = ncnn_job(param, weights, {"data": networks.picture(networks.LENET)}, reference=reference)
    return boot(panthor.on_g610(job), root, qemu_plugin())


def test_ncnn_on_a_mali_whose_jobs_a_microcontroller_queues(
    root: RecordRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(placements.PLACEMENTS, panthor.GPU, panthor.PLACEMENT)
    first, second = run(root, reference=True), run(root, reference=True)
    assert "mali-g610 id 0xa867" in first.dmesg
    assert "CSF FW v1.1.0" in first.dmesg
    answer = ncnn_result(first.files)
    assert answer.versions["device"] == "Mali-G610"
    found, wanted = answer.outputs["prob"], answer.reference["prob"]
    assert relative_difference(found, wanted) <= 1e-5
    assert np.isfinite(found).all()
    assert first.counters["jobs"] == DISPATCHES
    assert (first.files, first.counters) == (second.files, second.counters)
