# SPDX-License-Identifier: BSD-2-Clause
"""How steady a reference is that rounds activations to 8 bits, and what is compared where it is not.

A last bit of a sum decides how a value is rounded, and what follows carries the step on: a trained speech
network's result moved by 0.55 with the ways in which ONNX Runtime can compute it. No tolerance at the end says
anything then. The stretches between two roundings do: each starts from what ONNX Runtime rounded, and ends one
step off at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from host_tools.machine.errors import RecordError
from host_tools.record import onnx_model
from host_tools.record.compiled import runner
from host_tools.record.compiled.layout import Layout, laid_out
from host_tools.record.differences import relative_difference
from host_tools.record.onnx_model import OnnxModel
from host_tools.record.rewriting.eight_bits import INSIDE, ROUNDING
from host_tools.record.tolerances import INT8_TOLERANCE, TOLERANCE
from host_tools.support import contained
from host_tools.support.messages import LOG
from host_tools.support.progress import phase

LAST_BIT = 2.0**-23
NUDGES = (LAST_BIT, -LAST_BIT, 2 * LAST_BIT)  # what computes a sigmoid another way is off by as much
DRAWS = 3  # of inputs whose last bits are moved
STEPS = 1
SPREAD = 2  # times as far as the reference moves, a result may be off
Tensors = Mapping[str, NDArray[Any]]


def moves(model: OnnxModel, inputs: Tensors) -> float:
    """How far ONNX Runtime's results are from each other, relative to the largest value: with its optimisations
    and without, and with the last bit of each input moved. States of an LSTM that rounds within are also moved,
    because layers before the LSTM may round the inputs' last bits away.

    Raises:
        RecordError: it cannot run the network.
    """
    usual = onnx_model.session(model)
    base = usual(inputs)
    others = [onnx_model.session(model, level)(inputs) for level in onnx_model.LESS_OPTIMISED]
    if INSIDE in model.operators:
        others += [onnx_model.session(model, nudge=nudge)(inputs) for nudge in NUDGES]
    generator = np.random.default_rng(0)
    for _ in range(DRAWS):
        others.append(usual({name: _moved(value, generator) for name, value in inputs.items()}))
    return max(
        (
            relative_difference(found[name], value)
            for found in others
            for name, value in base.items()
            if value.dtype.kind == "f"
        ),
        default=0.0,
    )


def _moved(value: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    if value.dtype.kind != "f":
        return value
    signs = generator.choice([-LAST_BIT, 0, LAST_BIT], value.shape)
    return np.asarray(value * (1 + signs), value.dtype)


@dataclass(frozen=True)
class Cut:
    """A network that is cut behind each rounding.

    Attributes:
        data: its file: what was rounded is an input, and what is computed for it an output.
        probes: input that was rounded -> that output.
        loose: of these inputs, those that are no more exact than roundings of what they are made of.
        expected: what ONNX Runtime computes for these inputs, by the names of the inputs and of the network's
            outputs.
        rounded: outputs of the network that are roundings, moved at most.
    """

    data: bytes
    probes: dict[str, str]
    loose: tuple[str, ...]
    expected: dict[str, NDArray[Any]]
    rounded: tuple[str, ...] = ()


def cut(data: bytes, inputs: Tensors) -> Cut:
    """Cut a network behind each rounding of activations.

    Args:
        data: the file, as it is compiled.
        inputs: of the network.

    Raises:
        RecordError: ONNX Runtime cannot run it.
    """
    network = onnx.load_model_from_string(data)
    graph = network.graph
    constants = {item.name for item in graph.initializer}
    ends = {item.name for item in graph.output}
    rounded = [
        name
        for node in graph.node
        if node.op_type in ROUNDING and node.input[0] not in constants
        for name in node.output
        if name and name not in ends
    ]
    for name in rounded:
        graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    described = onnx_model.described(network)
    expected = onnx_model.session(described)(inputs)
    del graph.output[len(ends) :]
    probes = {name: f"{name}/computed" for name in rounded}
    for node in graph.node:
        node.output[:] = [probes.get(name, name) for name in node.output]
    for name, probe in probes.items():
        value = expected[name]
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, value.shape))
        graph.output.append(onnx.helper.make_tensor_value_info(probe, kind, None))
    loose = tuple(name for node in graph.node if node.op_type == INSIDE for name in node.output)
    inside = tuple(name for name, probe in probes.items() if probe in loose)
    return Cut(network.SerializeToString(), probes, inside, expected, described.rounded)


def alternatives(cut: Cut, inputs: Tensors) -> list[dict[str, NDArray[Any]]]:
    """Other results of LSTMs that round within, by ONNX Runtime from the same inputs: with the last bits of their
    states moved. After many steps one such bit can decide the whole result."""
    if not cut.loose:
        return []
    model = onnx_model.described(onnx.load_model_from_string(cut.data))
    given = {name: value for name, value in {**inputs, **cut.expected}.items() if name in model.inputs}
    runs = [onnx_model.session(model, nudge=nudge)(given) for nudge in NUDGES]
    return [{name: run[cut.probes[name]] for name in cut.loose} for run in runs]


def wrong(cut: Cut, found: Tensors, others: Sequence[Tensors] = ()) -> str | None:
    """What is wrong with the results of a cut network: the first stretch that is off by more than a step, or, of
    float32, by more than rounding explains.

    Args:
        cut: the network.
        found: its results, without probes of values that the plan does not hold.
        others: from `alternatives`; each is as right as what is expected.
    """
    probes = {name: probe for name, probe in cut.probes.items() if probe in found}
    ends = [*probes.items(), *((name, name) for name in cut.expected if name not in cut.probes)]
    for name, probe in ends:
        expected = cut.expected[name]
        value = found[probe].reshape(expected.shape)
        if expected.dtype.kind == "f":
            difference, most = (
                min(relative_difference(value, right[name]) for right in (cut.expected, *others) if name in right),
                INT8_TOLERANCE if name in cut.loose else TOLERANCE,
            )
        else:
            apart = np.abs(value.astype(np.int64) - expected.astype(np.int64))
            difference, most = (
                float(apart.max(initial=0)),
                STEPS if name in cut.probes or name in cut.rounded else 0,
            )
        if not difference <= most:
            return f"{name}, by {difference:.3g} where {most:.3g} is allowed"
    return None


def steady(model: OnnxModel, inputs: Tensors) -> float:
    """`moves`, in a sandbox."""
    with phase("asking ONNX Runtime how steady its result is"):
        return contained.call("ONNX Runtime", lambda: moves(model, inputs), float)


def compare(data: bytes, inputs: Tensors, why: str, layout: Layout, shaders: Sequence[bytes]) -> None:
    """Compare the stretches between roundings of a network whose end cannot be compared.

    Args:
        data: its file, as it is compiled.
        inputs: of the network.
        why: the end says nothing.
        layout, shaders: of the network's plan, which is cut at what its buffers hold (`Plan.cut`).

    Raises:
        PlanError: what is cut needs more memory than there is.
        RecordError: a stretch computes something else.
    """
    LOG.info("note: %s; compared are the stretches between two roundings", why)
    made = contained.call("ONNX Runtime", lambda: cut(data, inputs), Cut)
    others = contained.call("ONNX Runtime", lambda: alternatives(made, inputs), list[dict[str, NDArray[Any]]])
    with phase("trying the stretches between roundings on this machine"):
        found = runner.judged(laid_out(layout.plan.cut(made.probes)), shaders, {**inputs, **made.expected})
    if said := wrong(made, found, others):
        raise RecordError(
            "a stretch between two roundings computes something else than ONNX Runtime does from the same rounded "
            f"values: {said}"
        )
