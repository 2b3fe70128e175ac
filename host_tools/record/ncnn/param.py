# SPDX-License-Identifier: BSD-2-Clause
"""ncnn's .param files: the layers of a network (ncnn docs/developer-guide/param-and-model-file-structure.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trace_format import limits

HALVES = (2, 4)  # type_to of a Cast
ARRAY = -23300  # an option that is an array has this key, less its number


class WrongError(Exception):
    """What is wrong, in one sentence."""


@dataclass
class Layer:
    """A line of the .param file.

    Attributes:
        options: by their numbers, as text; arrays by ARRAY less their numbers.
        bottoms, tops: blobs that it reads and writes.
        line: number of its line.
        needs: what it reads of the .bin: the number of elements of each array.
    """

    type: str
    name: str
    options: dict[int, str]
    bottoms: list[str]
    tops: list[str]
    line: int = 0
    needs: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return f"layer {self.name} ({self.type})"

    @property
    def place(self) -> str:
        """The layer and where it stands."""
        return f"{self}, line {self.line} of the .param file"

    def number(self, key: int, default: int) -> int:
        """An option that is a whole number."""
        return int(self.options.get(key, default))

    def real(self, key: int, default: float) -> float:
        """An option that is a float32."""
        return _float32(self.options[key]) if key in self.options else default

    def numbers(self, key: int) -> list[int]:
        """An option that is an array of whole numbers: its length, then its numbers.

        Raises:
            WrongError: as `array`.
        """
        words = self.options.get(ARRAY - key, "").split(",")
        if not words[0].isdecimal() or int(words[0]) != len(words) - 1:
            raise WrongError(f"{self.place}: expected an array as option {ARRAY - key}, found {','.join(words)!r}")
        return [int(word) for word in words[1:]]

    def array(self, key: int) -> list[float]:
        """An option that is an array of float32: its length, then its numbers.

        Raises:
            WrongError: it is not there, or of another length.
        """
        words = self.options.get(ARRAY - key, "").split(",")
        try:
            length, numbers = int(words[0]), [_float32(word) for word in words[1:]]
        except (ValueError, OverflowError):
            length, numbers = -1, []
        if length != len(numbers):
            raise WrongError(f"{self.place}: expected an array as option {ARRAY - key}, found {','.join(words)!r}")
        return numbers


def _float32(word: str) -> float:
    """A float32 as ncnn reads it (src/paramdict.cpp): a word without point or exponent is its bits, an integer."""
    if any(mark in word for mark in ".eE"):
        return float(word)
    return float(np.array(int(word), np.int32).view(np.float32))


def layers_of(text: str) -> list[Layer]:
    """The layers of a .param file.

    Raises:
        WrongError: a line that is not one of a layer's, or another number of layers than it says.
    """
    limits.check("lines of the .param file", text.count("\n"), limits.OPERATORS)
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines[2:], 3):
        words = line.split()
        if not words:
            continue
        try:
            first, last = 4 + int(words[2]), 4 + int(words[2]) + int(words[3])
            pairs = (word.split("=", 1) for word in words[last:])
            options = {int(key): value for key, value in pairs}
            found.append(Layer(words[0], words[1], options, words[4:first], words[first:last], number))
        except (IndexError, ValueError):
            raise WrongError(f"line {number} of the .param file is not a layer's: {line[:60]!r}") from None
    counts = lines[1].split() if len(lines) > 1 else []
    if len(counts) != 2 or not all(count.isdecimal() for count in counts):
        raise WrongError("line 2 of the .param file: expected the numbers of layers and blobs")
    expected = int(counts[0])
    if len(found) != expected:
        raise WrongError(f"the .param file is cut short: expected {expected} layers, found {len(found)}")
    return found


def casts_to_half(layers: list[Layer]) -> bool:
    """Whether a layer rounds its values to float16 or bfloat16 (ncnn src/layer/cast.h: types 2 and 4).

    ncnn's shaders round them only where the GPU stores halves, its CPU code does always.
    """
    return any(layer.type == "Cast" and layer.number(1, 0) in HALVES for layer in layers)


def leading_to(layers: list[Layer], blobs: list[str]) -> list[Layer]:
    """The layers that compute these blobs; all, if there are none.

    Raises:
        WrongError: the network has no such blob.
    """
    maker = {top: layer for layer in layers for top in layer.tops}
    for blob in blobs:
        if blob not in maker:
            raise WrongError(f"no blob {blob!r} to stop at; the network has {', '.join(list(maker)[-8:])}")
    wanted, taken = list(blobs), list[Layer]()
    while wanted:
        layer = maker.get(wanted.pop())
        if layer is not None and layer not in taken:
            taken.append(layer)
            wanted += layer.bottoms
    return [layer for layer in layers if layer in taken] if blobs else layers
