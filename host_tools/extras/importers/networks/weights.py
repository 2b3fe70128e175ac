# SPDX-License-Identifier: BSD-2-Clause
"""Typed slots for an imported recording of a described network, and weights for them from a .npz file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.importers.networks.file import DTYPE, Array, Network, NetworkError
from host_tools.extras.importers.networks.layers import BatchNorm
from host_tools.passes.parameters import bind, without_slots
from host_tools.support.tensors import arrays_of
from trace_format import layout
from trace_format.trace import Trace

Tensors = dict[str, NDArray[np.float32]]  # by name of the slot, in the order of its axes


def describe(trace: Trace, network: Network) -> Trace:
    """An imported recording with the network's slots in place of flat ones; buffers that no job reads have none.

    Args:
        trace: as `import_gpureplay` returns it.

    Raises:
        NetworkError: the buffers are not those of the network.
    """
    what = f"not a recording of {network.name}"
    if len(trace.slots) != len(network.buffers):
        raise NetworkError(f"{what}: number of buffers", expected=len(network.buffers), found=len(trace.slots))
    for index, (slot, buffer) in enumerate(zip(trace.slots, network.buffers, strict=True)):
        if slot.dense_bytes != buffer.bytes:
            raise NetworkError(f"{what}: bytes of buffer {index}", expected=buffer.bytes, found=slot.dense_bytes)
    slots = [
        replace(slot, name=buffer.name, dtype=DTYPE, shape=buffer.shape, strides=buffer.strides)
        for slot, buffer in zip(trace.slots, network.buffers, strict=True)
    ]
    kept = [index for index, slot in enumerate(slots) if slot.name]
    return trace.with_(
        slots=[slots[index] for index in kept],
        actions=without_slots(trace.actions, len(slots), kept),
        notes={**trace.notes, "network": network.name},
    )


def with_weights(trace: Trace, data: bytes, file: str, network: Network) -> Trace:
    """A described recording whose parameters have values; still a recording, which no pass has changed.

    Args:
        trace: as `describe` returns it.
        data, file: content and name of a .npz file.

    Raises:
        GramophoneError: as `read_weights` and `slot_values`.
    """
    with layout.naming(file):
        values = slot_values(read_weights(data, file, network), network)
    return bind(trace, values).with_(raw=True, notes={**trace.notes, "weights": hashlib.sha256(data).hexdigest()})


def read_weights(data: bytes, file: str, network: Network) -> Tensors:
    """The tensors of a network from the content of a .npz file.

    Raises:
        GramophoneError: not such a file, or others than the arrays that the network has.
    """
    shapes = {name: _shape(array, network) for name, array in network.arrays.items()}
    found = arrays_of(data, file, shapes, np.dtype(DTYPE.name.lower()))
    return {array.slot: _arranged(found[name], array, network) for name, array in network.arrays.items()}


def _shape(array: Array, network: Network) -> tuple[int, ...]:
    sizes = network.slots[array.slot].sizes
    return tuple(prod(sizes[axis] for axis in several) for several in array.axes)


def _arranged(values: NDArray[np.float32], array: Array, network: Network) -> NDArray[np.float32]:
    slot = network.slots[array.slot]
    axes = [axis for several in array.axes for axis in several]
    split = values.reshape([slot.sizes[axis] for axis in axes])
    return np.ascontiguousarray(split.transpose([axes.index(axis) for axis in slot.axes]))


def slot_values(tensors: Mapping[str, NDArray[np.float32]], network: Network) -> Tensors:
    """What the slots of parameters must hold for the recorded jobs to compute the network with these tensors.

    Raises:
        NetworkError: a batch norm would take the root of a number that is not above zero.
    """
    values = dict(tensors)
    for layer in network.layers:
        if not isinstance(layer, BatchNorm):
            continue
        gamma, variance = tensors[f"{layer.name}.gamma"], tensors[f"{layer.name}.variance"]
        if not (variance > -layer.epsilon).all():
            raise NetworkError(f"{layer.name}.variance", expected=f"above {-layer.epsilon}", found=variance.min())
        if layer.folded:
            name = f"{layer.name}.weight"
            along_out = [-1 if axis == "out" else 1 for axis in network.slots[name].axes]
            scale = layer.scale(gamma, variance).reshape(along_out)
            values[name] = (tensors[name] * scale).astype(np.float32)
    return values
