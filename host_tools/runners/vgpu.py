# SPDX-License-Identifier: BSD-2-Clause
"""Replays on the virtual GPU in a process of its own: the host build of the replayer's core, with no emulator."""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from host_tools.families.family import part_of, profile_of
from host_tools.families.streams import Streams
from host_tools.model.parts import named
from host_tools.runners import libraries
from host_tools.runners.buffers import Buffers, bound
from host_tools.runners.needs import decryption_for, gpu_of, is_streamed, secure_bytes
from host_tools.runners.replay import ReplayResult, result
from host_tools.runners.requests import SeriesRequest, TroubleRequest
from host_tools.support.cache import cache_dir
from host_tools.vgpu import binding, confined
from host_tools.vgpu.binding import VgpuError, VirtualGpu
from signing.trust import Policy
from signing.trust_verdict import Judge
from tee_replayer.generator import amalgamate, gpu_firmware, hostlib
from tee_replayer.generator.gpu_firmware import GpuFirmware
from tee_replayer.generator.status import ReplayError, Report
from trace_format import networks
from trace_format.profile import Profile
from trace_format.schema import MAX_NETWORKS
from trace_format.trace import Trace

CARVEOUT_PHYS = 0x1_0000_0000
PLATFORM = "vgpu"  # as trust policies name it
DEVICE = "virtual GPU, replayer on the host"


@dataclass(frozen=True, kw_only=True)
class VgpuRequest(SeriesRequest, TroubleRequest):
    """What it takes.

    Attributes:
        network: of a joint trace, the one to replay; None: it is no joint trace.
    """

    network: str | None = None

    @cached_property
    def trace(self) -> Trace | None:
        """What is replayed: the trace, or its network."""
        trace = self.delivery.trace
        return named(trace, self.network) if trace is not None and self.network is not None else trace


REQUEST = VgpuRequest


def replay(request: VgpuRequest) -> ReplayResult:
    """As Runner.

    Raises:
        VgpuError: the trace needs something that the virtual GPU does not model.
        ValueError: no ES256 key.
    """
    delivery = request.delivery
    gpu = gpu_of(delivery, request.gpu)
    buffers = bound(request)
    binding.VirtualGpu(gpu, threads=1).close()  # an unknown name is an error before anything is compiled for it
    crypto = libraries.source(request.bearssl, request.aws_lc)
    most = MAX_NETWORKS if request.network is not None else 0
    profile, has_policy = profile_of(gpu), isinstance(request.key, Policy)
    more = (amalgamate.HAS_STREAMING,) if is_streamed(delivery) else ()
    folder = cache_dir("replayer")
    firmware = stand_in(profile)
    built = hostlib.build(profile, crypto, folder, trust=has_policy, networks=most, macros=more, firmware=firmware)
    return confined.call(lambda: _replay(request, gpu, profile, buffers, built), ReplayResult, reads=(built,))


def stand_in(profile: Profile) -> GpuFirmware | None:
    """What stands in for the firmware of a GPU that has some; None: it has none."""
    streams = part_of(profile, Streams)
    return gpu_firmware.read(streams.firmware(), "the stand-in") if streams else None


def _load(replayer: hostlib.HostReplayer, request: VgpuRequest) -> Report:
    data, anchor = request.delivery.data, request.key
    if isinstance(anchor, Policy):
        where = Judge(PLATFORM, request.device_id)
        return replayer.load_trusted(data, anchor.raw, where, request.min_security_version)
    return replayer.load(data, anchor, request.min_security_version)


def _select(replayer: hostlib.HostReplayer, request: VgpuRequest) -> int:
    """Choose the network that is asked for; the index of its first slot."""
    trace = request.delivery.trace
    if trace is None or request.network is None:
        return 0
    index = networks.find(trace.networks, request.network)
    replayer.select(index)
    return trace.networks[index].first_slot


def _replay(request: VgpuRequest, gpu: str, profile: Profile, buffers: Buffers, built: Path) -> ReplayResult:
    delivery = request.delivery
    carveout = mmap.mmap(-1, secure_bytes(delivery))
    memory = {CARVEOUT_PHYS: carveout}
    seconds: list[float] = []
    with VirtualGpu(
        gpu, memory, latency_ns=request.latency_ns, hang_job=request.hang_job, fault_job=request.fault_job
    ) as device:
        replayer = hostlib.HostReplayer(built, profile, device.c_interface, carveout, CARVEOUT_PHYS)
        replayer.decrypts_with(None, decryption_for(delivery).fleet_key or None)
        try:
            report = _load(replayer, request)
            first = _select(replayer, request)
            for number in range(request.repeat):
                for row in buffers.rows:
                    if number == 0 or row.replays:
                        replayer.bind(first + row.index, row.of(number))
                began = time.perf_counter()
                report = replayer.run()
                seconds.append(time.perf_counter() - began)
        except ReplayError as error:
            report = error.report
        if device.error is not None:
            raise VgpuError(device.error)
        replayer.unload()
    found = result(report, DEVICE, buffers.outputs, None, delivery, gpu)
    return replace(found, seconds=tuple(seconds))
