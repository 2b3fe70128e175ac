# SPDX-License-Identifier: BSD-2-Clause
"""TensorFlow Lite's operators that run other subgraphs, and its variables, which outlive a run."""

from __future__ import annotations

from host_tools.extras.tflite.file import Operator
from host_tools.extras.tflite.graph import TABLE, Build, option, tflite
from host_tools.extras.tflite.spectra import check_complex
from host_tools.record.onnx_graph import Name
from host_tools.record.preflight import NetworkError
from trace_format.errors import printable

ODD = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError)
MOST_NESTED = 8  # subgraphs in each other


def translate(b: Build) -> None:
    """Translate all operators of a subgraph, in order.

    Raises:
        NetworkError: names the operator that cannot be translated, and its first result.
    """
    for number, operator in enumerate(b.graph.operators):
        name = b.graph.values[operator.outputs[0]].name if operator.outputs else ""
        place = f"operator {number} ({printable(operator.kind)}{', ' + printable(name) if name else ''})"
        try:
            check_complex(b, operator)
            TABLE[operator.kind](b, operator)
        except NetworkError as error:
            raise NetworkError(f"{place}: {error}") from None
        except ODD as error:
            words = printable(f"{type(error).__name__} {error}")[:200]
            raise NetworkError(f"{place}: what it does not take: {words}") from None


@tflite("IF")
def _if(b: Build, operator: Operator) -> None:
    """Both branches are computed, because the GPU's jobs are the same in every replay; the condition selects."""
    numbers = [option(operator, f"{which}SubgraphIndex") for which in ("then", "else")]
    condition = b.content(b.number(operator, 0))
    if condition is not None:
        (made,) = _branches(b, operator, [numbers[0] if condition.all() else numbers[1]])
        for at, name in enumerate(made):
            b.put_stored(operator.outputs[at], name)
        return
    ways = _branches(b, operator, numbers)
    chosen = b.x(operator)
    for at, pair in enumerate(zip(*ways, strict=True)):
        b.put_stored(operator.outputs[at], b.g.node("Where", chosen, *pair))


def _branches(b: Build, operator: Operator, numbers: list[int]) -> list[list[Name]]:
    made = []
    for number in numbers:
        if not 0 < number < len(b.graphs) or b.depth >= MOST_NESTED:
            raise NetworkError(f"subgraph {number} of {len(b.graphs)}, at depth {b.depth}")
        inner = b.inside(number)
        for at, name in zip(inner.graph.inputs.values(), operator.inputs[1:], strict=True):
            inner.put_stored(at, b.stored(name))
        translate(inner)
        if inner.variables != b.variables:
            raise NetworkError("a branch that assigns a variable, which is not taken")
        made.append([inner.stored(at) for at in inner.graph.outputs.values()])
    return made


@tflite("CALL_ONCE")
def _once(b: Build, operator: Operator) -> None:
    """First values of variables, which must be constants."""
    number = option(operator, "initSubgraphIndex")
    if not 0 < number < len(b.graphs):
        raise NetworkError(f"subgraph {number} of {len(b.graphs)}")
    graph = b.graphs[number]
    names = {}
    for one in graph.operators:
        if one.kind == "VAR_HANDLE":
            names[one.outputs[0]] = _name(one)
        elif one.kind == "ASSIGN_VARIABLE" and graph.values[one.inputs[1]].constant is not None:
            b.first[names[one.inputs[0]]] = graph.values[one.inputs[1]]
        else:
            raise NetworkError(f"{printable(one.kind)} in the subgraph that gives first values")


def _name(operator: Operator) -> str:
    name: bytes = option(operator, "sharedName", b"") or b""
    return name.decode("utf-8", "replace")


@tflite("VAR_HANDLE")
def _handle(b: Build, operator: Operator) -> None:
    b.handles[operator.outputs[0]] = _name(operator)


@tflite("READ_VARIABLE")
def _read(b: Build, operator: Operator) -> None:
    b.put_stored(operator.outputs[0], _variable(b, operator, operator.outputs[0]), cut=False)


@tflite("ASSIGN_VARIABLE")
def _assign(b: Build, operator: Operator) -> None:
    number = b.number(operator, 1)
    _variable(b, operator, number)
    b.variables[b.handles[operator.inputs[0]]] = b.stored(number)


def _variable(b: Build, operator: Operator, number: int) -> Name:
    """What a variable is now: at first an input of the network, like the value of this number."""
    name = b.handles[operator.inputs[0]]
    if name not in b.variables:
        b.variables[name] = b.state(name, number)
    return b.variables[name]
