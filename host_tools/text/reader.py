# SPDX-License-Identifier: BSD-2-Clause
"""Reads a trace's text (docs/TEXT.md): every line is checked, and what is wrong is said with its number.

Blocks begin in the first column; what belongs to them is indented. Comments and empty lines are passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from host_tools.text.blocks import BLOCKS, MANY, REQUIRED, Block, Text, gpu_of
from host_tools.text.storage import Storage, StorageError, file_of
from host_tools.text.words import TextError, WordError, shown, without_comment
from host_tools.text.writer import FIRST_LINE
from trace_format import limits
from trace_format.actions import array_of
from trace_format.errors import TraceError
from trace_format.trace import Trace


def assemble(source: str, file: str) -> tuple[bytes, Trace]:
    """The trace that a text says: its file, and what `Trace.parse` makes of that.

    Args:
        source: the text.
        file: its name, for errors.

    Raises:
        TextError: a line is not what it should be, or what it says breaks a rule of the format.
    """
    reader = _Reader(file, limits.decoded_bytes(len(source)))
    for number, line in enumerate(re.finditer(r"[^\n]*\n?", source), 1):  # one at a time: there may be many
        reader.take(number, without_comment(line[0]))
    return reader.end()


class _Reader:
    def __init__(self, file: str, most_bytes: int) -> None:
        self.file = file
        self.text = Text(most_bytes)
        self.number = 0
        self.block: Block | None = None
        self.name = ""
        self.began = False

    def take(self, number: int, line: str) -> None:
        """A line without its comment."""
        if not line.strip():
            return
        indented = line[0] in " \t"
        if not indented and self.block is not None:
            self._end_block()
        self.number = number
        self._located(self._line, line, indented)

    def _line(self, line: str, indented: bool) -> None:
        if not self.began:
            if line != FIRST_LINE:
                raise WordError(f"`{FIRST_LINE}` as the first line", shown(line))
            self.began = True
        elif not indented:
            self._begin_block(line)
        elif self.block is None:
            raise WordError("a block, which begins in the first column", shown(line.strip()))
        else:
            before = self._sizes()
            self.block.take(line)
            for name, (old, new) in zip(
                ("action", "section"), zip(before, self._sizes(), strict=True), strict=True
            ):
                if new > old:
                    self.text.lines.setdefault(name, []).append(self.number)

    def _sizes(self) -> tuple[int, int]:
        return len(self.text.actions), len(self.text.sections or ())

    def _begin_block(self, line: str) -> None:
        name = line.split()[0]
        order = list(BLOCKS)
        if name not in BLOCKS:
            raise WordError(f"a block ({', '.join(order)})", shown(line))
        again = name == self.name and name not in MANY
        if self.name and (again or order.index(name) < order.index(self.name)):
            raise WordError(
                f"blocks in this order, each once: {', '.join(order)}", f"`{name}` after `{self.name}`"
            )
        if not self.name and name != "manifest":
            raise WordError("the manifest as the first block", shown(line))
        self.name = name
        self.text.lines[name] = [self.number]
        self.block = BLOCKS[name](self.text, line)

    def _end_block(self) -> None:
        if self.block is not None:
            self._located(self.block.end)

    def _located(self, do: Callable[..., None], *args: Any) -> None:
        try:
            do(*args)
        except (WordError, TraceError) as error:
            raise TextError(self.file, self.number, str(error)) from None

    def end(self) -> tuple[bytes, Trace]:
        """All lines were there."""
        self.number = max(self.number, 1)
        if self.began:
            self._end_block()
        else:
            self._located(self._line, "", False)
        for name in REQUIRED:
            if name not in self.text.lines:
                raise TextError(self.file, self.number, f"expected `{name}`, found the end of the text")
        trace = self._trace()
        storage = None
        if self.text.sections is not None:
            storage = Storage(self.text.chunk_bytes, self.text.sections)
        try:
            data = file_of(trace, storage, self.text.notes)
            return data, Trace.parse(data)
        except StorageError as error:
            line = self._line_of("section", error.index) or self.text.lines["storage"][0]
            raise TextError(self.file, line, str(error)) from None
        except TraceError as error:
            line = self._line_of("action", error.action) or self.text.lines["manifest"][0]
            raise TextError(self.file, line, str(error)) from None

    def _line_of(self, name: str, index: int | None) -> int:
        return self.text.lines[name][index] if index is not None and name in self.text.lines else 0

    def _trace(self) -> Trace:
        text = self.text
        return Trace(
            gpu=gpu_of(text).name,
            actions=array_of(text.actions),
            image=text.image,
            carveout_bytes=text.numbers["carveout_bytes"],
            va_bytes=text.numbers["va_bytes"],
            slots=text.slots,
            meta=text.meta,
            notes=json.loads(text.notes) if text.notes is not None else {},
            raw=text.raw,
            networks=text.networks,
        )
