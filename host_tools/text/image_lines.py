# SPDX-License-Identifier: BSD-2-Clause
"""The image as lines and back: words in hexadecimal, runs of zeros, and base64 for much that nobody reads.

A line begins with its offset in the image. A group of 2n hexadecimal digits is n bytes, a little-endian number:
what the GPU reads as a word stands there as that word.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from host_tools.model.frames import runs
from host_tools.text.words import WordError, integer, shown
from trace_format.codec import Buffer

LINE_BYTES = 32
ZEROS = 64  # a run of so many is not written out
HEX_IMAGE = 1 << 20  # an image up to this size is hexadecimal in whole; of a larger one, what is marked
BASE64_BYTES = 96
GROUP_BYTES = 8  # most that one group of digits is
_LINE = re.compile(r"(0x[0-9a-fA-F]+):\s*(.*)")
_GROUPS = re.compile(r"(?:[0-9a-fA-F]{2}){1,8}(?:\s+(?:[0-9a-fA-F]{2}){1,8})*")
_COUNT = re.compile(r"(zeros|base64)\s+(\w+)")


@dataclass
class Marks:
    """What is known of places in an image, by offset.

    Attributes:
        above: lines of comment before a place.
        beside: a piece of some bytes that gets a line of its own, and a comment beside it.
        shown: ranges (start, end) that are hexadecimal in any case.
    """

    above: dict[int, list[str]] = field(default_factory=dict)
    beside: dict[int, tuple[int, str]] = field(default_factory=dict)
    shown: list[tuple[int, int]] = field(default_factory=list)


def image_lines(image: Buffer, marks: Marks) -> Iterator[str]:
    """The lines of an image, without what is before them; `image_of` is the inverse."""
    cuts = sorted({0, len(image), *marks.above, *marks.beside, *(at for pair in marks.shown for at in pair)})
    cuts = [at for at in cuts if 0 <= at <= len(image)]
    readable = _Ranges(marks.shown) if len(image) > HEX_IMAGE else None
    position = 0
    for start, end in itertools.pairwise(cuts):
        yield from (f"# {text}" for text in marks.above.get(start, ()))
        if start in marks.beside and start >= position:  # else it lies inside of a piece that has its line
            size, comment = marks.beside[start]
            yield f"{start:#010x}: {_group(image[start : start + size])}  # {comment}"
            position = start + size
        if position < end:
            in_hex = readable is None or readable.contain(position)
            yield from _plain(image, position, end, in_hex)
            position = end


class _Ranges:
    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self.starts = np.array(sorted(start for start, _ in ranges), np.int64)
        order = sorted(ranges)
        self.ends = np.maximum.accumulate(np.array([end for _, end in order] or [0], np.int64))

    def contain(self, at: int) -> bool:
        index = int(np.searchsorted(self.starts, at, "right")) - 1
        return index >= 0 and bool(at < self.ends[index])


def _plain(image: Buffer, start: int, end: int, in_hex: bool) -> Iterator[str]:
    data = np.frombuffer(image, np.uint8, end - start, start)
    step = LINE_BYTES if in_hex else 4096
    position = start
    for first, last in runs(data != 0, ZEROS if in_hex else step):
        first = max(position, start + first - (start + first) % 4)
        last = min(end, start + last + -(start + last) % 4)
        if first - position >= ZEROS:
            yield f"{position:#010x}: zeros {first - position}"
            position = first
        while position < last:
            stop = last if not in_hex else min(last, position - position % LINE_BYTES + LINE_BYTES)
            yield from _data(image, position, stop, in_hex)
            position = stop
    if position < end:
        if end - position >= ZEROS or not in_hex:
            yield f"{position:#010x}: zeros {end - position}"
        else:
            while position < end:
                stop = min(end, position - position % LINE_BYTES + LINE_BYTES)
                yield from _data(image, position, stop, True)
                position = stop


def _data(image: Buffer, start: int, end: int, in_hex: bool) -> Iterator[str]:
    if in_hex:
        words = " ".join(_group(image[at : min(at + 4, end)]) for at in range(start, end, 4))
        yield f"{start:#010x}: {words}"
    else:
        yield f"{start:#010x}: base64 {end - start}"
        yield from base64_lines(image[start:end])


def base64_lines(data: Buffer) -> Iterator[str]:
    """Bytes in base64, in lines of one length."""
    for at in range(0, len(data), BASE64_BYTES):
        yield "  " + base64.b64encode(data[at : at + BASE64_BYTES]).decode()


def _group(data: Buffer) -> str:
    return data[::-1].hex()


class ImageReader:
    """Puts an image together from its lines.

    Args:
        size: bytes that it has to have in the end.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.data = bytearray()
        self.base64 = Base64Reader()

    def take(self, line: str) -> None:
        """The next line, without comments; WordError."""
        found = _LINE.fullmatch(line)
        if found is None:
            if self.base64.missing:
                self.data += self.base64.take(line)
                return
            raise WordError("an offset and bytes, such as `0x00000000: 3f800000`", shown(line))
        self._no_more_base64()
        if integer(found[1], 1 << 40) != len(self.data):
            raise WordError(f"offset {len(self.data):#010x}", found[1])
        counted = _COUNT.fullmatch(found[2])
        if counted:
            count = integer(counted[2], self.size - len(self.data), "a number of bytes")
            if counted[1] == "zeros":
                self.data += bytes(count)
            else:
                self.base64.begin(count)
        elif _GROUPS.fullmatch(found[2]):
            self.data += b"".join(bytes.fromhex(group)[::-1] for group in found[2].split())
        else:
            what = "groups of 2 to 16 hexadecimal digits, `zeros NUMBER` or `base64 NUMBER`"
            raise WordError(what, shown(found[2]))
        if len(self.data) > self.size:
            raise WordError(f"an image of {self.size} bytes", f"{len(self.data)}")

    def end(self) -> bytes:
        """The image; WordError: it is not complete."""
        self._no_more_base64()
        if len(self.data) != self.size:
            raise WordError(f"an image of {self.size} bytes", f"{len(self.data)}")
        return bytes(self.data)

    def _no_more_base64(self) -> None:
        if self.base64.missing:
            raise WordError(f"{self.base64.missing} more bytes in base64", "another line")


class Base64Reader:
    """Lines of base64 that must have a given number of bytes."""

    def __init__(self) -> None:
        self.missing = 0

    def begin(self, count: int) -> None:
        """So many bytes follow."""
        self.missing = count

    def take(self, line: str) -> bytes:
        """The bytes of a line; WordError."""
        try:
            data = base64.b64decode(line.strip(), validate=True)
        except (binascii.Error, ValueError):
            raise WordError("base64", shown(line.strip())) from None
        if not data or len(data) > self.missing:
            raise WordError(f"at most {self.missing} bytes in base64", f"{len(data)}")
        self.missing -= len(data)
        return data
