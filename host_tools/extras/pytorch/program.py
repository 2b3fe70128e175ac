# SPDX-License-Identifier: BSD-2-Clause
"""A .pt2 file, as torch.export.save writes it since PyTorch 2.8: a zip archive of JSON and plain weights.

The format: PyTorch's torch/_export/serde/schema.py (version 8) and torch/csrc/export/pt2_archive_constants.h.
Nothing in it is run, and nothing of it is unpickled.
"""

from __future__ import annotations

import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Tensor
from host_tools.record.preflight import NetworkError
from trace_format import limits
from trace_format.errors import printable
from trace_format.files import open_regular

MAJOR = 8  # of the schema: "bumped every time a breaking change is made"
# Numbers of schema.py's ScalarType. NumPy has no bfloat16.
DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    28: "uint16",
    34: "uint32",
    35: "uint64",
}
# What zipfile raises for archives that are none, damaged, or encrypted.
UNREADABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, lzma.LZMAError)
OLDER = "torch.export of PyTorch 2.8 or newer writes it"
MODEL, WEIGHTS, CONSTANTS = "models/model.json", "data/weights/", "data/constants/"
CONFIGS = {WEIGHTS: "model_weights_config.json", CONSTANTS: "model_constants_config.json"}


@dataclass(frozen=True)
class Call:
    """A call of an operator of ATen's.

    Attributes:
        operator: its name without namespace and overload: `conv2d`, or `relu_`, which changes its argument.
        arguments: by the names of ATen's declaration: numbers, texts, types as `Dtype`, tensors as `Tensor`, and
            lists of these.
        results: what it makes.
    """

    operator: str
    arguments: Mapping[str, Any]
    results: tuple[Tensor | None, ...]


class Dtype(str):
    """NumPy's name of a type, as an argument."""


@dataclass(frozen=True)
class Program:
    """An exported program.

    Attributes:
        inputs: of `forward`, in order.
        constants: weights and buffers, by the names that calls have for them.
        calls: in their order.
        outputs: what `forward` returns.
        version: of PyTorch.
    """

    inputs: tuple[Tensor, ...]
    constants: Mapping[str, NDArray[Any]]
    calls: tuple[Call, ...]
    outputs: tuple[Tensor, ...]
    version: str


def is_program(path: Path) -> bool:
    """Whether a file is a zip archive with a program of torch.export's."""
    try:
        with open_regular(path, limits.MODEL_BYTES) as file, zipfile.ZipFile(file) as archive:
            return any(_below(name) == MODEL for name in archive.namelist())
    except (*UNREADABLE, ValueError):
        return False


def read(path: Path) -> Program:
    """Read a .pt2 file.

    Raises:
        NetworkError: it is none, it is damaged, another version wrote it, its shapes are open, or it changes or
            returns something else than tensors.
        OSError: it cannot be read.
    """
    try:
        with open_regular(path, limits.MODEL_BYTES) as file, zipfile.ZipFile(file) as archive:
            return _Reader(archive).program()
    except (*UNREADABLE, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise NetworkError(f"not a file of torch.export.save, or one that was cut off: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise NetworkError(f"a damaged file of torch.export.save: {type(error).__name__} {error}") from None


def _below(name: str) -> str:
    """A member's name below the folder in which all of them lie."""
    return name.partition("/")[2]


class _Reader:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.members = {_below(item.filename): item for item in archive.infolist()}
        claimed = sum(item.file_size for item in self.members.values())
        limits.check("bytes that the archive unpacks to", claimed, limits.MODEL_BYTES)
        if MODEL not in self.members:
            raise NetworkError(f"not a program of torch.export: there is no {MODEL} in it; {OLDER}")
        if self.content("byteorder", "little") != "little":
            raise NetworkError("weights in the order of bytes of another machine: expected little")
        saved = self.json(MODEL)
        major = saved["schema_version"]["major"]
        if major != MAJOR:
            raise NetworkError(f"a program of schema version {major!r:.20}: expected {MAJOR}; {OLDER}")
        self.version = str(saved["torch_version"])[:40]
        self.module = saved["graph_module"]
        self.graph = self.module["graph"]
        self.values: dict[str, Tensor | None] = {}

    def bytes(self, name: str) -> bytes:
        return self.archive.read(self.members[name])

    def json(self, name: str) -> Any:
        limits.check(f"bytes of {name}", self.members[name].file_size, limits.NOTES_BYTES)
        return json.loads(self.bytes(name))

    def content(self, name: str, default: str) -> str:
        return self.bytes(name).decode() if name in self.members else default

    def program(self) -> Program:
        saved = self.constants()
        inputs, constants = [], {}
        for spec in self.module["signature"]["input_specs"]:
            ((kind, item),) = spec.items()
            if kind == "constant_input":  # a number that `forward` was given: it is in the calls
                continue
            name = item["arg"]["name"] if kind != "user_input" else _tensor_name(item["arg"], "an input")
            if kind == "user_input":
                inputs.append(self.tensor(name))
                continue
            key = next((item[key] for key in _NAMES if key in item), None)
            if key not in saved:
                raise NetworkError(f"input {printable(name)} is a {printable(kind)}, which is not in the file")
            constants[name] = self.checked(name, saved[key])
        limits.check("operators of the network", len(self.graph["nodes"]), limits.OPERATORS)
        calls = tuple(self.call(node) for node in self.graph["nodes"])
        outputs = []
        for spec in self.module["signature"]["output_specs"]:
            ((kind, item),) = spec.items()
            if kind != "user_output":
                of = next((item[key] for key in _NAMES if key in item), "")
                raise NetworkError(
                    f"it changes {printable(of)} ({printable(kind)}): make its state an input and an output"
                )
            if "as_none" not in item["arg"]:
                outputs.append(self.tensor(_tensor_name(item["arg"], "an output")))
        return Program(tuple(inputs), constants, calls, tuple(outputs), self.version)

    def constants(self) -> dict[str, NDArray[Any]]:
        """Weights, buffers and other tensors of the file, by the names that the network has for them."""
        found = {}
        for folder, config in CONFIGS.items():
            if folder + config not in self.members:
                continue
            for name, meta in self.json(folder + config)["config"].items():
                tensor = self.described(name, meta["tensor_meta"])
                if meta["use_pickle"]:
                    raise NetworkError(f"{printable(name)} is no plain tensor (a subclass, or an object)")
                data = self.bytes(folder + meta["path_name"])
                found[name] = _strided(tensor, meta["tensor_meta"], data)
        return found

    def described(self, name: str, meta: Mapping[str, Any]) -> Tensor:
        dtype = DTYPES.get(meta["dtype"])
        if dtype is None:
            raise NetworkError(
                f"tensor {printable(name)} is of a type that is not taken (ScalarType {meta['dtype']})"
            )
        return Tensor(name, tuple(_size(name, size) for size in meta["sizes"]), dtype)

    def tensor(self, name: str) -> Tensor:
        return self.described(name, self.graph["tensor_values"][name])

    def checked(self, name: str, value: NDArray[Any]) -> NDArray[Any]:
        """A constant, as the graph describes it."""
        tensor = self.tensor(name)
        if value.shape != tensor.shape or value.dtype.name != tensor.dtype:
            raise NetworkError(f"constant {printable(name)} is described in two ways")
        return value

    def call(self, node: Mapping[str, Any]) -> Call:
        target = str(node["target"])
        words = target.split(".")
        if words[:2] != ["torch", "ops"] or len(words) < 4:
            raise NetworkError(f"a call of {printable(target)}: expected an operator of ATen's")
        operator = words[3] if words[2] == "aten" else f"{words[2]}::{words[3]}"
        arguments = {item["name"]: self.argument(operator, item["arg"]) for item in node["inputs"]}
        results: list[Tensor | None] = []
        for item in node["outputs"]:
            made = self.argument(operator, item)
            results += made if isinstance(made, list) else [made]
        return Call(operator, arguments, tuple(results))

    def argument(self, operator: str, saved: Mapping[str, Any]) -> Any:
        """A value of schema.py's union `Argument`."""
        ((kind, value),) = saved.items()
        if kind == "as_none":
            return None
        if kind in _PLAIN:
            return value
        if kind in ("as_float", "as_floats"):  # those that JSON does not have are texts
            return [float(item) for item in value] if isinstance(value, list) else float(value)
        if kind == "as_tensor":
            return self.tensor(value["name"])
        if kind == "as_tensors":
            return [self.tensor(item["name"]) for item in value]
        if kind == "as_optional_tensor":
            return self.argument(operator, value)
        if kind == "as_optional_tensors":
            return [self.argument(operator, item) for item in value]
        if kind == "as_scalar_type":
            return Dtype(DTYPES.get(value, f"ScalarType {value}"))
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return _known(operator, value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [_known(operator, item) for item in value]
        if kind in ("as_memory_format", "as_layout", "as_device"):
            return None  # says where and how memory lies, not what is in it
        raise NetworkError(f"operator {printable(operator)} with an argument of the kind {printable(kind)}")


_NAMES = ("parameter_name", "buffer_name", "tensor_constant_name", "user_input_name")
_PLAIN = ("as_int", "as_ints", "as_bool", "as_bools", "as_string", "as_strings")


def _tensor_name(argument: Mapping[str, Any], what: str) -> str:
    if "as_tensor" not in argument:
        raise NetworkError(f"{what} of forward is no tensor")
    return str(argument["as_tensor"]["name"])


def _size(name: str, size: Mapping[str, Any]) -> int:
    if "as_int" not in size:
        raise NetworkError(f"tensor {printable(name)} has an open dimension: export it without dynamic_shapes")
    return int(size["as_int"])


def _known(operator: str, value: Mapping[str, Any]) -> Any:
    if "as_name" in value:
        raise NetworkError(f"operator {printable(operator)} takes a size that is known when it runs only")
    return next(iter(value.values()))


def _strided(tensor: Tensor, meta: Mapping[str, Any], data: bytes) -> NDArray[Any]:
    """A tensor in its storage, which other tensors may share, copied out of it."""
    kind = np.dtype(tensor.dtype)
    strides = [_size(tensor.name, stride) for stride in meta["strides"]]
    offset = _size(tensor.name, meta["storage_offset"])
    if min([offset, *strides, *tensor.shape]) < 0 or len(strides) != len(tensor.shape):
        raise NetworkError(f"tensor {printable(tensor.name)} has a shape or strides that no tensor has")
    reach = offset + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True)) + 1
    if 0 in tensor.shape:
        return np.zeros(tensor.shape, kind)
    if reach * kind.itemsize > len(data) or math.prod(tensor.shape) * kind.itemsize > limits.MODEL_BYTES:
        raise NetworkError(f"tensor {printable(tensor.name)} reaches beyond its {len(data)} bytes")
    whole = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    steps = [stride * kind.itemsize for stride in strides]
    return np.array(np.lib.stride_tricks.as_strided(whole[offset:], tensor.shape, steps, writeable=False))
