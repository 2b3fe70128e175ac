# SPDX-License-Identifier: BSD-2-Clause
"""QPU programs in Mesa's notation, by the virtual GPU's disassembler (vgpu/qpu/v3d_qpu_disasm.c)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cffi

from host_tools.gpus.v3d.versions import VERSIONS
from host_tools.vgpu import build

WORD_BYTES = 8
MAX_INSTRUCTIONS = 1 << 16  # as in vgpu/qpu/v3d_qpu_program.c
SWITCH_DELAY, BRANCH_DELAY = 2, 3  # instructions after a thrsw, after a branch, that still run
_RELATIVE = re.compile(r"bu?\S*  (-?\d+)")
_UNIFORM = re.compile(
    r"; ldunif(rf)?\b|\btmuau\b|^bu\b|; wrtmuc\b"
)  # not ldunifa, which has an address of its own
_TEXT_BYTES = 256

_ffi = cffi.FFI()
_ffi.cdef("bool v3d_qpu_describe(int version, uint64_t word, char *text, size_t size);")


@dataclass(frozen=True)
class Word:
    """An instruction word; `text` is it in words, or, where it is none (`valid` is false), the reason."""

    word: int
    valid: bool
    text: str

    @property
    def reads_uniform(self) -> bool:
        """Whether it takes the next word of the uniform stream."""
        return self.valid and bool(_UNIFORM.search(self.text))


@functools.cache
def _library() -> Any:
    return _ffi.dlopen(str(build.library()))


@functools.lru_cache(maxsize=1 << 16)
def instruction(gpu: str, word: int) -> Word:
    """One word, as the GPU with this profile reads it. BuildError: the virtual GPU cannot be compiled."""
    text = _ffi.new("char[]", _TEXT_BYTES)
    valid = bool(_library().v3d_qpu_describe(VERSIONS[gpu].number, word, text, _TEXT_BYTES))
    return Word(word, valid, _ffi.string(text).decode())


def program(gpu: str, read: Callable[[int], int | None], single_segment: bool) -> list[Word]:
    """The words of a shader, from its first one to the end of its thread.

    That is where the virtual GPU sees it too: two instructions after the thread switch that ends the last section,
    or the furthest branch target if that is beyond. A word that is no instruction ends it.

    Args:
        gpu: name of the GPU's profile.
        read: the word with a number, counted from the first; None: there is none.
        single_segment: the shader has one section, as bit 1 of CSD_QUEUED_CFG5 says.
    """
    found: list[Word] = []
    end, furthest = MAX_INSTRUCTIONS, 0
    last_section, switching = single_segment, False
    while len(found) < MAX_INSTRUCTIONS and (len(found) <= end or len(found) <= furthest):
        index = len(found)
        word = read(index)
        if word is None:
            break
        decoded = instruction(gpu, word)
        found.append(decoded)
        if not decoded.valid:
            if index >= furthest:
                break
            continue
        branch = _RELATIVE.match(decoded.text)
        if branch and int(branch[1]) >= 0:
            furthest = max(furthest, index + 1 + BRANCH_DELAY + int(branch[1]) // WORD_BYTES)
        thread_switch = "; thrsw" in decoded.text
        if thread_switch and switching:
            last_section = True
        elif thread_switch and last_section and end == MAX_INSTRUCTIONS:
            end = index + SWITCH_DELAY
        switching = thread_switch
    return found
