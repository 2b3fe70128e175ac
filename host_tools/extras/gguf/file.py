# SPDX-License-Identifier: BSD-2-Clause
"""A .gguf file: what it says of its network, and where its tensors lie. Nothing in the file is run.

The format: ggml's docs/gguf.md (version 3, little-endian). The file is anybody's, so it is read in a sandbox, and
each count is compared with the bytes that are left before memory is taken for it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host_tools.extras.gguf.types import NAMES, TYPES
from host_tools.record.other_files import HEAD_BYTES, instead
from host_tools.support import contained
from host_tools.support.sandbox import Sandbox
from trace_format import limits
from trace_format.errors import TraceError
from trace_format.files import read_file

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = "general.alignment"  # of tensors' data, in bytes
DEFAULT_ALIGNMENT = 32
ARCHITECTURE = "general.architecture"
# ggml/include/gguf.h: enum gguf_type; the numbers, as struct calls them.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MOST_KEYS = 4096  # llama.cpp's own converters write about 40
MOST_ELEMENTS = 4 << 20  # of all arrays: a vocabulary of 262,144 tokens has 1.3 million
MOST_NAME = 64  # bytes of a tensor's name, ggml's GGML_MAX_NAME
MOST_KEY = 65535  # bytes of a key, by the format
MOST_AXES = 4  # of a tensor, ggml's GGML_MAX_DIMS
HEAD_MEMORY = 2 << 30  # bytes that reading a head may take
SECONDS = 60  # for reading a head


class GgufError(TraceError):
    """A file that is not what the format says; the text has offset, what was expected and what was found."""


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies.

    Attributes:
        name: the file's.
        kind: name of its element type, of `types.NAMES`.
        shape: sizes, the slowest first: NumPy's order, not the file's.
        offset: of its data in the file, in bytes.
        size: of its data, in bytes.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int
    size: int

    @property
    def elements(self) -> int:
        """How many it has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Head:
    """What a file says before its tensors' data.

    Attributes:
        values: key -> number, truth, text or list of these.
        tensors: by name, in the file's order.
        size: of the file, in bytes.
    """

    values: dict[str, Any]
    tensors: dict[str, Tensor]
    size: int

    @property
    def architecture(self) -> str:
        """Name of the network's kind; "" if the file has none."""
        found = self.values.get(ARCHITECTURE, "")
        return found if isinstance(found, str) else ""


def read(path: Path) -> tuple[Head, bytes]:
    """A file's head and all its bytes.

    Raises:
        GgufError: the file is no GGUF file, or damaged.
        LimitError: it is larger than `limits.MODEL_BYTES`.
        OSError: it cannot be read.
    """
    data = read_file(path, limits.MODEL_BYTES)
    return read_head(data), data


def read_head(data: bytes) -> Head:
    """The head of a file of these bytes, read in a sandbox; GgufError: as `read`."""
    sandbox = Sandbox(cpu_s=SECONDS, memory_bytes=HEAD_MEMORY)
    return contained.call("the reader of GGUF files", lambda: _Reader(data).head(), Head, sandbox)


class _Reader:
    """Reads from the front to the back; `at` is the next byte's offset."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.elements = MOST_ELEMENTS  # that arrays may still have

    def head(self) -> Head:
        if self.data[:4] != MAGIC:
            found = f"{self.data[:4]!r}{instead(self.data[:HEAD_BYTES])}"
            raise GgufError("not a GGUF file", offset=0, expected=repr(MAGIC), found=found)
        self.at = len(MAGIC)
        version = self.number("I", "the version")
        if version != VERSION:
            swapped = ", which is big-endian" if version == VERSION << 24 else ""
            raise GgufError("version", offset=4, expected=VERSION, found=f"{version}{swapped}")
        tensors = self.count("tensors", limits.OPERATORS, least=24)
        keys = self.count("keys", MOST_KEYS, least=13)
        values: dict[str, Any] = {}
        for _ in range(keys):
            at = self.at
            key = self.text("a key", MOST_KEY)
            if key in values or not key:
                raise GgufError("key", offset=at, expected="a new name", found=repr(key))
            values[key] = self.value(key)
        return Head(values, self.tensors(tensors, values), len(self.data))

    def take(self, size: int, what: str) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise GgufError(f"{what}: the file ends", offset=self.at, expected=f"{size} bytes", found=len(found))
        self.at += size
        return found

    def number(self, letter: str, what: str) -> Any:
        return struct.unpack(f"<{letter}", self.take(struct.calcsize(letter), what))[0]

    def count(self, what: str, most: int, least: int) -> int:
        """A count of things, each of which takes at least `least` bytes of the file."""
        at = self.at
        found: int = self.number("Q", f"the number of {what}")
        left = (len(self.data) - self.at) // least
        if found > min(most, left):
            why = f"at most {most}" if most <= left else f"at most {left}, for which the file has bytes"
            raise GgufError(f"the number of {what}", offset=at, expected=why, found=found)
        return found

    def text(self, what: str, most: int) -> str:
        at = self.at
        size = self.count(f"bytes of {what}", most, 1)
        try:
            return self.take(size, what).decode()
        except UnicodeDecodeError as error:
            raise GgufError(what, offset=at + 8 + error.start, expected="UTF-8", found=error.reason) from None

    def value(self, key: str) -> Any:
        at = self.at
        kind = self.number("I", f"{key}: its type")
        if kind == ARRAY:
            return self.array(key)
        return self.reading(key, kind, at)()

    def reading(self, key: str, kind: int, at: int) -> Callable[[], Any]:
        """What reads a number, truth or text of a type that stands at `at`."""
        if kind == STRING:
            return lambda: self.text(key, limits.NOTES_BYTES)
        if kind not in NUMBERS:
            raise GgufError(f"{key}: its type", offset=at, expected="a type from 0 to 12", found=kind)
        return lambda: self.finite(key, self.number(NUMBERS[kind], key), self.at)

    def finite(self, what: str, found: Any, end: int) -> Any:
        """A number that ends at an offset."""
        if isinstance(found, float) and not math.isfinite(found):
            at = end - struct.calcsize("f")  # a double's is in its second half
            raise GgufError(what, offset=at, expected="a finite number", found=str(found))
        return found

    def array(self, key: str) -> list[Any]:
        at = self.at
        kind = self.number("I", f"{key}: the type of its elements")
        if kind == ARRAY:
            raise GgufError(f"{key}: its elements", offset=at, expected="numbers or texts", found="arrays")
        one = self.reading(key, kind, at)
        least = 8 if kind == STRING else struct.calcsize(NUMBERS[kind])
        size = self.count(f"elements of {key}", self.elements, least)
        self.elements -= size
        if kind == STRING:
            return [one() for _ in range(size)]
        start = self.at
        form = f"<{size}{NUMBERS[kind]}"
        found = struct.unpack(form, self.take(struct.calcsize(form), key))
        return [self.finite(f"{key}: element {n}", one, start + (n + 1) * least) for n, one in enumerate(found)]

    def tensors(self, count: int, values: dict[str, Any]) -> dict[str, Tensor]:
        alignment = values.get(ALIGNMENT, DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise GgufError(ALIGNMENT, offset=self.at, expected="a power of two from 8", found=alignment)
        places = [self.tensor() for _ in range(count)]
        start = -(-self.at // alignment) * alignment
        found: dict[str, Tensor] = {}
        end = 0
        for at, tensor in sorted(places, key=lambda item: item[1].offset):
            what = f"tensor {tensor.name}"
            if tensor.offset % alignment:
                expected = f"a multiple of {alignment}"
                raise GgufError(f"{what}: its place", offset=at, expected=expected, found=tensor.offset)
            if tensor.offset < end:
                expected = f"at least {end}, where another ends"
                raise GgufError(f"{what}: its place", offset=at, expected=expected, found=tensor.offset)
            end = tensor.offset + tensor.size
            if start + end > len(self.data):
                expected = f"at most {len(self.data) - start}, where the file ends"
                raise GgufError(f"{what}: its end", offset=at, expected=expected, found=end)
        for at, tensor in places:
            if tensor.name in found:
                raise GgufError("tensor", offset=at, expected="a new name", found=repr(tensor.name))
            found[tensor.name] = Tensor(tensor.name, tensor.kind, tensor.shape, start + tensor.offset, tensor.size)
        return found

    def tensor(self) -> tuple[int, Tensor]:
        """A row of the tensors' table: where its place is said, and the tensor, its offset among the data."""
        name = self.text("a tensor's name", MOST_NAME)
        at = self.at
        axes = self.number("I", f"tensor {name}: its number of dimensions")
        if not 1 <= axes <= MOST_AXES:
            raise GgufError(f"tensor {name}: dimensions", offset=at, expected=f"1 to {MOST_AXES}", found=axes)
        shape = tuple(self.number("Q", f"tensor {name}: its sizes") for _ in range(axes))
        elements = math.prod(shape)
        if not 0 < elements < 1 << 40:
            found = "x".join(map(str, shape))
            raise GgufError(f"tensor {name}: its sizes", offset=at + 4, expected="1 to 2^40 elements", found=found)
        at = self.at
        number = self.number("I", f"tensor {name}: its type")
        kind = NAMES.get(number)
        if kind is None:
            raise GgufError(f"tensor {name}: its type", offset=at, expected="a type of ggml's", found=number)
        size = 0  # of a type that nothing here takes, only the place is checked
        if kind in TYPES:
            block, block_bytes = TYPES[kind]
            if shape[0] % block:
                expected = f"a multiple of {block} for {kind}"
                raise GgufError(f"tensor {name}: its rows", offset=at, expected=expected, found=shape[0])
            size = elements // block * block_bytes
        at = self.at
        return at, Tensor(name, kind, shape[::-1], self.number("Q", f"tensor {name}: its place"), size)
