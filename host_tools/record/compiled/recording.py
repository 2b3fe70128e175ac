# SPDX-License-Identifier: BSD-2-Clause
"""Recording a plan: one run in the guest, whose tensors lie where the plan says.

The memory of inputs and outputs begins with a mark, which the CPU writes; where the recording has it, that memory
is. Nothing is looked for by values, so that tensors may hold anything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from host_tools.machine.boot import RAM_END, StoppedError, boot, qemu_version
from host_tools.machine.console import ProgramError
from host_tools.machine.errors import RecordError
from host_tools.machine.root import ready_root
from host_tools.model.noted_states import NEXT
from host_tools.model.noted_states import NOTE as STATES
from host_tools.record.compiled import runner
from host_tools.record.compiled.layout import TENSORS, Layout, Tensors
from host_tools.record.compiled.plan import Buffer, Kind
from host_tools.record.convert import convert
from host_tools.record.program import FOLDER, RESULT, GuestProgram, program_job
from host_tools.record.slots import declared, placed
from host_tools.support.progress import jobs_in, phase
from host_tools.support.version import TOOL
from host_tools.vgpu.build import qemu_plugin
from trace_format.schema import MAX_RANK, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

TYPES = {dtype.name.lower(): dtype for dtype in DType} | {"bool": DType.UINT8}  # 0 and 1


def record_plan(
    layout: Layout,
    shaders: Sequence[bytes],
    inputs: Tensors,
    *,
    name: str,
    gpu: str,
    timeout: float,
    snapshot: str = "",
    notes: Mapping[str, Any],
    results: bool = True,
) -> tuple[Trace, dict[str, Any]]:
    """Run a plan in the guest through the unmodified driver, and record the GPU.

    Args:
        layout: of the plan.
        shaders: SPIR-V of its kernels.
        inputs: values of the recorded run, by name.
        name, gpu, timeout, snapshot: as for `record_network`.
        notes: more of them for the trace.
        results: the guest sends what it computed, through its serial port: a minute for 2 MB on a busy machine.

    Returns:
        A raw trace with slots, and the outputs that the guest computed; without `results`, none.

    Raises:
        RecordError: the driver refuses a kernel, no job reached the GPU, a fault, or the mark is not found.
    """
    how: dict[str, Any] = {"name": name, "gpu": gpu, "timeout": timeout, "snapshot": snapshot, "notes": notes}
    trace, files = _run(layout, shaders, inputs, results=results, **how)
    left = files.get(f"{RESULT}0", b"")
    if results and len(left) != layout.sizes[TENSORS]:
        raise RecordError(f"the guest left no file {runner.RESULT} of {layout.sizes[TENSORS]} bytes in {FOLDER}")
    if states := layout.plan.named(Kind.STATE):
        trace = trace.with_(notes={**trace.notes, STATES: {name: NEXT + name for name in states}})
    with phase("naming inputs and outputs"):
        trace = declared(trace, layout.mark, lambda address: _slots(layout, address))
    return trace, layout.results(left) if results else {}


def run_plan(
    layout: Layout, shaders: Sequence[bytes], *, gpu: str, timeout: float, snapshot: str, what: str
) -> Trace:
    """Run a plan without inputs once, for what it costs.

    Its outputs are slots of the trace, and a replay has their values: the guest, which would send them through its
    serial port, does not.

    Args:
        layout, shaders, gpu, timeout, snapshot: as for `record_plan`.
        what: what to call it.

    Raises:
        RecordError: as `record_plan`.
    """
    how: dict[str, Any] = {"name": "candidates", "gpu": gpu, "timeout": timeout, "snapshot": snapshot, "notes": {}}
    trace, _ = _run(layout, shaders, {}, results=False, what=what, **how)
    return placed(trace, layout.mark, lambda address: _slots(layout, address))


def _run(
    layout: Layout,
    shaders: Sequence[bytes],
    inputs: Tensors,
    *,
    name: str,
    gpu: str,
    timeout: float,
    snapshot: str,
    notes: Mapping[str, Any],
    results: bool,
    what: str = "recording the compiled network",
) -> tuple[Trace, dict[str, bytes]]:
    """The recording without slots, and the files that the guest left, if they are wanted."""
    root = ready_root(snapshot)
    plugin = qemu_plugin()
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        files = []
        for file, data in runner.files(layout, shaders, inputs).items():
            files.append(Path(folder) / file)
            files[-1].write_bytes(data)
        program = GuestProgram(
            runner.for_guest(root),
            [runner.PLAN, runner.CONSTANTS, runner.TENSORS, runner.RESULT],
            files,
            results={"tensors": runner.RESULT} if results else {},
        )
        capture = Path(folder) / "capture"
        progress = Path(folder) / "progress"
        with phase(what, jobs_in(progress, len(layout.plan.calls))):
            try:
                arguments = {"capture": str(capture), "progress": str(progress)}
                result = boot(program_job(root, program, gpu), root, plugin, arguments, timeout=timeout)
            except StoppedError as error:
                calls = layout.plan.calls
                at = f"kernel {calls[error.jobs].name}, " if error.jobs < len(calls) else ""
                raise RecordError(f"{at}dispatch {error.jobs + 1} of {len(calls)}: {error}") from error
            except ProgramError as error:
                said = " | ".join(error.output.strip().splitlines()[-3:])
                raise RecordError(f"the guest cannot run the compiled network: {said}") from error
        meta = {"name": name, "recorder": TOOL, "kernel": root.kernel_name, "driver": root.driver_name}
        trace = convert(capture, ram_end=RAM_END, meta=meta, notes={**root.notes, "qemu": qemu_version(), **notes})
    return trace, result.files


def _slots(layout: Layout, address: int) -> list[Slot]:
    """The slots, if the tensors' memory begins at a GPU address."""
    found = []
    for kind, direction, begin in (
        (Kind.INPUT, SlotKind.INPUT, ""),
        (Kind.STATE, SlotKind.INPUT, ""),
        (Kind.OUTPUT, SlotKind.OUTPUT, ""),
        (Kind.STATE, SlotKind.OUTPUT, NEXT),
    ):
        for name, at in layout.plan.named(kind).items():
            buffer = layout.plan.buffers[at]
            shape = slot_shape(buffer)
            size = np.dtype(buffer.dtype).itemsize
            strides = tuple(int(np.prod(shape[axis + 1 :], dtype=np.int64)) * size for axis in range(len(shape)))
            place = address + layout.places[at][1]
            bound = direction == SlotKind.INPUT
            found.append(Slot(begin + name, direction, TYPES[buffer.dtype], shape, strides, place, bound=bound))
    return found


def slot_shape(buffer: Buffer) -> tuple[int, ...]:
    """A tensor's shape as a slot has it: of one dimension at least, the outermost joined if they are too many."""
    shape = buffer.shape or (1,)
    joined = len(shape) - MAX_RANK + 1
    return shape if joined <= 1 else (int(np.prod(shape[:joined])), *shape[joined:])
