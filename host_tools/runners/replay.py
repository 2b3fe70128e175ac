"""What all runners share: the caller's tensors checked against the trace's slots, and the result of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from host_tools.gpus.family import profile_of
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.vgpu.binding import executes_shaders
from signing import envelope
from tee_replayer.status import Report
from tee_replayer.target import drivers
from trace_format import layout, packing
from trace_format import profile as profiles
from trace_format.actions import Columns, Op
from trace_format.errors import GramophoneError, ProfileError, TraceError, listed
from trace_format.schema import MAX_CARVEOUT_BYTES, PAGE_BYTES, SectionType, SlotKind
from trace_format.trace import Slot, Trace

Tensor = npt.NDArray[Any]

# Beside the trace's own memory: page table of a V3D (4 MiB at most), head (1 MiB), chunk, workspace.
LOADER_BYTES = 16 << 20
FULL, NONE = "full", "none"  # ReplayResult.compute


class InputError(GramophoneError):
    """A tensor that does not fit the trace's slots."""


class RunnerError(GramophoneError):
    """The emulator itself failed: it is missing, did not end, or gave no answer."""


@dataclass(frozen=True)
class Instructions:
    """Instructions that the device's CPU executed: until the signature was good, for the rest of loading, for the
    last replay. They include waiting for the GPU."""

    verify: int
    load: int
    replay: int


@dataclass(frozen=True)
class ReplayResult:
    """What came of a replay.

    Attributes:
        ok: whether the trace was accepted and every replay went through.
        device: what it ran on, in words.
        report: what the replayer reported; counts are of the last replay.
        outputs: slot name -> tensor, after the last replay; empty unless ok.
        instructions: None where the runner cannot count.
        trace_bytes: size of the signed trace.
        compute: what the virtual GPU computes of the jobs: FULL or NONE. With NONE no shader runs: the jobs go
            through, and outputs are what was in memory.
        error: one sentence; empty when ok.
    """

    ok: bool
    device: str
    report: Report
    outputs: dict[str, Tensor]
    instructions: Instructions | None
    trace_bytes: int
    compute: str
    error: str = ""

    @property
    def jobs(self) -> int:
        """GPU jobs of one replay."""
        return self.report.jobs

    @property
    def actions(self) -> int:
        """Actions executed by the last replay."""
        return self.report.actions

    @property
    def retries(self) -> int:
        """Resets after a divergence in the last replay."""
        return self.report.retries

    @property
    def secure_bytes(self) -> int:
        """Carve-out memory in use."""
        return self.report.secure_bytes


@dataclass
class Buffer:
    """Memory for a slot: dense, in C order."""

    index: int
    slot: Slot
    data: Tensor


@dataclass
class Buffers:
    """The caller's inputs, and room for all outputs, in the order of the slots."""

    rows: list[Buffer] = field(default_factory=list)

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Slot name -> tensor."""
        return {row.slot.name: row.data for row in self.rows if row.slot.kind == SlotKind.OUTPUT}


def open_trace(signed: bytes) -> Trace | None:
    """The trace inside, for its slots alone; None when it is damaged: to refuse it is the device's part."""
    try:
        return Trace.parse(envelope.split(signed).trace)
    except TraceError:
        return None


def claimed(signed: bytes) -> dict[str, Any]:
    """The manifest of a trace that may be damaged elsewhere; empty when it cannot be read."""
    try:
        part = layout.disassemble(envelope.split(signed).trace)[1].one(SectionType.MANIFEST)
        return packing.unpack("manifest", part.stored, part.offset)
    except TraceError:
        return {}


def gpu_of(signed: bytes, gpu: str | None) -> str:
    """The virtual GPU to take: `gpu`, or else the one that the trace is for; where there is none, any will do."""
    try:
        claim = profiles.for_gpu(claimed(signed).get("gpu", -1)).name
    except ProfileError:
        claim = ""
    return gpu or (claim if claim in drivers() else DEFAULT_GPU)


def secure_bytes(trace: Trace | None, signed: bytes = b"") -> int:
    """Secure memory that a replayer may need for a trace: no less than it takes (tee_replayer/core/load.c).

    Args:
        trace: None where it is damaged; then the device must come as far as finding that out.
        signed: the file.
    """
    if trace is None:
        return min(int(claimed(signed).get("carveout_bytes", 0)), MAX_CARVEOUT_BYTES) + LOADER_BYTES
    columns = Columns(trace.actions)
    maps = columns.pages[columns.is_op(Op.MAP_GPU_MEM)]
    # Tables of four levels: 8 bytes a page, and a table begun and one ended on each level below the root.
    tables = 8 * int(maps.sum()) + len(maps) * 6 * PAGE_BYTES
    return trace.carveout_bytes + trace.actions.nbytes + tables + LOADER_BYTES


def bind(trace: Trace | None, inputs: Mapping[str, Tensor]) -> Buffers:
    """Check the inputs and make room for the outputs.

    Args:
        trace: None binds nothing.
        inputs: slot name -> tensor of the slot's type and shape; inputs left out keep the recording's value.

    Raises:
        InputError: no such input, or another type or shape.
    """
    buffers = Buffers()
    if trace is None:
        return buffers
    known = [slot.name for slot in trace.slots if slot.kind != SlotKind.OUTPUT]
    for name in inputs:
        if name not in known:
            raise InputError(f"no input {name!r}; there are: {listed(known)}")
    for index, slot in enumerate(trace.slots):
        if slot.kind == SlotKind.OUTPUT:
            buffers.rows.append(Buffer(index, slot, np.zeros(slot.shape, slot.numpy_dtype)))
        elif slot.name in inputs:
            given = np.asarray(inputs[slot.name])
            if given.shape != slot.shape or given.dtype != slot.numpy_dtype:
                raise InputError(
                    f"input {slot.name}: expected {slot.numpy_dtype} of shape {slot.shape}, "
                    f"found {given.dtype} of shape {given.shape}"
                )
            buffers.rows.append(Buffer(index, slot, np.array(given, slot.numpy_dtype, order="C")))
    return buffers


def result(
    report: Report, device: str, buffers: Buffers, instructions: Instructions | None, signed: bytes, gpu: str
) -> ReplayResult:
    """The result of a replay on the virtual GPU `gpu` that ended with `report`."""
    ok = report.ok
    return ReplayResult(
        ok=ok,
        device=device,
        report=report,
        outputs=buffers.outputs if ok else {},
        instructions=instructions,
        trace_bytes=len(signed),
        compute=FULL if executes_shaders(gpu) else NONE,
        error="" if ok else report.describe(profile_of(gpu)),
    )
