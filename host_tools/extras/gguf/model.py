# SPDX-License-Identifier: BSD-2-Clause
"""The decoder that a GGUF file describes: its sizes, and its tensors by their part in it.

Keys and tensors' names: llama.cpp's gguf-py/gguf/constants.py; the arithmetic: its src/llama-model.cpp. What is
not supported is refused by name, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf import blocks
from host_tools.extras.gguf.file import Head, read
from host_tools.extras.gguf.types import TYPES
from host_tools.record.preflight import NetworkError
from trace_format.errors import listed, printable


@dataclass(frozen=True)
class Architecture:
    """What decoders of one name differ in.

    Attributes:
        apart: a pair of elements that RoPE turns is (i, i + half a head), not (2 i, 2 i + 1).
        biased: queries, keys and values have biases.
        normed: each head's queries and keys are divided by their root of the mean square before they are turned.
    """

    apart: bool = False
    biased: bool = False
    normed: bool = False


ARCHITECTURES = {
    "llama": Architecture(),
    "qwen2": Architecture(apart=True, biased=True),
    "qwen3": Architecture(apart=True, normed=True),
}
# Those that people ask for, and what their kernels would need besides.
LACKING = {
    "gemma": "GELU in its gate and a table of tokens that is scaled",
    "gemma2": "GELU in its gate, norms after products, bounded scores and logits, and attention in a window",
    "gemma3": "GELU in its gate, norms after products, and attention in a window",
}
HEADS = (16, 32, 64, 128, 256)  # sizes of a head that the kernels have
WIDEST = 4096  # a norm's workgroup has a lane for 16 elements, and at most 256
LAYER = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
BIASES = ("attn_q", "attn_k", "attn_v")
NORMS = ("attn_q_norm", "attn_k_norm")  # of heads
FREQUENCIES = "rope_freqs.weight"  # divides the angles' frequencies, one for each pair of a head


@dataclass(frozen=True)
class Size:
    """A decoder's sizes.

    Attributes:
        layers, width, hidden: of it; of the residual vector; of what is between gate and down.
        heads, groups: of queries; of keys and values.
        head: elements of a head.
        tokens, context: of the vocabulary; positions that it was trained for.
        base, epsilon: of RoPE's frequencies; of the norms.
    """

    layers: int
    width: int
    hidden: int
    heads: int
    groups: int
    head: int
    tokens: int
    context: int
    base: float
    epsilon: float


@dataclass(frozen=True)
class Model:
    """A file's decoder.

    Attributes:
        head: what the file says.
        data: its bytes.
        size: of the decoder.
        architecture: what it differs in.
    """

    head: Head
    data: bytes
    size: Size
    architecture: Architecture

    def matrix(self, name: str) -> blocks.Blocks | NDArray[Any]:
        """A tensor's weights, as `blocks.matrix`."""
        return blocks.matrix(self.head.tensors[name], self.data)

    def floats(self, name: str) -> NDArray[np.float32]:
        """A tensor as float32 (rows, columns); a vector has one dimension."""
        found = blocks.floats(self.matrix(name))
        return found[0] if len(self.head.tensors[name].shape) == 1 else found

    @property
    def output(self) -> str:
        """The tensor that makes logits: its own, or the table of tokens."""
        return "output.weight" if "output.weight" in self.head.tensors else "token_embd.weight"

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        """Angle of each pair of a head's elements from one position to the next, in radians."""
        half = self.size.head // 2
        found = self.size.base ** (-np.arange(half) / half)
        return found / self.floats(FREQUENCIES) if FREQUENCIES in self.head.tensors else found


def read_model(path: Path) -> Model:
    """The decoder of a file.

    Raises:
        GgufError: the file is no GGUF file, or damaged.
        NetworkError: it is a network, or has an element type, that is not supported; or a tensor is missing.
        OSError: it cannot be read.
    """
    head, data = read(path)
    architecture = ARCHITECTURES.get(head.architecture)
    if architecture is None:
        found = printable(repr(head.architecture))
        if needs := LACKING.get(head.architecture):
            found += f", which needs {needs}"
        raise NetworkError(f"architecture: expected one of {listed(ARCHITECTURES)}, found {found}")
    size = _size(head)
    _check_rope(head, size)
    expected = set()
    for name, shape in _tensors(head, size, architecture):  # ends at the first missing one, whatever a count says
        _check_tensor(head, name, shape)
        expected.add(name)
    if others := sorted(head.tensors.keys() - expected):
        raise NetworkError(f"tensors that architecture {head.architecture} has no place for: {listed(others)}")
    return Model(head, data, size, architecture)


def _number(head: Head, key: str, kind: type[int | float], default: float | None = None) -> Any:
    full = f"{head.architecture}.{key}"
    found = head.values.get(full, default)
    if found is None:
        raise NetworkError(f"key {full} is missing")
    if isinstance(found, bool) or not isinstance(found, (int, kind)) or not 0 < found < 1 << 31:
        raise NetworkError(f"key {full}: expected a number above 0, found {str(found)[:60]}")
    return kind(found)


def _size(head: Head) -> Size:
    width, heads = _number(head, "embedding_length", int), _number(head, "attention.head_count", int)
    size = Size(
        layers=_number(head, "block_count", int),
        width=width,
        hidden=_number(head, "feed_forward_length", int),
        heads=heads,
        groups=_number(head, "attention.head_count_kv", int, heads),
        head=_number(head, "attention.key_length", int, max(width // heads, 1)),
        tokens=_table(head)[0],
        context=_number(head, "context_length", int),
        base=_number(head, "rope.freq_base", float, 10000.0),
        epsilon=_number(head, "attention.layer_norm_rms_epsilon", float),
    )
    if size.head not in HEADS:
        raise NetworkError(f"elements of a head: expected one of {listed(map(str, HEADS))}, found {size.head}")
    if size.heads % size.groups:
        raise NetworkError(f"heads: expected a multiple of {size.groups}, found {size.heads}")
    for what, found in (("embedding_length", width), ("feed_forward_length", size.hidden)):
        if found % 64:
            raise NetworkError(f"{what}: expected a multiple of 64, found {found}")
    if width > WIDEST:
        raise NetworkError(f"embedding_length: expected at most {WIDEST}, found {width}")
    if size.tokens % 16:
        raise NetworkError(f"tokens: expected a multiple of 16, found {size.tokens}")
    return size


def _table(head: Head) -> tuple[int, ...]:
    table = head.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise NetworkError("tensor token_embd.weight is missing, or no matrix")
    return table.shape


def _check_rope(head: Head, size: Size) -> None:
    """NetworkError: positions are told in a way that the kernels have not."""
    scaling = head.values.get(f"{head.architecture}.rope.scaling.type", "none")
    if scaling != "none":
        raise NetworkError(f"rope.scaling.type: expected none, found {printable(str(scaling))}")
    turned = _number(head, "rope.dimension_count", int, size.head)
    values = _number(head, "attention.value_length", int, size.head)
    if (turned, values) != (size.head, size.head):
        what = f"RoPE of all {size.head} elements of a head, and values of as many"
        raise NetworkError(f"heads: expected {what}, found {turned} and {values}")


def _tensors(head: Head, size: Size, architecture: Architecture) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of each tensor."""
    width, own, shared = size.width, size.heads * size.head, size.groups * size.head
    shapes: list[tuple[int, ...]] = [(width,), (own, width), (shared, width), (shared, width), (width, own)]
    shapes += [(width,), (size.hidden, width), (size.hidden, width), (width, size.hidden)]
    yield "token_embd.weight", (size.tokens, width)
    yield "output_norm.weight", (width,)
    if "output.weight" in head.tensors:
        yield "output.weight", (size.tokens, width)
    if FREQUENCIES in head.tensors:
        yield FREQUENCIES, (size.head // 2,)
    for layer in range(size.layers):
        for name, shape in zip(LAYER, shapes, strict=True):
            yield f"blk.{layer}.{name}.weight", shape
            if architecture.biased and name in BIASES:
                yield f"blk.{layer}.{name}.bias", shape[:1]
        for name in NORMS if architecture.normed else ():
            yield f"blk.{layer}.{name}.weight", (size.head,)


def _check_tensor(head: Head, name: str, shape: tuple[int, ...]) -> None:
    tensor = head.tensors.get(name)
    if tensor is None:
        raise NetworkError(f"tensor {name} is missing")
    if tensor.shape != shape:
        expected, found = ("x".join(map(str, sizes)) for sizes in (shape, tensor.shape))
        raise NetworkError(f"tensor {name}: expected {expected}, found {found}")
    if tensor.kind not in TYPES:
        raise NetworkError(f"tensor {name}: expected elements of {listed(TYPES)}, found {tensor.kind}")
    if len(shape) == 1 and tensor.kind != "F32":
        raise NetworkError(f"tensor {name}: expected elements of F32, found {tensor.kind}")
