# SPDX-License-Identifier: BSD-2-Clause
"""Recording an ncnn network: three runs of the unmodified stack, compared, become one raw trace with slots."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from host_tools.machine.boot import BOOT_TIMEOUT_S, RAM_END, GuestJob, ProgramError, boot, qemu_version
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot, ready_root
from host_tools.record.convert import convert
from host_tools.record.cpu_layers import CpuEnd
from host_tools.record.model_weights import ModelWeights
from host_tools.record.ncnn_job import Float32, NcnnResult, ncnn_job, ncnn_result
from host_tools.record.operating import check_operators, with_operators
from host_tools.record.preflight import NetworkError, preflight
from host_tools.record.shader_cache import with_shader_cache
from host_tools.record.slots import with_slots
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.progress import phase
from host_tools.support.version import TOOL
from host_tools.vgpu.build import qemu_plugin
from trace_format.trace import Trace

# Largest difference to ncnn's CPU result, relative to the largest value of the tensor.
TOLERANCE = 1e-4
# Where two back ends round an activation differently, it is a step of 1/127 apart, and what follows carries it on.
# Measured on ncnn's benchmark networks: up to 2.6e-2, on this GPU as on a software one with the same shaders.
INT8_TOLERANCE = 5e-2
FP16_TOLERANCE = 1e-2  # activations keep 11 bits, the reference 24; measured: up to 2.5e-3
RUNS = 3  # the weights with one input, with another, and other weights with the first
INPUT_SEEDS = (1, 2)


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
) -> Trace:
    """Record one inference of a network; layers at its end that ncnn computes on the CPU become operators.

    Args:
        param, weights: ncnn's text and binary files.
        shapes: shape of each input blob (channels, height, width), no batch dimension.
        name: name of the trace.
        until: blobs to compute, which become the outputs; empty: all outputs of the network.
        fp16: the GPU keeps weights and activations in half precision; inputs and outputs are float32.
        tolerance: largest difference to ncnn's CPU result, relative to the largest value; None: TOLERANCE, or what
            int8 weights or `fp16` allow. The CPU computes in float32 what is not int8.
        timeout: time limit of each run, in seconds.
        snapshot: of Debian's archive that the guest's packages are of; "" for the newest.

    Raises:
        NetworkError: ncnn cannot run it.
        RecordError: no GPU job, a hang or fault, a result that differs from ncnn's CPU result, a job stream that
            depends on the data, or tensors that cannot be found in memory.
    """
    given = hashlib.sha256(weights).hexdigest()
    checked = preflight(param, weights, shapes, until)
    found, end = checked.weights, checked.end
    options = program_options(found, fp16)
    tolerance = default_tolerance(options) if tolerance is None else tolerance
    root = ready_root(snapshot)
    with phase("compiling the virtual GPU"):
        plugin = qemu_plugin()
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder, ThreadPoolExecutor(2) as pool:
        machines = [Machine(number, root, plugin, Path(folder), gpu, timeout) for number in range(1, RUNS + 1)]
        jobs = [
            pool.submit(_record, machine, Network(param, w, found.blank(), end.until, options), x, name)
            for machine, (w, x) in zip(machines, plans(found, shapes), strict=True)
        ]
        try:
            runs = [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what fails once fails three times
            raise
        for run in runs:
            check_result(run.result, tolerance)
        first, second, third = runs
        with phase("following inputs, outputs and parameters"):
            trace = first.trace()
            trace.notes["weights_sha256"] = given  # of the file, also where its weights are float16
            if options:
                trace.notes["precision"] = [option.removeprefix("--") for option in options]
            fixed = _fixed(end, first, second)
            trace = with_slots(
                trace,
                second.trace,
                third.trace,
                (first.inputs, second.inputs),
                (_without(first.result.outputs, fixed), _without(second.result.outputs, fixed)),
            )
        if end.steps:
            trace = with_operators(trace, end, {name: first.result.outputs[name] for name in fixed})
            check_operators(
                trace, end, (param, found.data), [(r.inputs, r.result.outputs) for r in (first, second)]
            )
        return trace


def _fixed(end: CpuEnd, first: Run, second: Run) -> set[str]:
    """What the CPU gets of the GPU and does not depend on the inputs, such as the priors of an SSD."""
    one, two = first.result.outputs, second.result.outputs
    return {name for name in one if end.steps and np.array_equal(one[name], two[name])}


def _without(tensors: dict[str, Float32], names: set[str]) -> dict[str, Float32]:
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
        with phase(f"run {machine.number} of {RUNS}"):
            arguments = {"capture": str(capture)}
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


def random_inputs(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Float32]:
    """Inputs of distinct values in (0, 1), which can be followed through memory."""
    generator = np.random.default_rng(seed)
    return {name: generator.random(shape, dtype=np.float32) for name, shape in shapes.items()}


def plans(weights: ModelWeights, shapes: Mapping[str, tuple[int, ...]]) -> list[tuple[bytes, dict[str, Float32]]]:
    """Weights and inputs of the RUNS runs that together betray the slots."""
    first, second = (random_inputs(shapes, seed) for seed in INPUT_SEEDS)
    return [(weights.data, first), (weights.data, second), (weights.other(), first)]


def program_options(weights: ModelWeights, fp16: bool = False) -> tuple[str, ...]:
    """Options of the guest's program for a network."""
    return (*(("--int8",) if weights.int8 else ()), *(("--fp16",) if fp16 else ()))


def default_tolerance(options: Sequence[str]) -> float:
    """Largest difference to ncnn's CPU result that rounding explains."""
    if "--int8" in options:
        return INT8_TOLERANCE
    return FP16_TOLERANCE if "--fp16" in options else TOLERANCE


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


def relative_difference(found: Float32, reference: Float32) -> float:
    """Largest absolute difference over the largest absolute value of the reference."""
    if found.shape != reference.shape:
        return float("inf")
    if not reference.size:
        return 0.0
    largest = float(np.max(np.abs(reference)))
    return float(np.max(np.abs(found.astype(np.float64) - reference))) / (largest or 1.0)
