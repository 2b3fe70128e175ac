# SPDX-License-Identifier: BSD-2-Clause
"""Recording an ncnn network: three runs of the unmodified stack, compared, become one raw trace with slots."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from host_tools.machine.boot import BOOT_TIMEOUT_S, RAM_END, GuestJob, boot, qemu_version
from host_tools.machine.console import ProgramError
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot, ready_root
from host_tools.passes.pipeline import build
from host_tools.record.checking import LEFT_OUT, UNCHECKED, check_replay
from host_tools.record.convert import convert
from host_tools.record.differences import relative_difference
from host_tools.record.handed_over import HandedOver
from host_tools.record.inputs import Tensors, held_out, telling_inputs
from host_tools.record.job_layers import name_jobs
from host_tools.record.layouts import of_ncnn
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.cpu_layers import CpuEnd
from host_tools.record.ncnn.job import Float32, NcnnResult, ncnn_job, ncnn_result
from host_tools.record.ncnn.layer_results import layer_results
from host_tools.record.ncnn.model_weights import ModelWeights
from host_tools.record.operating import check_operators, with_operators
from host_tools.record.operating_between import with_operators_between
from host_tools.record.preflight import Checked, NetworkError, preflight, refuse_without_ncnn
from host_tools.record.shader_cache import with_shader_cache
from host_tools.record.slots import CpuWork, with_slots
from host_tools.record.tolerances import default_tolerance
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.progress import jobs_in, phase
from host_tools.support.version import TOOL
from host_tools.vgpu.build import qemu_plugin
from trace_format.trace import Trace

RUNS = 3  # the weights with one input, with another, and other weights with the first


@dataclass(frozen=True)
class Machine:
    """What a run takes: its number (from 1), machine, folder for the capture, GPU, time limit in seconds."""

    number: int
    root: RecordRoot
    plugin: Path
    folder: Path
    gpu: str
    timeout: float


@dataclass(frozen=True)
class Network:
    """What a run has: ncnn's files, weights for a run that is not recorded, outputs (empty: all), options."""

    param: bytes
    weights: bytes
    blank: bytes
    until: Sequence[str]
    options: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One run: what makes a trace without slots of its capture, its inputs and what the guest computed."""

    trace: Callable[[], Trace]
    inputs: dict[str, Float32]
    result: NcnnResult


def record_network(
    param: bytes,
    weights: bytes,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    name: str,
    until: Sequence[str] = (),
    gpu: str = DEFAULT_GPU,
    fp16: bool = False,
    tolerance: float | None = None,
    timeout: float = BOOT_TIMEOUT_S,
    snapshot: str = "",
    check: bool = True,
    checked: Checked | None = None,
    values: Mapping[str, Float32] | None = None,
    expected_to: Path | None = None,
) -> Trace:
    """Record one inference of a network; layers that ncnn computes on the CPU become operators.

    Args:
        param, weights: ncnn's text and binary files.
        shapes: shape of each input blob (channels, height, width), no batch dimension.
        name: name of the trace.
        until: blobs to compute, which become the outputs; empty: all outputs of the network.
        fp16: the GPU keeps weights and activations in half precision; inputs and outputs are float32.
        tolerance: largest difference to ncnn's CPU result, relative to the largest value; None: TOLERANCE, or what
            int8 weights, `fp16` or a cast to half precision allow. The CPU computes in float32 what is not int8.
        timeout: time limit of each run, in seconds.
        snapshot: of Debian's archive that the guest's packages are of; "" for the newest.
        check: build and replay what was recorded with an input of its own, and compare with ncnn's CPU result.
        checked: what `preflight` says of these files; None: it is asked here.
        values: of inputs, for the recorded run; the others are random. Values that are alike may keep their
            place in memory from being found.
        expected_to: as `check_replay`.

    Raises:
        NetworkError: ncnn cannot run it, or an output is the same for all inputs.
        RecordError: no GPU job, a hang or fault, a result or a replay that differs from ncnn's CPU result, a job
            stream that depends on the data, or tensors that cannot be found in memory.
    """
    refuse_without_ncnn(gpu)
    checked = checked or preflight(param, weights, shapes, until)
    found, end = checked.weights, checked.end
    options = program_options(found, fp16)
    tolerance = default_tolerance(options, checked.halves) if tolerance is None else tolerance

    def compute(inputs: Tensors) -> Tensors:
        return ncnn_cpu.run_files((param, found.data), inputs, end.until)

    inputs = telling_inputs(shapes, compute, set(end.until) - set(end.outputs), values or {})
    root = ready_root(snapshot)
    plugin = qemu_plugin()
    network = Network(param, found.data, found.blank(), end.asked, options)
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder, ThreadPoolExecutor(2) as pool:
        machines = [Machine(number, root, plugin, Path(folder), gpu, timeout) for number in range(1, RUNS + 1)]
        jobs = [
            pool.submit(_record, machine, replace(network, weights=w), x, name)
            for machine, (w, x) in zip(machines, plans(found, inputs), strict=True)
        ]
        try:
            runs = [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what fails once fails three times
            raise
        for run in runs:
            check_result(run.result, tolerance)
        constants = _constants(end, *runs[:2])
        trace = _with_slots(runs, end, constants)
    name_jobs(trace, lambda: layer_results((param, found.data), end.until, runs[0].inputs), runs[0].inputs)
    trace.notes |= _notes(weights, options)
    tested = [(run.inputs, run.result.outputs) for run in runs[:2]]
    if check:
        cases = [(given, _without(expected, constants)) for given, expected in held_out(shapes, compute)]
        tensors = check_replay(trace, cases, tolerance, "ncnn's CPU result", expected_to)
        for (given, expected), left in zip(cases, tensors, strict=True):
            tested.append((given, {name: left[name].reshape(x.shape) for name, x in expected.items()} | constants))
    else:
        trace.notes[UNCHECKED] = LEFT_OUT
    if end.steps:
        trace = with_operators(trace, end, constants)
        built = build(trace, trust_note=True, timeout_margin=None) if check else trace
        check_operators(built, end, (param, found.data), tested)
    return trace


def _notes(weights: bytes, options: Sequence[str]) -> dict[str, object]:
    """Of the weights' file, also where it has float16, and in which precision the GPU computes."""
    notes: dict[str, object] = {"weights_sha256": hashlib.sha256(weights).hexdigest()}
    return notes | ({"precision": [option.removeprefix("--") for option in options]} if options else {})


def _with_slots(runs: Sequence[Run], end: CpuEnd, constants: Tensors) -> Trace:
    """The trace of the first run, with its slots and with the operators between its jobs."""
    first, second, third = runs
    between = end.between
    by_gpu = set(end.until) - set(between.written)
    outputs, taken, returned = (
        (_only(first.result.outputs, varying), _only(second.result.outputs, varying))
        for varying in (set(names) - constants.keys() for names in (by_gpu, between.taken, between.returned))
    )
    if not end.until:
        outputs = first.result.outputs, second.result.outputs

    def operate(trace: Trace, handed: HandedOver) -> Trace:
        return with_operators_between(trace, end, handed, constants)

    with phase("following inputs, outputs and parameters"):
        return with_slots(
            first.trace(),
            second.trace,
            third.trace,
            (first.inputs, second.inputs),
            outputs,
            of_ncnn,
            work=CpuWork(taken, returned, operate) if between.steps else None,
        )


def _constants(end: CpuEnd, first: Run, second: Run) -> dict[str, Float32]:
    """What the CPU reads or computes and does not depend on the inputs, such as the priors of an SSD."""
    one, two = first.result.outputs, second.result.outputs
    on_cpu = one.keys() if end.steps else set(end.asked) - set(end.until)
    return {name: one[name] for name in on_cpu if np.array_equal(one[name], two[name])}


def _only(tensors: dict[str, Float32], names: Collection[str]) -> dict[str, Float32]:
    return {name: tensor for name, tensor in tensors.items() if name in names}


def _without(tensors: dict[str, Float32], names: Collection[str]) -> dict[str, Float32]:
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def _record(machine: Machine, network: Network, inputs: dict[str, Float32], name: str) -> Run:
    root, gpu = machine.root, machine.gpu
    capture = machine.folder / f"{machine.number}.capture"
    zeros = {name: np.zeros_like(x) for name, x in inputs.items()}

    def job(weights: bytes, data: dict[str, Float32], *, reference: bool = False) -> GuestJob:
        options = network.options
        return ncnn_job(network.param, weights, data, network.until, reference=reference, options=options, gpu=gpu)

    try:
        recorded = with_shader_cache(
            job(network.weights, inputs, reference=True),
            warming=job(network.blank, zeros),
            root=root,
            plugin=machine.plugin,
            timeout=machine.timeout,
        )
        progress = capture.with_suffix(".progress")
        with phase(f"run {machine.number} of {RUNS}", jobs_in(progress, recorded.expected_jobs)):
            arguments = {"capture": str(capture), "progress": str(progress)}
            result = ncnn_result(boot(recorded, root, machine.plugin, arguments, timeout=machine.timeout).files)
    except ProgramError as error:
        raise NetworkError(f"ncnn cannot run the network: {_without_traceback(error.output)}") from error
    versions = result.versions
    meta = {
        "name": name,
        "recorder": TOOL,
        "kernel": root.kernel_name,
        "driver": root.driver_name,
        "framework": f"ncnn {versions['ncnn']}",
    }
    notes = {
        **root.notes,
        "qemu": qemu_version(),
        "guest": versions,
        "param_sha256": hashlib.sha256(network.param).hexdigest(),
    }
    make = functools.partial(convert, capture, ram_end=RAM_END, meta=meta, notes=notes)
    return Run(make, inputs, result)


def _without_traceback(output: str) -> str:
    """What ncnn and the program around it said of what is wrong; lines on the GPU itself begin with "["."""
    other = (" ", "[", "Traceback")
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith(other)]
    return " | ".join(lines[-5:]) or "it said nothing"


def plans(weights: ModelWeights, inputs: tuple[Tensors, Tensors]) -> list[tuple[bytes, Tensors]]:
    """Weights and inputs of the RUNS runs that together betray the slots."""
    first, second = inputs
    return [(weights.data, first), (weights.data, second), (weights.other(), first)]


def program_options(weights: ModelWeights, fp16: bool = False) -> tuple[str, ...]:
    """Options of the guest's program for a network."""
    return (*(("--int8",) if weights.int8 else ()), *(("--fp16",) if fp16 else ()))


def check_result(result: NcnnResult, tolerance: float) -> None:
    """Compare the guest's GPU result with ncnn's CPU result in the same guest.

    Raises:
        RecordError: names the tensor, the largest relative difference and the tolerance.
    """
    for name, reference in result.reference.items():
        difference = relative_difference(result.outputs[name], reference)
        if not difference <= tolerance:
            raise RecordError(
                f"output {name} differs from ncnn's CPU result by {difference:.2e} of its largest value, "
                f"tolerance {tolerance:.0e}"
            )
