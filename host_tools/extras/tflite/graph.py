# SPDX-License-Identifier: BSD-2-Clause
"""What the translations of TensorFlow Lite's operators have in common: values, layouts, quantised numbers.

Pictures are NHWC in these files and NCHW in ONNX. A value of four dimensions stays in the layout in which it was
made, because most neighbours agree. Where an operator needs the other layout, it is converted once. A quantised
value is kept as whole numbers. Operators compute on what these stand for, and their result is rounded again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.tflite.file import Operator, Steps, Subgraph, Value
from host_tools.record.onnx_graph import Graph, Name, kind_of
from host_tools.record.preflight import NetworkError
from trace_format.errors import printable

FILE, PICTURE = (0, 1, 2, 3), (0, 3, 1, 2)  # layouts, as axes of the file's: NHWC, NCHW
Layout = tuple[int, ...]
Translation = Callable[["Build", Operator], None]
T = TypeVar("T", bound=Translation)
TABLE: dict[str, Translation] = {}
ACTIVATIONS = {1: ("Clip", 0.0, None), 2: ("Clip", -1.0, 1.0), 3: ("Clip", 0.0, 6.0), 4: ("Tanh", None, None)}


def tflite(*kinds: str) -> Callable[[T], T]:
    """Register a function as the translation of these operators."""

    def register(function: T) -> T:
        for kind in kinds:
            assert kind not in TABLE, kind
            TABLE[kind] = function
        return function

    return register


class Build:
    """A subgraph that becomes an ONNX graph.

    Attributes:
        g: the ONNX graph.
        graph: the subgraph.
        graphs: all subgraphs of the file.
        depth: how many subgraphs this one is inside of.
        variables: name of a variable -> ONNX's name of what it is now, in the file's layout.
        first: name of a variable -> its first value, a constant.
        states: name of a variable that is read before it is assigned -> the graph's input for it, and the number
            of the value that it is read as.
        handles: number of a value -> name of the variable that it is a handle of.
        probes: number of a value that an operator rounded -> ONNX's name of it, if the graph is cut there.
        cuts: the same number -> name of the graph's input that stands for it from there on.
    """

    def __init__(self, g: Graph, graphs: Sequence[Subgraph], number: int = 0, cut: bool = False) -> None:
        self.g, self.graphs, self.graph = g, graphs, graphs[number]
        self.depth = 0
        self.variables: dict[str, Name] = {}
        self.first: dict[str, Value] = {}
        self.states: dict[str, tuple[Name, int]] = {}
        self.handles: dict[int, str] = {}
        self.probes: dict[int, Name] = {}
        self.cuts: dict[int, Name] = {}
        self._cut = cut
        self._folded: dict[int, NDArray[Any]] = {}
        self._stored: dict[int, dict[Layout, Name]] = {}
        self._real: dict[int, dict[Layout, Name]] = {}

    def inside(self, number: int) -> Build:
        """Another subgraph, whose nodes are of the same ONNX graph."""
        inner = Build(self.g, self.graphs, number)
        inner.depth = self.depth + 1
        inner.variables, inner.first = dict(self.variables), self.first
        return inner

    def state(self, name: str, number: int) -> Name:
        """An input of the graph for what a variable is at first, by the number of the value that it is read as."""
        self.states[name] = (self.g.name("variable"), number)
        return self.states[name][0]

    # Values

    def value(self, operator: Operator, at: int) -> Value:
        """An input of an operator; NetworkError: it is left out."""
        return self.graph.values[self.number(operator, at)]

    def number(self, operator: Operator, at: int) -> int:
        """Its number; NetworkError: it is left out."""
        if not self.has(operator, at):
            raise NetworkError(f"input {at} is missing")
        return operator.inputs[at]

    def has(self, operator: Operator, at: int) -> bool:
        """Whether an operator has an input."""
        return len(operator.inputs) > at and operator.inputs[at] >= 0

    def constant(self, operator: Operator, at: int) -> NDArray[Any]:
        """An input that the file has; NetworkError: it is computed."""
        content = self.content(self.number(operator, at))
        if content is None:
            name = printable(self.value(operator, at).name)
            raise NetworkError(f"input {at} ({name}) is computed, and is taken as a constant only")
        return content

    def content(self, number: int) -> NDArray[Any] | None:
        """What a value is, if the file has it or operators made it of what the file has."""
        return self._folded.get(number, self.graph.values[number].constant)

    def put_constant(self, operator: Operator, content: NDArray[Any]) -> None:
        """What an operator makes of constants."""
        self._folded[operator.outputs[0]] = content

    def result(self, operator: Operator, at: int = 0) -> Value:
        """What an operator makes."""
        return self.graph.values[operator.outputs[at]]

    # Names of inputs

    def stored(self, number: int, layout: Layout = FILE) -> Name:
        """A value as it is stored: whole numbers where it is quantised."""
        forms = self._stored.setdefault(number, {})
        content = self.content(number)
        if content is not None and layout not in forms:
            forms[layout] = self.g.constant(content.transpose(layout) if layout != FILE else content)
        return self._form(forms, self.graph.values[number], layout)

    def real(self, number: int, layout: Layout = FILE) -> Name:
        """A value as numbers that operators compute with."""
        value = self.graph.values[number]
        if value.steps is None:
            return self.stored(number, layout)
        forms = self._real.setdefault(number, {})
        if layout not in forms:
            source = self.stored(number, layout)
            forms[layout] = self.dequantized(source, value.steps, layout)
        return forms[layout]

    def x(self, operator: Operator, at: int = 0, layout: Layout = FILE) -> Name:
        """`real` of an operator's input."""
        return self.real(self.number(operator, at), layout)

    def picture(self, operator: Operator, at: int = 0) -> Name:
        """`real` of an input of four dimensions, as NCHW."""
        if len(self.value(operator, at).shape) != 4:
            raise NetworkError(f"input {at}: expected 4 dimensions, found {len(self.value(operator, at).shape)}")
        return self.x(operator, at, PICTURE)

    def operand(self, operator: Operator, at: int, layout: Layout) -> Name:
        """`real` of an input that is spread over the others as NumPy does."""
        number = self.number(operator, at)
        value = self.graph.values[number]
        if layout == FILE or len(value.shape) == 4:
            return self.real(number, layout)
        constant = self.content(number)
        assert constant is not None  # or `layout` had been FILE
        name = self.g.constant(constant.reshape(spread_shape(constant.shape)).transpose(layout))
        return name if value.steps is None else self.dequantized(name, value.steps)

    def layout(self, operator: Operator, inputs: Sequence[int]) -> Layout:
        """The layout for an operator that takes numbers one by one: NCHW where an input is there as such only."""
        numbers = [self.number(operator, at) for at in inputs]
        computed = [at for at in numbers if self.content(at) is None]
        if any(len(self.graph.values[at].shape) != 4 for at in (*operator.outputs[:1], *computed)):
            return FILE
        forms = [self._stored.get(at, {}) for at in computed]
        return PICTURE if any(form and FILE not in form for form in forms) else FILE

    def _form(self, forms: dict[Layout, Name], value: Value, layout: Layout) -> Name:
        if layout not in forms:
            if not forms:
                raise NetworkError(f"a damaged file: tensor {printable(value.name)} is used before it is made")
            (old, source), *_ = forms.items()
            forms[layout] = self.g.node("Transpose", source, perm=[old.index(axis) for axis in layout])
        return forms[layout]

    def dequantized(self, source: Name, steps: Steps, layout: Layout = FILE) -> Name:
        """What whole numbers stand for."""
        return self.g.node("DequantizeLinear", source, *self._constants(steps), axis=self._axis(steps, layout))

    def _constants(self, steps: Steps) -> list[Name]:
        one = len(steps.scale) == 1
        return [self.g.constant(part.reshape(()) if one else part) for part in (steps.scale, steps.zero)]

    @staticmethod
    def _axis(steps: Steps, layout: Layout) -> int | None:
        return None if len(steps.scale) == 1 else layout.index(steps.axis) if layout != FILE else steps.axis

    # Results

    def put(
        self, operator: Operator, made: Name, layout: Layout = FILE, at: int = 0, activation: int | None = None
    ) -> None:
        """What an operator makes of numbers: behind its activation, and rounded if it is quantised."""
        if activation is None:
            activation = int(getattr(operator.options, "fusedActivationFunction", 0))
        number = operator.outputs[at]
        value = self.graph.values[number]
        made = self.activated(made, activation)
        if value.steps is not None:
            made = self.g.node(
                "QuantizeLinear", made, *self._constants(value.steps), axis=self._axis(value.steps, layout)
            )
        self.put_stored(number, made, layout)

    def put_stored(self, number: int, made: Name, layout: Layout = FILE, cut: bool = True) -> None:
        """What an operator makes, as it is stored; `cut`: the graph is cut behind it, if graphs are to be."""
        if number in self._stored:
            name = printable(self.graph.values[number].name)
            raise NetworkError(f"a damaged file: tensor {name} is made twice")
        if cut and self._cut and self.graph.values[number].steps is not None:
            self.probes[number] = self._form({layout: made}, self.graph.values[number], FILE)
            made, layout = self.g.name("given"), FILE
            self.cuts[number] = made
        self._stored[number] = {layout: made}

    def moved(self, operator: Operator) -> Callable[[int], Name] | None:
        """`stored`, for operators that only move numbers; None: they would stand for other ones."""
        steps = [self.graph.values[at].steps for at in (*operator.outputs, operator.inputs[0])]
        first = steps[0]
        if all(one is first is None or (one and first and _same(one, first)) for one in steps):
            return self.stored
        return None

    def activated(self, made: Name, activation: int) -> Name:
        """A result behind the activation that is fused with its operator (schema.fbs, ActivationFunctionType)."""
        if not activation:
            return made
        if activation not in ACTIVATIONS:
            raise NetworkError(f"the fused activation {activation}, which is not taken")
        kind, *bounds = ACTIVATIONS[activation]
        if kind == "Clip" and bounds == [0.0, None]:
            return self.g.node("Relu", made)
        names = (None if bound is None else self.g.constant(np.array(bound, np.float32)) for bound in bounds)
        return self.g.node(kind, made, *(names if kind == "Clip" else ()))

    def number_of(self, value: float, dtype: str = "float32") -> Name:
        """A constant."""
        return self.g.constant(np.array(value, dtype))

    def cast(self, name: Name, dtype: str) -> Name:
        """Numbers of another type."""
        return self.g.node("Cast", name, to=kind_of(dtype))


def _same(one: Steps, other: Steps) -> bool:
    return len(one.scale) == 1 == len(other.scale) and (one.scale, one.zero) == (other.scale, other.zero)


def spread_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape of fewer dimensions with ones in front."""
    return (*[1] * (4 - len(shape)), *shape)


def option(operator: Operator, name: str, default: Any = 0) -> Any:
    """An option of an operator, as the schema calls it."""
    return default if operator.options is None else getattr(operator.options, name)


def axes_in(axes: Sequence[int], layout: Layout) -> list[int]:
    """Axes of the file's tensor, in a layout."""
    return [layout.index(axis) for axis in axes]


def counted(axis: int, rank: int) -> int:
    """An axis that is counted from the front; NetworkError: there is no such axis."""
    if not -rank <= axis < max(rank, 1):
        raise NetworkError(f"axis {axis} of a tensor of {rank} dimensions")
    return axis % max(rank, 1)
