"""Replays on the virtual GPU in this process: the host build of the replayer's core, no emulator in between."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path

from host_tools.gpus.family import profile_of
from host_tools.runners import bearssl
from host_tools.runners.replay import (
    ReplayResult,
    Tensor,
    bind,
    gpu_of,
    open_trace,
    result,
    secure_bytes,
)
from host_tools.support.cache import cache_dir
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from signing.keys import PublicKey
from tee_replayer import hostlib
from tee_replayer.status import ReplayError

CARVEOUT_PHYS = 0x1_0000_0000
DEVICE = "virtual GPU, replayer on the host"


def library(gpu: str = DEFAULT_GPU) -> Path:
    """The host build of the replayer for a GPU, from the cache."""
    return hostlib.build(profile_of(gpu), bearssl.source(), cache_dir("replayer"))


def replay(
    signed: bytes,
    key: PublicKey,
    inputs: Mapping[str, Tensor] | None = None,
    *,
    gpu: str | None = None,
    repeat: int = 1,
    min_security_version: int = 0,
    latency_ns: int = 0,
    hang_job: int = 0,
    fault_job: int = 0,
) -> ReplayResult:
    """Verify, load and replay a signed trace.

    Args:
        signed: the file.
        key: whose traces are accepted; an ES256 key.
        inputs: slot name -> tensor; those left out keep the recording's value.
        gpu: the virtual GPU; without it that of the trace.
        repeat: replays in a row; the outputs are the last one's.
        min_security_version: older traces are refused.
        latency_ns: how long the virtual GPU takes for what takes time.
        hang_job, fault_job: test aids: the compute job (from 1) that never completes, or faults.

    Raises:
        InputError: a tensor does not fit.
        VgpuError: the trace asks the virtual GPU for something that it does not model.
        ValueError: no ES256 key.
    """
    trace = open_trace(signed)
    gpu = gpu_of(signed, gpu)
    buffers = bind(trace, inputs or {})
    carveout = mmap.mmap(-1, secure_bytes(trace, signed))
    memory = {CARVEOUT_PHYS: carveout}
    with VirtualGpu(gpu, memory, latency_ns=latency_ns, hang_job=hang_job, fault_job=fault_job) as device:
        replayer = hostlib.HostReplayer(library(gpu), profile_of(gpu), device.c_interface, carveout, CARVEOUT_PHYS)
        try:
            report = replayer.load(signed, key, min_security_version)
            for row in buffers.rows:
                replayer.bind(row.index, row.data)
            for _ in range(repeat):
                report = replayer.run()
        except ReplayError as error:
            report = error.report
        if device.error is not None:
            raise VgpuError(device.error)
        replayer.unload()
    return result(report, DEVICE, buffers, None, signed, gpu)
