# SPDX-License-Identifier: BSD-2-Clause
"""A program of torch.export as an ONNX network. Inputs keep forward's names; outputs are out0, out1, .."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from host_tools.record import onnx_model
from host_tools.record.onnx_model import OnnxModel
from host_tools.record.preflight import NetworkError
from host_tools.record.pytorch import arithmetic, layers, pictures, recurrent, reductions, shapes
from host_tools.record.pytorch.graph import OPSET, TABLE, Graph, Name, kind_of
from host_tools.record.pytorch.program import Call, Program, Tensor, read
from host_tools.support import contained
from host_tools.support.sandbox import Sandbox
from trace_format.errors import printable

ROOMS = (arithmetic, layers, pictures, recurrent, reductions, shapes)  # which fill TABLE
CHECKS = ("_assert", "sym_constrain", "_assert_tensor_metadata", "_assert_scalar", "_assert_async")
# What may return a part of its argument's memory, or all of it.
SHARING = """
    view reshape flatten unflatten squeeze unsqueeze view_as reshape_as alias detach contiguous dropout
    feature_dropout alpha_dropout to type_as float positive permute transpose swapaxes swapdims t numpy_T mT
    movedim expand expand_as broadcast_to chunk split split_with_sizes tensor_split unbind select slice narrow
    lift_fresh
"""
VIEWS = frozenset(SHARING.split())
# What translations of a damaged program may raise: its arguments are of any type and value.
ODD = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError, StopIteration)
DECOMPOSED = "torch.export.export(net, inputs).run_decompositions() writes a program without such"


def read_program(path: Path) -> OnnxModel:
    """The network of a .pt2 file.

    Raises:
        NetworkError: as `program.read`, or an operator has no translation; names all that have none.
        OSError: it cannot be read.
    """
    return contained.call("the reader of PyTorch's files", lambda: _read(path), OnnxModel, Sandbox(reads=(path,)))


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
    """A program's calls, one after the other.

    PyTorch's tensors share memory, ONNX's do not: where a call changes its argument, what shares memory with that
    must not be read any more.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = Graph()
        self.names: dict[str, Name] = {tensor.name: tensor.name for tensor in program.inputs}
        self.owner: dict[str, str] = {}  # whose memory a value is in
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
        function = _translation(call.operator)
        assert function is not None
        arguments = {_renamed(name): self.resolved(value) for name, value in call.arguments.items()}
        self.graph.results = tuple(tensor for tensor in call.results if tensor is not None)
        made = self.translated(call.operator, function, arguments)
        names: list[Name | None] = [made] if isinstance(made, str) else list(made)
        names += [None] * (len(call.results) - len(names))
        for tensor, name in zip(call.results, names, strict=True):
            if tensor is not None and name is not None:
                self.names[tensor.name] = name
            elif tensor is not None:
                self.lacking[tensor.name] = call.operator
        first = next(iter(call.arguments.values()), None)
        if isinstance(first, list):
            first = next((item for item in first if isinstance(item, Tensor)), None)
        if not isinstance(first, Tensor):
            return
        owner = self.owner.get(first.name, first.name)
        if _plain(call.operator) != call.operator and names:
            self.changed(call, first, owner, names[0])
        elif call.operator in VIEWS:
            self.owner |= {tensor.name: owner for tensor in call.results if tensor is not None}

    def changed(self, call: Call, first: Tensor, owner: str, name: Name | None) -> None:
        """A call has changed its first argument, which from now on is what the call has made."""
        assert name is not None
        old = self.names[first.name]
        results = {tensor.name for tensor in call.results if tensor is not None}
        for value in self.names.keys() - results:
            if self.owner.get(value, value) == owner:
                if self.names[value] == old:  # the whole of it by another name
                    self.names[value] = name
                else:
                    self.stale[value] = call.operator
        self.owner |= dict.fromkeys(results, owner)

    def resolved(self, value: Any) -> Any:
        """An argument whose tensors have the names that they have in the graph."""
        if isinstance(value, Tensor):
            return Tensor(self.name_of(value), value.shape, value.dtype)
        return [self.resolved(item) for item in value] if isinstance(value, list) else value

    def translated(
        self, operator: str, function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> Name | Sequence[Name]:
        try:
            inspect.signature(function).bind(self.graph, **arguments)
        except TypeError as error:
            raise NetworkError(f"operator {printable(operator)}: {error}") from None
        try:
            made: Name | Sequence[Name] = function(self.graph, **arguments)
        except NetworkError as error:
            raise NetworkError(f"operator {printable(operator)}: {error}") from None
        except ODD as error:
            words = printable(f"{type(error).__name__} {error}")[:200]
            raise NetworkError(
                f"operator {printable(operator)} with arguments that it does not take: {words}"
            ) from None
        return made


def _renamed(argument: str) -> str:
    return "x" if argument in ("self", "input") else argument


def _info(name: str, tensor: Tensor) -> Any:
    return onnx.helper.make_tensor_value_info(name, kind_of(tensor.dtype), tensor.shape)
