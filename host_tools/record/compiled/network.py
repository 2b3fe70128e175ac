# SPDX-License-Identifier: BSD-2-Clause
"""An ONNX network by a compiler: compiled, tried on this machine, recorded in the guest, replayed with other
inputs.

Nothing is recorded before the compiled network computes what ONNX Runtime computes, and nothing is kept unless the
guest and a replay of the built recording do, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.model.job_names import NOTE as CALLS
from host_tools.record import onnx_model
from host_tools.record.checking import LEFT_OUT, UNCHECKED, check_replay
from host_tools.record.compiled import runner, simplified, stretches
from host_tools.record.compiled.compilers import TINYGRAD, Compiler
from host_tools.record.compiled.layout import Layout, PlanError, laid_out
from host_tools.record.compiled.plan import Kind, Plan
from host_tools.record.compiled.recording import record_plan
from host_tools.record.compiled.shaders import spirv
from host_tools.record.differences import relative_difference
from host_tools.record.inputs import no_input
from host_tools.record.job_layers import name_jobs
from host_tools.record.onnx_layers import layer_results
from host_tools.record.onnx_model import OnnxModel, Shape
from host_tools.record.preflight import NetworkError
from host_tools.record.products import note_products
from host_tools.record.rewriting.eight_bits import ROUNDING
from host_tools.record.tolerances import default_tolerance
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from trace_format.trace import Trace

SEEDS = (1, 2)  # of the recorded inputs, and of those that a replay is checked with
WHOLE_NUMBERS = (256, 2, 1)  # integers are below the first of these that the network takes
MOST_OF_REFERENCE = 5e-3  # twice what ONNX Runtime moves by may be allowed up to this, where nothing is rounded
Tensors = dict[str, NDArray[Any]]
Slots = Mapping[str, tuple[str, Shape]]
Planned = Callable[[bytes], tuple[Plan, dict[str, Any]]]


@dataclass(frozen=True)
class Compiled:
    """A network that computes on this machine what ONNX Runtime does.

    Attributes:
        layout: the plan and where its buffers lie.
        shaders: SPIR-V of its kernels.
        cases: inputs and what ONNX Runtime makes of them: the recorded ones, and others.
        model: the network itself, with fixed shapes.
        differences: of the plan on lavapipe from these, by output, relative to the largest value.
        tolerance: largest difference that is taken for rounding.
        notes: of who chose kernels, if somebody did.
    """

    layout: Layout
    shaders: list[bytes]
    cases: list[tuple[Tensors, Tensors]]
    model: OnnxModel
    differences: dict[str, float]
    tolerance: float
    notes: Mapping[str, Any] = field(default_factory=dict)


def compile_onnx(
    model: OnnxModel,
    shapes: Mapping[str, Shape],
    *,
    compiler: Compiler = TINYGRAD,
    values: Mapping[str, NDArray[Any]] | None = None,
    tolerance: float | None = None,
    planned: Planned | None = None,
    wide: bool = False,
) -> Compiled:
    """Compile a network and try it.

    Args:
        model: from `onnx_model.read`.
        shapes: of inputs, where the file leaves them open.
        compiler: who compiles it.
        values: of inputs, which a network may need to be likely ones; else random.
        tolerance: largest difference from ONNX Runtime's result, relative to the largest value; None: what
            rounding explains, and what ONNX Runtime itself moves by.
        planned: makes a plan of the simplified file, and notes; None: the compiler makes it with its own kernels.
        wide: kernels load and store vectors (`Family.loads_vectors`).

    Raises:
        NetworkError: ONNX Runtime or the compiler does not take it.
        RecordError: the compiled network computes something else, or a package is missing.
    """
    full = model.shapes(shapes)
    fixed, data, halves = simplified.simplified(model, full)
    model = replace(model, data=fixed)
    kinds = {name: simplified.NARROWER_NAMES.get(kind, kind) for name, kind in model.types.items()}
    cases = _cases(model, {name: (kinds[name], shape) for name, shape in full.items()}, values or {})
    is_open = tolerance is None
    rounds = is_open and not model.operators.keys().isdisjoint(ROUNDING)
    own = stretches.steady(model, cases[0][0]) if rounds else 0.0
    if tolerance is None:
        tolerance = default_tolerance(("--int8",) if rounds else (), halves)
    if planned is not None:
        plan, notes = planned(data)
    else:
        plan, notes = compiler.plan(data, wide=wide), {}
    try:
        layout, shaders = ready(plan)
        with phase("trying the compiled network on this machine"):
            results = [runner.judged(layout, shaders, given) for given, _ in cases]
        if is_open:
            compare = partial(stretches.compare, data, layout=layout, shaders=shaders) if rounds else None
            tolerance = _widened(model, cases, results, tolerance, own, compare)
        differences: dict[str, float] = {}
        for found, (_, expected) in zip(results, cases, strict=True):
            _compare(found, expected, tolerance, "on lavapipe", differences, model.rounded)
    except PlanError as error:
        raise NetworkError(f"{compiler.name}'s plan cannot be run: {error}") from error
    return Compiled(layout, shaders, cases, model, differences, tolerance, notes)


def foreseen(plan: Plan, compiler: str) -> Layout:
    """A plan as `ready` will make it, but for the values of constants that have to be prepared.

    Raises:
        NetworkError: the runner cannot have it.
    """
    preparing, plan = plan.preparing()
    made = {
        name: np.zeros(preparing.buffers[at].size, np.uint8) for name, at in preparing.named(Kind.OUTPUT).items()
    }
    try:
        return laid_out(plan.with_constants(made).trimmed())
    except PlanError as error:
        raise NetworkError(f"{compiler}'s plan cannot be run: {error}") from error


def ready(plan: Plan) -> tuple[Layout, list[bytes]]:
    """A plan as the runner takes it: constants prepared, buffers placed, kernels compiled.

    Raises:
        PlanError: the runner cannot have it.
        RecordError: a kernel is refused, or lavapipe cannot prepare the constants.
    """
    preparing, plan = plan.preparing()
    if preparing.calls:
        with phase("preparing constants"):
            made = runner.judged(laid_out(preparing), spirv(preparing.kernels), {})
            plan = plan.with_constants({name: value.view(np.uint8) for name, value in made.items()})
    layout = laid_out(plan.trimmed())
    return layout, spirv(layout.plan.kernels)


def record_compiled(
    compiled: Compiled,
    *,
    name: str,
    gpu: str,
    timeout: float,
    snapshot: str = "",
    check: bool = True,
    expected_to: Path | None = None,
    notes: Mapping[str, Any],
) -> Trace:
    """Record a compiled network; arguments as for `record_network`.

    Raises:
        RecordError: as `record_plan`; the guest, or a replay with another input, computes something else.
    """
    (given, expected), *others = compiled.cases
    trace, left = record_plan(
        compiled.layout,
        compiled.shaders,
        given,
        name=name,
        gpu=gpu,
        timeout=timeout,
        snapshot=snapshot,
        notes={**notes, **compiled.notes, CALLS: [call.name for call in compiled.layout.plan.calls]},
    )
    _compare(left, expected, compiled.tolerance, f"on {gpu}", {}, compiled.model.rounded)
    name_jobs(trace, lambda: layer_results(compiled.model, given), given)
    note_products(trace, compiled.model.data, given)
    if check:
        check_replay(trace, others, compiled.tolerance, "ONNX Runtime's result", expected_to)
    else:
        trace.notes[UNCHECKED] = LEFT_OUT
    return trace


def _cases(model: OnnxModel, slots: Slots, values: Mapping[str, NDArray[Any]]) -> list[tuple[Tensors, Tensors]]:
    """Inputs of each seed and ONNX Runtime's results; `slots`: NumPy's type and the shape of each input."""
    if unknown := sorted(values.keys() - slots.keys()):
        raise NetworkError(no_input(unknown[0], slots))
    with phase("computing the network with ONNX Runtime"):
        return [_case(model, slots, values, seed) for seed in SEEDS]


def _case(
    model: OnnxModel, slots: Slots, values: Mapping[str, NDArray[Any]], seed: int
) -> tuple[Tensors, Tensors]:
    """The first inputs of a seed that ONNX Runtime takes and makes numbers of: masks of 0 and 1 among words, for
    example, of which any other value makes what is none.

    Raises:
        RecordError: it takes none of them.
        NetworkError: of all that it takes, it makes what is no number.
    """
    most, few, one = WHOLE_NUMBERS
    whole = [name for name, (dtype, _) in slots.items() if np.dtype(dtype).kind in "iu" and name not in values]
    limits = [dict.fromkeys(whole, most)]
    if whole:
        limits += [{**limits[0], name: few} for name in whole]
        limits += [dict.fromkeys(whole, few), dict.fromkeys(whole, one)]
    said: RecordError | None = None
    for below in limits:
        given = _inputs(slots, values, seed, below)
        try:
            found = dict(onnx_model.run(model, given))
        except RecordError as error:  # an index outside of a table, for example
            said = said if isinstance(said, NetworkError) else error
            continue
        wrong = sorted(name for name, value in found.items() if not np.isfinite(value).all())
        if not wrong:
            return given, found
        said = NetworkError(
            f"output {wrong[0]}: ONNX Runtime's own result has values that are no numbers, for inputs that were "
            "given or made up; --input NAME=FILE.npy gives likely ones"
        )
    assert said is not None
    raise said


def _inputs(slots: Slots, values: Mapping[str, NDArray[Any]], seed: int, below: Mapping[str, int]) -> Tensors:
    """Inputs of both signs; integers below a number, by name; given ones as they are, and then with some noise."""
    generator = np.random.default_rng(seed)
    found: Tensors = {}
    for name, (dtype, shape) in slots.items():
        kind = np.dtype(dtype)
        if name in values:
            if values[name].shape != shape:
                raise NetworkError(f"input {name}: expected {shape}, found {values[name].shape}")
            value = values[name].astype(kind)
            if kind.kind == "f" and seed != SEEDS[0]:
                value = np.asarray(value * generator.uniform(0.5, 1, value.shape), kind)
        elif kind.kind == "f":
            value = generator.normal(0, 1, shape).astype(kind)
        else:
            value = generator.integers(0, below.get(name, 2), shape).astype(kind)  # 2: of booleans
        found[name] = value
    return found


def _widened(
    model: OnnxModel,
    cases: list[tuple[Tensors, Tensors]],
    results: Sequence[Tensors],
    tolerance: float,
    own: float,
    compare: Callable[[Tensors, str], None] | None,
) -> float:
    """The tolerance, or a larger one for what a reference that moves explains.

    Args:
        model: the network.
        cases, results: what is expected, and what was computed.
        tolerance: the usual one.
        own: by how much the reference moves, if that is known.
        compare: for a network of 8 bits, compares its stretches for inputs, and says why.

    Raises:
        RecordError: a stretch is wrong.
    """
    apart = [
        max(relative_difference(found[of].reshape(value.shape), value) for of, value in expected.items())
        for found, (_, expected) in zip(results, cases, strict=True)
    ]
    most, worst = max(own, *apart), cases[int(np.argmax(apart))][0]
    if most <= tolerance:
        return tolerance
    if compare is not None:
        why = f"the result differs from ONNX Runtime's by {most:.2g}"
        if own > tolerance:
            why = f"ONNX Runtime itself moves by {own:.2g}, by its ways to compute this and by inputs' last bits"
        compare(worst, why)
        return stretches.SPREAD * most
    own = stretches.steady(model, worst)
    allowed = max(tolerance, min(stretches.SPREAD * own, MOST_OF_REFERENCE))
    if allowed > tolerance:
        LOG.info("note: ONNX Runtime itself moves by %.2g, so the result may be %.2g off", own, allowed)
    return allowed


def _compare(
    found: Mapping[str, NDArray[Any]],
    expected: Mapping[str, NDArray[Any]],
    tolerance: float,
    where: str,
    worst: dict[str, float],
    rounded: Collection[str],
) -> None:
    """Compare outputs; whole numbers must be equal, but for those that were rounded at the end.

    Raises:
        RecordError: names the output that differs, and by how much.
    """
    for name, reference in expected.items():
        difference = relative_difference(found[name].reshape(reference.shape), reference)
        allowed = tolerance if reference.dtype.kind == "f" or name in rounded else 0.0
        worst[name] = max(worst.get(name, 0.0), difference)
        if not difference <= allowed:
            raise RecordError(
                f"output {name} of the compiled network differs {where} from ONNX Runtime's result by "
                f"{difference:.2e} of its largest value, tolerance {allowed:.0e}"
            )
