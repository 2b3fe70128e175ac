# SPDX-License-Identifier: BSD-2-Clause
"""The networks of GPUReplay's public recordings: what lies in their buffers, and what their jobs compute of it.

A recording says only where buffers lie. What they hold was found by executing the recorded shaders and comparing
each job with NumPy. A file NETWORK.toml has it, in these keys; all elements are float32.

title: the network, for people
slots: the buffers in the recording's order (that of gr_sync_as): parameters, then the input, the output last
    bytes    size of the buffer
    name     of the slot; left out, no job reads the buffer and there is no slot
    axes     what each dimension is, outermost first: "out", "in", "y", "x" of weights, "y", "x", "channel" of an
             input. Bytes of the buffer that shape and strides do not reach are not used.
    shape    dimensions
    strides  bytes from an element to the next along each dimension; left out, there are no gaps
layers: the network's layers in order, each a `kind` and the attributes of its class in layers.py. The parameters
    of a layer called NAME are the slots NAME.weight and NAME.bias (which may be missing); of a batch norm
    NAME.mean, NAME.variance, NAME.beta and NAME.gamma.
arrays: of a file of weights, by name: the `slot` that an array is for, and the `axes` of that slot along each
    dimension of the array, several where the array has them in one. Left out, arrays are as the slots.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING, dataclass, fields, replace
from importlib import resources
from math import prod
from typing import Any, get_type_hints

from host_tools.extras.importers.networks.layers import KINDS, BatchNorm, Convolution, Dense, Flatten, Layer
from trace_format.errors import TraceError, listed
from trace_format.schema import DTYPE_BYTES, MAX_SLOT_BYTES, DType, SlotKind
from trace_format.toml_table import Table, loads

DTYPE = DType.FLOAT32
ITEM = DTYPE_BYTES[DTYPE]
STATISTICS = ("mean", "variance", "beta", "gamma")


class NetworkError(TraceError):
    """The description of a network is malformed, or a recording is not of that network."""


@dataclass(frozen=True)
class Buffer:
    """A buffer of a recording, `bytes` large; without a name no job reads it. The rest is as of a trace's slot."""

    bytes: int
    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: SlotKind

    @property
    def sizes(self) -> dict[str, int]:
        """Elements along each axis."""
        return dict(zip(self.axes, self.shape, strict=True))


@dataclass(frozen=True)
class Array:
    """An array in a file of weights: of which slot, and which of its axes are along each dimension."""

    slot: str
    axes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Network:
    """What a file says; see the module's text. `slots` are the buffers that have a name."""

    name: str
    title: str
    buffers: tuple[Buffer, ...]
    layers: tuple[Layer, ...]
    arrays: dict[str, Array]

    @property
    def slots(self) -> dict[str, Buffer]:
        """The buffers that become slots, by name."""
        return {buffer.name: buffer for buffer in self.buffers if buffer.name}

    @property
    def parameters(self) -> dict[str, Buffer]:
        """The slots of weights, by name."""
        return {name: slot for name, slot in self.slots.items() if slot.kind == SlotKind.PARAMETER}


def names() -> list[str]:
    """The networks that are described."""
    found = resources.files(__package__).iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in found if entry.name.endswith(".toml"))


def load(name: str) -> Network:
    """The description of one of `names()`; NetworkError when there is none or its file is malformed."""
    if name not in names():
        raise NetworkError(f"no network {name!r} is described; there are: {', '.join(names())}")
    return parse(name, (resources.files(__package__) / f"{name}.toml").read_bytes())


def parse(name: str, text: bytes) -> Network:
    """Read a description.

    Raises:
        NetworkError: naming the file and, by number, the slot or layer.
    """
    try:
        return _parse(name, text)
    except NetworkError as error:
        error.file = f"{name}.toml"
        raise


def _parse(name: str, text: bytes) -> Network:
    top = Table(loads(text, NetworkError), "", NetworkError)
    rows, layers, arrays = top.take("slots", list), top.take("layers", list), top.take("arrays", dict, {})
    network = Network(
        name,
        top.text("title"),
        tuple(_buffer(_table(row, f"slot {index}"), len(rows) - index) for index, row in enumerate(rows)),
        tuple(_layer(_table(row, f"layer {index}")) for index, row in enumerate(layers)),
        {array: _array(_table(row, f"arrays.{array}")) for array, row in arrays.items()},
    )
    top.end()
    _check_names(network)
    if not network.arrays:
        parameters = network.parameters.items()
        network = replace(network, arrays={n: Array(n, tuple((axis,) for axis in s.axes)) for n, s in parameters})
    _check_arrays(network)
    return network


def _table(row: object, where: str) -> Table:
    if not isinstance(row, dict):
        raise NetworkError(where, expected="a table", found=repr(row))
    return Table(row, where, NetworkError)


def _buffer(table: Table, from_end: int) -> Buffer:
    size = table.number("bytes", MAX_SLOT_BYTES)
    kind = {1: SlotKind.OUTPUT, 2: SlotKind.INPUT}.get(from_end, SlotKind.PARAMETER)
    if not table.rows:
        return Buffer(size, "", (), (), (), kind)
    name, axes = table.text("name"), tuple(table.text("axes").split())
    shape = _numbers(table, "shape", table.take("shape", list))
    dense = [prod(shape[axis + 1 :]) * ITEM for axis in range(len(shape))]
    strides = _numbers(table, "strides", table.take("strides", list, dense))
    table.end()
    if not len(set(axes)) == len(axes) == len(shape) == len(strides):
        raise table.fail(
            "axes, shape and strides", "as many of each, no axis twice", f"{axes}, {shape}, {strides}"
        )
    span = sum((dim - 1) * stride for dim, stride in zip(shape, strides, strict=True)) + ITEM
    if span > size:
        raise table.fail("bytes that shape and strides reach", f"at most {size}", span)
    return Buffer(size, name, axes, shape, strides, kind)


def _numbers(table: Table, key: str, values: list[Any]) -> tuple[int, ...]:
    if any(type(value) is not int or value < 1 for value in values):
        raise table.fail(key, "a list of whole numbers above 0", values)
    return tuple(values)


def _layer(table: Table) -> Layer:
    name = table.text("kind")
    if name not in KINDS:
        raise table.fail("kind", f"one of {', '.join(KINDS)}", repr(name))
    kind = KINDS[name]
    types = get_type_hints(kind)
    values = {
        item.name: table.take(item.name, types[item.name], None if item.default is MISSING else item.default)
        for item in fields(kind)
    }
    table.end()
    for key, value in values.items():
        if type(value) is int and value < (0 if key.startswith("pad") else 1):
            raise table.fail(key, "a larger number", value)
    layer = kind(**values)
    if isinstance(layer, Flatten) and sorted(layer.order.split()) != ["channel", "x", "y"]:
        raise table.fail("order", '"channel", "y" and "x" in some order', repr(layer.order))
    return layer


def _array(table: Table) -> Array:
    array = Array(table.text("slot"), tuple(tuple(axes.split()) for axes in table.texts("axes")))
    table.end()
    return array


def _check_names(network: Network) -> None:
    """Each slot has a name of its own, and each parameter is one layer's."""
    if len(network.buffers) < 2 or not all(buffer.name for buffer in network.buffers[-2:]):
        raise NetworkError("slots", expected="an input and an output at the end", found=len(network.buffers))
    if len(network.slots) != sum(bool(buffer.name) for buffer in network.buffers):
        raise NetworkError("a name of a slot is used twice")
    used = Counter(name for layer in network.layers for name in _parameters(layer, network))
    wrong = {name for name, count in used.items() if count > 1} | (used.keys() ^ network.parameters.keys())
    if wrong:
        raise NetworkError(f"not one slot and one layer each: {listed(sorted(wrong))}")


def _parameters(layer: Layer, network: Network) -> list[str]:
    match layer:
        case BatchNorm():
            return [f"{layer.name}.{part}" for part in STATISTICS]
        case Convolution() | Dense():
            bias = f"{layer.name}.bias"
            return [f"{layer.name}.weight"] + [bias] * (bias in network.slots)
    return []


def _check_arrays(network: Network) -> None:
    """Each parameter is one array's, with all of its axes."""
    if Counter(array.slot for array in network.arrays.values()) != Counter(network.parameters.keys()):
        raise NetworkError("arrays", expected="one for each parameter", found=", ".join(network.arrays))
    for name, array in network.arrays.items():
        axes = network.slots[array.slot].axes
        found = [axis for several in array.axes for axis in several]
        if sorted(found) != sorted(axes):
            raise NetworkError(f"arrays.{name}: axes", expected=f"those of {array.slot}, {axes}", found=array.axes)
