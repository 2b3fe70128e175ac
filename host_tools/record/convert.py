# SPDX-License-Identifier: BSD-2-Clause
"""From a capture of the recorder in the device to a raw trace.

Nothing is left out: every register access, interrupt and memory change stands in the raw trace, in order (of a
Mali: until its driver closes down, gpus/mali/panfrost.py). Of a GPU with command streams neither register accesses
nor interrupts are in it, but calls of streams.

Of a V3D, carve-out offsets are the guest's physical addresses, so that the carve-out reaches from 0 to the end of
the guest's RAM; the image must end below the RAM. Of a Mali, memory gets a new layout after the image: what is
consecutive for the GPU is so in the carve-out too, for passes take that for one buffer (build/job_chains.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from host_tools.families.conversion import CallConversion
from host_tools.families.family import family_of, profile_of
from host_tools.machine.errors import RecordError
from host_tools.record.building import Builder
from host_tools.record.called_jobs import CalledJobs
from host_tools.record.list_marks import mark_lists
from host_tools.record.register_jobs import RegisterJobs
from host_tools.vgpu import capture
from trace_format import layout
from trace_format.trace import Trace


def convert(path: Path, *, ram_end: int, meta: dict[str, Any], notes: dict[str, Any]) -> Trace:
    """Turn a capture into a raw trace.

    Args:
        path: the capture.
        ram_end: first physical address after the guest's RAM, in bytes.
        meta: texts of the manifest (name, recorder, kernel, driver, framework).
        notes: provenance for people.

    Raises:
        RecordError: no compute job was submitted, or the GPU failed, faulted or hung while recording.
        TraceError: a damaged capture, or register accesses that cannot be replayed.
    """
    builder = _builder(path, ram_end)
    with layout.naming(str(path)):
        for at, event in capture.read_records(path):
            builder.take(at, event)
    end = builder.end
    if end is None or end.failed:
        raise RecordError(f"{path}: the virtual GPU failed while recording")
    if end.counters["faults"]:
        raise RecordError(f"{path}: the GPU raised {end.counters['faults']} MMU faults while recording")
    if builder.jobs == 0:
        raise RecordError(f"{path}: no GPU job was submitted; the program may have used the CPU")
    if builder.jobs != end.counters["jobs"]:
        raise RecordError(
            f"{path}: {builder.jobs} jobs were started, {end.counters['jobs']} completed: others failed or hung"
        )
    with layout.naming(str(path)):
        actions, image, carveout_bytes = builder.finish()
    trace = Trace(
        gpu=builder.gpu.name,
        actions=actions,
        image=image,
        carveout_bytes=carveout_bytes,
        va_bytes=1 << builder.gpu.mmu["va_bits"],
        meta={**builder.registers.meta, **meta},
        notes=notes,
        raw=True,
    )
    return mark_lists(trace)


def _builder(path: Path, ram_end: int) -> Builder:
    gpu = profile_of(capture.read_header(path).gpu)
    registers = family_of(gpu).conversion(gpu)
    if isinstance(registers, CallConversion):
        return CalledJobs(gpu, registers, ram_end)
    return RegisterJobs(gpu, registers, ram_end)
