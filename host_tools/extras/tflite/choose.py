# SPDX-License-Identifier: BSD-2-Clause
"""Who records a TensorFlow Lite file: what it computes is an ONNX network's from here on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from host_tools.extras.tflite.convert import converted
from host_tools.extras.tflite.file import Subgraph, read
from host_tools.record import onnx_model
from host_tools.record.choosing import AUTO, TINYGRAD, Asked, Choice, choose
from host_tools.record.onnx_model import OnnxModel
from host_tools.record.preflight import NetworkError
from host_tools.support import contained
from host_tools.support.sandbox import Sandbox
from trace_format import limits
from trace_format.files import read_file

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Translated:
    """A file's network.

    Attributes:
        model: as ONNX.
        first: input that is a variable -> its first value.
        states: input that is a variable -> output with what it is after a run.
    """

    model: OnnxModel
    first: dict[str, NDArray[Any]]
    states: dict[str, str]


def choose_tflite(path: Path, shapes: Mapping[str, Shape], **asked: Any) -> Choice:
    """Who records a TensorFlow Lite file's network. Inputs and outputs keep the names of its signature.

    Args:
        path: the file.
        shapes: of inputs, where the file leaves sizes open other than the batch, which is 1.
        asked: as `Asked`.

    Raises:
        NetworkError: as `translated` and `choose`.
        RecordError: as `translated` and `choose`.
        OSError: the file cannot be read.
    """
    found = translated(path, shapes)
    what = Asked(**asked)
    if found.states and what.compiler == AUTO:  # ncnn's recordings find no memory of states, which begin as zeros
        what = replace(what, compiler=TINYGRAD)
    choice = choose(path, found.model, {}, replace(what, values={**found.first, **(what.values or {})}))
    return replace(choice, states=found.states)


def translated(path: Path, shapes: Mapping[str, Shape]) -> Translated:
    """A file's network, which was compared with LiteRT for random inputs.

    Raises:
        NetworkError: it is no TensorFlow Lite file, or damaged; operators have no translation; a shape is missing
            or another than the file's.
        RecordError: what was translated computes something else than LiteRT.
        OSError: it cannot be read.
    """
    from host_tools.extras.tflite import judge  # LiteRT is loaded before the sandbox closes

    assert judge
    sandbox = Sandbox(reads=(path,), cpu_s=limits.READ_S)
    return contained.call(
        "the reader of TensorFlow Lite files", lambda: _translated(path, shapes), Translated, sandbox
    )


def _translated(path: Path, shapes: Mapping[str, Shape]) -> Translated:
    from host_tools.extras.tflite.judge import Judge, compare

    graphs = read(path)
    sizes = _sizes(graphs[0], shapes)
    made = converted(graphs)  # says what cannot be translated before LiteRT is asked
    data = read_file(path, limits.MODEL_BYTES)
    judge = Judge(data, sizes)
    if sizes or any(any(value.is_open) for value in graphs[0].values):  # also sizes between operators may be open
        graphs = _resized(graphs, judge, sizes)
        made = converted(graphs)
    cut = converted(graphs, cut=True)
    compare(judge, lambda: Judge(data, sizes, is_reference=False), graphs[0], made, cut)
    return Translated(onnx_model.described(made.model), dict(made.first), dict(made.states))


def _sizes(graph: Subgraph, shapes: Mapping[str, Shape]) -> dict[int, Shape]:
    """Position of an input -> the shape that was given for it."""
    if unknown := sorted(shapes.keys() - graph.inputs.keys()):
        raise NetworkError(f"no input {unknown[0]!r}; the network has {', '.join(graph.inputs)}")
    found = {}
    for at, (name, number) in enumerate(graph.inputs.items()):
        value = graph.values[number]
        text = "x".join(
            "?" if is_open else str(size) for size, is_open in zip(value.shape, value.is_open, strict=True)
        )
        if name not in shapes:
            if any(value.is_open[1:]):
                raise NetworkError(f"input {name} has the shape {text}: give --shape {name}=... for what is open")
            continue
        given = shapes[name]
        pairs = zip(given, value.shape, value.is_open, strict=False)
        if len(given) != len(value.shape) or any(a != b and not is_open for a, b, is_open in pairs):
            found_text = "x".join(map(str, given))
            raise NetworkError(f"input {name}: expected a shape like {text}, found {found_text}")
        if given != value.shape:
            found[at] = given
    return found


def _resized(graphs: tuple[Subgraph, ...], judge: Any, sizes: Mapping[int, Shape]) -> tuple[Subgraph, ...]:
    """The subgraphs with the sizes that tensors have for these inputs."""
    import numpy as np

    from host_tools.extras.tflite.judge import random_values

    graph = graphs[0]
    numbers = list(graph.inputs.values())
    values = list(graph.values)
    for at, shape in sizes.items():
        values[numbers[at]] = replace(values[numbers[at]], shape=shape)
    judge.run(random_values(replace(graph, values=tuple(values)), np.random.default_rng(0)))
    shapes = judge.shapes()
    values = [replace(value, shape=shapes.get(number, value.shape)) for number, value in enumerate(values)]
    return (replace(graph, values=tuple(values)), *graphs[1:])
