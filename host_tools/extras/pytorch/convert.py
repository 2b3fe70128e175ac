# SPDX-License-Identifier: BSD-2-Clause
"""A program of torch.export as an ONNX network. Inputs keep forward's names; outputs are out0, out1, .."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from host_tools.extras.pytorch import arithmetic, layers, pictures, recurrent, reductions, shapes
from host_tools.extras.pytorch.graph import TABLE
from host_tools.extras.pytorch.program import Call, Program, read
from host_tools.extras.pytorch.sharing import PERHAPS, View, view_of, written_back
from host_tools.record import onnx_model
from host_tools.record.onnx_graph import OPSET, Graph, Name, Tensor, kind_of
from host_tools.record.onnx_model import OnnxModel
from host_tools.record.preflight import NetworkError
from host_tools.support import contained
from host_tools.support.sandbox import Sandbox
from trace_format import limits
from trace_format.errors import printable

ROOMS = (arithmetic, layers, pictures, recurrent, reductions, shapes)  # which fill TABLE
CHECKS = ("_assert", "sym_constrain", "_assert_tensor_metadata", "_assert_scalar", "_assert_async")
# What translations of a damaged program may raise: its arguments are of any type and value.
ODD = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError, StopIteration)
DECOMPOSED = "torch.export.export(net, inputs).run_decompositions() writes a program without such"


def read_program(path: Path) -> OnnxModel:
    """The network of a .pt2 file.

    Raises:
        NetworkError: as `program.read`, or an operator has no translation; names all that have none.
        OSError: it cannot be read.
    """
    sandbox = Sandbox(reads=(path,), cpu_s=limits.READ_S)
    return contained.call("the reader of PyTorch's files", lambda: _read(path), OnnxModel, sandbox)


def _read(path: Path) -> OnnxModel:
    return onnx_model.described(converted(read(path)))


def converted(program: Program) -> Any:
    """ONNX's message of a program.

    Raises:
        NetworkError: as `read_program`.
    """
    if unknown := sorted({call.operator for call in program.calls if _translation(call.operator) is None}):
        names = ", ".join(map(printable, unknown))
        raise NetworkError(f"operators of PyTorch's that have no translation: {names}; {DECOMPOSED}")
    return _Conversion(program).model()


def _plain(operator: str) -> str:
    """An operator's name without the mark that it changes its argument."""
    changes = operator.endswith("_") and not operator.endswith("__")
    return operator[:-1] if changes else operator


def _translation(operator: str) -> Callable[..., Any] | None:
    if _plain(operator) in CHECKS:
        return _nothing
    return TABLE.get(operator) or TABLE.get(_plain(operator))


def _nothing(g: Graph, **_: Any) -> list[Name]:
    return []


class _Conversion:
    """A program's calls, one after the other."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = Graph()
        self.names: dict[str, Name] = {tensor.name: tensor.name for tensor in program.inputs}
        self.views: dict[str, View] = {}  # in the order in which they were made
        self.lacking: dict[str, str] = {}  # results that were not translated, and whose they are
        self.stale: dict[str, str] = {}  # values whose memory has changed since, and by which operator
        for name, value in program.constants.items():
            self.names[name] = self.graph.constant(value)

    def model(self) -> Any:
        for call in self.program.calls:
            self.add(call)
        outputs = []
        taken = {tensor.name for tensor in self.program.inputs}
        for at, tensor in enumerate(self.program.outputs):
            name = f"out{at}"
            while name in taken:
                name += "_"
            taken.add(name)
            inner = self.name_of(tensor)
            self.graph.nodes.append(onnx.helper.make_node("Identity", [inner], [name], name))
            outputs.append(_info(name, tensor))
        if not outputs:
            raise NetworkError("its forward returns no tensor")
        inputs = [_info(tensor.name, tensor) for tensor in self.program.inputs]
        made = onnx.helper.make_graph(self.graph.nodes, "program", inputs, outputs, self.graph.constants)
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        return onnx.helper.make_model(made, opset_imports=opsets, ir_version=10)

    def name_of(self, tensor: Tensor) -> Name:
        if tensor.name in self.stale:
            raise NetworkError(
                f"{self.stale[tensor.name]} changes memory that {printable(tensor.name)} shares, which is read "
                f"later on; {DECOMPOSED}"
            )
        if tensor.name in self.lacking:
            raise NetworkError(
                f"operator {self.lacking[tensor.name]}: its second result, such as indices, is read"
            )
        if tensor.name not in self.names:
            raise NetworkError(f"a damaged program: {printable(tensor.name)} is used before it is made")
        return self.names[tensor.name]

    def add(self, call: Call) -> None:
        names = self.translated(call)
        for at, (tensor, name) in enumerate(zip(call.results, names, strict=True)):
            if tensor is None:
                continue
            if name is None:
                self.lacking[tensor.name] = call.operator
                continue
            if tensor.name in self.names:
                raise NetworkError(f"a damaged program: {printable(tensor.name)} is made twice")
            self.names[tensor.name] = name
            view = view_of(call, at)
            if view is not None:
                self.views[tensor.name] = view
        first = next(iter(call.arguments.values()), None)
        if _plain(call.operator) != call.operator and isinstance(first, Tensor) and names[0] is not None:
            self.changed(call.operator, first, names[0])
            if call.results and call.results[0] is not None:  # the same memory by another name
                self.views[call.results[0].name] = View(Call("alias", {"self": first}, call.results), 0, first)

    def changed(self, operator: str, first: Tensor, name: Name) -> None:
        """An operator has changed a tensor, which now has a new value: so have others in its memory."""
        self.names[first.name] = name
        fresh, at = {first.name}, first.name
        while at in self.views:
            view, part = self.views[at], at
            at = view.of.name
            lost = part in self.stale or at in self.stale
            whole = None if lost else written_back(self.graph, view, self.names[at], self.names[part])
            if whole is None:
                self.stale[at] = operator
            else:
                self.names[at] = whole
                fresh.add(at)
        root = at
        for value, view in self.views.items():
            if value in fresh or self.root(value) != root:
                continue
            if view.of.name in self.stale or view.call.operator in PERHAPS:
                self.stale[value] = operator
            else:
                renewed = self.translated(view.call)[view.at]
                assert renewed is not None
                self.names[value] = renewed

    def root(self, value: str) -> str:
        """Whose memory a value is in."""
        while value in self.views:
            value = self.views[value].of.name
        return value

    def resolved(self, value: Any) -> Any:
        """An argument whose tensors have the names that they have in the graph."""
        if isinstance(value, Tensor):
            return Tensor(self.name_of(value), value.shape, value.dtype)
        return [self.resolved(item) for item in value] if isinstance(value, list) else value

    def translated(self, call: Call) -> list[Name | None]:
        """The names of a call's results; None for those that are not translated."""
        function = _translation(call.operator)
        assert function is not None
        arguments = {_renamed(name): self.resolved(value) for name, value in call.arguments.items()}
        self.graph.results = tuple(tensor for tensor in call.results if tensor is not None)
        operator = printable(call.operator)
        try:
            inspect.signature(function).bind(self.graph, **arguments)
        except TypeError as error:
            raise NetworkError(f"operator {operator}: {error}") from None
        try:
            made = function(self.graph, **arguments)
        except NetworkError as error:
            raise NetworkError(f"operator {operator}: {error}") from None
        except ODD as error:
            words = printable(f"{type(error).__name__} {error}")[:200]
            raise NetworkError(f"operator {operator} with arguments that it does not take: {words}") from None
        names: list[Name | None] = [made] if isinstance(made, str) else list(made)
        return names + [None] * (len(call.results) - len(names))


def _renamed(argument: str) -> str:
    return "x" if argument in ("self", "input") else argument


def _info(name: str, tensor: Tensor) -> Any:
    return onnx.helper.make_tensor_value_info(name, kind_of(tensor.dtype), tensor.shape)
