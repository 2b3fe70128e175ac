# SPDX-License-Identifier: BSD-2-Clause
"""TorchScript files without PyTorch, which is 200 MB and more.

The format: PyTorch's torch/csrc/jit/docs/serialization.md. A zip archive of version, code, constants, the module
as a pickle, and a file for the elements of each tensor.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
CODE = """class Net(Module):
  __parameters__ = [{names}]
  __buffers__ = []
{tensors}  training : bool
  def forward(self: __torch__.Net, x: Tensor) -> Tensor:
{body}"""


@dataclass(frozen=True)
class _Global:
    """Something of PyTorch's, by name."""

    module: str
    name: str


@dataclass(frozen=True)
class _Call:
    """What is called when the pickle is read; `state`: what the new object is then given."""

    function: _Global
    arguments: tuple[Any, ...] = ()
    state: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Storage:
    """The elements of a tensor, in a file of the archive called `key`."""

    key: str
    count: int


def write(path: Path, body: str, tensors: Mapping[str, Float32]) -> None:
    """Write a module.

    Args:
        path: of the file.
        body: of `forward(self, x)` in TorchScript, indented by 4.
        tensors: its parameters.
    """
    names = "".join(f'"{name}", ' for name in tensors)
    types = "".join(f"  {name} : Tensor\n" for name in tensors)
    code = CODE.format(names=names, tensors=types, body=body)
    state = {name: _tensor(str(at), value.shape) for at, (name, value) in enumerate(tensors.items())}
    module = _Call(_Global("__torch__", "Net"), state={**state, "training": False})
    root = path.stem
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{root}/data.pkl", _pickle(module))
        archive.writestr(f"{root}/code/__torch__.py", code)
        for at, value in enumerate(tensors.values()):
            archive.writestr(f"{root}/data/{at}", np.ascontiguousarray(value, "<f4").tobytes())
        archive.writestr(f"{root}/constants.pkl", _pickle(()))
        archive.writestr(f"{root}/version", "3\n")


def _tensor(key: str, shape: tuple[int, ...]) -> _Call:
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    no_hooks = _Call(_Global("collections", "OrderedDict"))
    arguments = (_Storage(key, math.prod(shape)), 0, shape, strides, False, no_hooks)
    return _Call(_Global("torch._utils", "_rebuild_tensor_v2"), arguments)


def _pickle(value: Any) -> bytes:
    return pickle.PROTO + b"\x02" + _opcodes(value) + pickle.STOP


def _opcodes(value: Any) -> bytes:
    """Python's own pickler is of no use: it wants to import what it names."""
    match value:
        case bool():
            return pickle.NEWTRUE if value else pickle.NEWFALSE
        case int():
            return pickle.BININT + value.to_bytes(4, "little")
        case str():
            return pickle.BINUNICODE + len(value.encode()).to_bytes(4, "little") + value.encode()
        case tuple():
            return pickle.MARK + b"".join(map(_opcodes, value)) + pickle.TUPLE
        case dict():
            items = b"".join(_opcodes(key) + _opcodes(item) for key, item in value.items())
            return pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS
        case _Global():
            return pickle.GLOBAL + f"{value.module}\n{value.name}\n".encode()
        case _Storage():
            words = ("storage", _Global("torch", "FloatStorage"), value.key, "cpu", value.count)
            return _opcodes(words) + pickle.BINPERSID
        case _Call():
            made = _opcodes(value.function) + _opcodes(value.arguments)
            if value.state is None:
                return made + pickle.REDUCE
            return made + pickle.NEWOBJ + _opcodes(value.state) + pickle.BUILD
        case _:
            raise TypeError(f"no opcodes for {value!r}")
